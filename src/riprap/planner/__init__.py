"""Where to keep backups: the fewest for a bound on recovery latency, and the best protection for a budget. No Spark."""
