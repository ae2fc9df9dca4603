"""One life of a processing element: its engine, its channels, and the protocol's commands carried out."""
