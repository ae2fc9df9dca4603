"""Fault models, targets, campaigns of trials, and their results for each operator. Independent of Spark."""
