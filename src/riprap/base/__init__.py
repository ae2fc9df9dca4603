"""The lowest layer: errors, quantities, the clock, files, seeded randomness. Imports no other package of Riprap."""
