"""Fault models, where to inject them, campaigns of trials, and what they say about each operator. No Spark."""
