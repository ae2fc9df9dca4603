"""Translates captured plans to apps: one file for each family of Spark's plan nodes."""
