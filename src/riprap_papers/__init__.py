"""Published experiments, repeated with Riprap: tables, figures, workloads and protocol comparisons.

Nothing in `riprap` imports this package. It adds its commands and apps through entry points.
"""
