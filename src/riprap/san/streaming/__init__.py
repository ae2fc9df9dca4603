"""Models of streaming applications: from a description of the operators to availability and tainted tuples.

description → technique(s) → deployment → either a network of activities (`template`, the reference, tuple by tuple)
or arrays for the accelerated simulator (`accelerated`, which samples counts). Both compute the same metrics.
"""
