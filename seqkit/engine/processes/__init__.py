"""Worker processes, on Linux. See ../README.md."""
