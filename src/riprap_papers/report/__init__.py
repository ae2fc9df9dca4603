"""Reports of comparisons and repeated experiments."""
