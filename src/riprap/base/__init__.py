"""What every other package stands on: errors, quantities, the clock, seeded randomness. Imports nothing of Riprap."""
