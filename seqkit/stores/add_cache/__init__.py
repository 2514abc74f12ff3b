"""Items kept as they are read: `add_cache`."""
