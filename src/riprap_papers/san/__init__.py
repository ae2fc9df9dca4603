"""The published evaluation by stochastic activity networks."""
