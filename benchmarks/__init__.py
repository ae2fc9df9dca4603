"""What `make bench` runs. Every bar is a ratio measured side by side in one run, on warm caches, median of several."""
