"""A sequence in one file: `pack` and `load_packed`."""
