"""NumPy's arrays, numbers and functions, through torch's implementation of NumPy.

`arrays` does operations of arrays in a trace, `handlers` serves NumPy's functions and the ways between arrays
and tensors, `values` has the rules of NumPy's types.
"""
