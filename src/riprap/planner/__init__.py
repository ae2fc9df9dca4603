"""Plans: the cheapest backups for a bound on recovery latency, and the best protection for a budget. Without Spark."""
