"""Published tables and topologies."""
