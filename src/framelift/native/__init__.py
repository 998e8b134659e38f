"""The sources of both extension modules, and what builds the one that fits only one torch."""
