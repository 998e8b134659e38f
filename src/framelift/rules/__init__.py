"""What a trace does with Python's and torch's own functions and types."""
