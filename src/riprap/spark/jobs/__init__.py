"""Existing PySpark jobs: capture, recorded inputs, and their translation to apps."""
