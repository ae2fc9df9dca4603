"""Proofs: real faults in a real run, and an oracle that knows nothing of how the run works. No Spark."""
