"""Captures on disk: what was captured and compiled in one process is used by the next."""
