"""All items computed at once: `materialize`."""
