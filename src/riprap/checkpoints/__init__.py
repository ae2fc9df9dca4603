"""Checkpoints: the state of operators on disk, and how it is restored. No Spark."""
