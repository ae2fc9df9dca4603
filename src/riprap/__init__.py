"""Riprap: find the operators of a streaming application worth protecting, protect exactly those, prove it."""

__version__ = "0.1.0"
