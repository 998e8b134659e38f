"""Generators of random numbers: Python's, NumPy's and torch's. `handlers` serves their functions."""
