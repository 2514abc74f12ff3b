"""Items kept for later: in memory, in a folder, or in one file."""
