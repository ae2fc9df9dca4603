"""Example apps, one file each, and their input data."""
