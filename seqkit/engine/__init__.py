"""Compute items ahead of the consumer, in threads, processes or other engines. See README.md."""
