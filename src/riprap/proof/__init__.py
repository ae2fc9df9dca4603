"""Proofs: real faults in a real run, and an oracle that shares no code with the runtime. No Spark."""
