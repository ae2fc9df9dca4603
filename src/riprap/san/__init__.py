"""Stochastic activity networks: the formalism as data, one sampler, an interpreter, a compiler, exact solution.

`riprap.san.streaming` builds such networks from streaming applications and simulates them without moving tokens.
"""
