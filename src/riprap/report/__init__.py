"""Reports: HTML as a pure function of recorded results."""
