"""Comparing protocols: workloads × protocols × intervals × failures, what is measured of each, and what it advises."""
