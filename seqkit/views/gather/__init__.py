"""Items by index: `gather` and `take`."""
