"""Which value an item has: one file per family of combinators."""
