"""Sources in turns: `interleave`."""
