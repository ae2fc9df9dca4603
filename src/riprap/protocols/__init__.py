"""Pure machines: events in, commands out. No I/O, no clock, no randomness of their own."""
