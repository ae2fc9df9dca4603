"""One incarnation of a processing element: its engine, its channels, and how it carries out a protocol's commands."""
