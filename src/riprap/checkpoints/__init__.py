"""Checkpoints: what of an operator's state is on disk, and how it comes back. No Spark."""
