"""Pages of comparisons and repeated experiments."""
