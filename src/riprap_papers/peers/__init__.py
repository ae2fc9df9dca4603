"""Equivalent queries on Structured Streaming."""
