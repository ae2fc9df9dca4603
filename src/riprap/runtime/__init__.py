"""The processing element: fragments, channels, the loop, the coordinator; the simulated host. No Spark."""
