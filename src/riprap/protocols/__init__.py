"""Checkpoint protocols as pure state machines: events in, commands out. No I/O, no clock, no own randomness."""
