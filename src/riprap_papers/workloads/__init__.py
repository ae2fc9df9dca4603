"""Standard workloads for comparing protocols: one file each, with their input."""
