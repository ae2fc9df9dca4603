"""The immutable stream graph: operator specifications, ports, streams, annotations, plans; validation; drawing."""
