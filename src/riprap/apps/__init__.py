"""Example applications, one file each, and the data they run on."""
