"""Stochastic activity networks: the formalism as data, the samplers, the compiler and replications.

`riprap.san.streaming` builds such networks from streaming applications and simulates them without moving tokens.
"""
