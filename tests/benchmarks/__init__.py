"""Timings, as ratios to peers measured in the same process, in turn, on the same work.

Run all with ``make bench`` (which installs the peers), or one with
``python -m tests.benchmarks transport``. Nothing here is collected by pytest.
"""
