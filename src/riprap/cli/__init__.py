"""The command line: one file per command. The only package that reads arguments and configuration."""
