"""Timings, as ratios to peers measured on the same work, in turn, in one process or in forks of it.

Run all with ``make bench`` (which installs the peers), or one with
``python -m benchmarks transport``. Nothing here is collected by pytest.
"""
