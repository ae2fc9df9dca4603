"""Processing elements: layout, channels, the main loop, transport and coordination. No Spark."""
