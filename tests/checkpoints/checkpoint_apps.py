"""Small apps with one stateful operator each, and their input."""
