"""Comparison with `torch.compile` of the same torch: `make bench`, or `python -m bench --help`."""
