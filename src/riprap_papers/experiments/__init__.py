"""Experiments of the papers, as functions: apps, runs, kills and what was measured."""
