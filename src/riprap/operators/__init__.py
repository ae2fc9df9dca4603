"""The operator contract, the built-in operators, and the compiled kernels under them."""
