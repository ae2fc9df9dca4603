"""Continuous eventual checkpoints: an operator's state in small pieces, mixed with its own persistent output."""
