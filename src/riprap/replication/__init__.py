"""Pure machines: high-availability groups and full replication. They surround the protocol of a run."""
