"""Experiments of the papers, as functions: apps, runs, kills and measurements."""
