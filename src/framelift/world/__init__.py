"""What the interpreter's operations mean: on plain Python objects, or seen through the door."""
