"""The view of all elements of a run: incarnations, states, recovery lines, counts."""
