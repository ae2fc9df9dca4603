"""High-availability groups and full replication, as pure state machines that wrap the protocol of a run."""
