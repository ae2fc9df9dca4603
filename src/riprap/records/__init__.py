"""Continuous eventual checkpoints: an operator's state in small records within its own persistent output."""
