"""The testing kit: a simulated host with seeded faults, and a checker of the operator contract."""
