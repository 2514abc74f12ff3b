"""A function over items: `smap`."""
