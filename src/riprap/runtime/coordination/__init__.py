"""What sees all elements of a run: lives, states, recovery lines, counts."""
