"""NumPy's arrays, numbers and functions, through torch's implementation of NumPy."""
