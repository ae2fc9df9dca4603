"""Runs a fragment of a graph in one process, batch by batch, in exact order."""
