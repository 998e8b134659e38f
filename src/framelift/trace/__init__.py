"""The state of one trace: what it knows of the outside, and what must be written there at the end."""
