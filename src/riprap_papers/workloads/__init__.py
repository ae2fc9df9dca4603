"""Standard workloads on which protocols are compared: one file each, with the data they run on."""
