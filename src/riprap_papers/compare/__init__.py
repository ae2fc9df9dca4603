"""Comparing protocols: workloads × protocols × intervals × failures, their measurements, and advice."""
