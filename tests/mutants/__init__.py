"""Faults that the tests must notice: small changes of the package, each undone after its test run.

The faults of a room are in a text file of its name. About half of them undo a fix of the history. Its commit
follows the sentence that says what breaks. A file begins with the arguments of the pytest runs of its room::

    run tests/engine

    A worker that died is not replaced, so its item fails at once. [1a2b3c4]
    @ engine/scheduler.py
    - if chunk.deaths >= self._options.retries:
    + if True:

`python -m tests.mutants`, or `make mutants`, runs them. The lines with a minus must occur exactly once in the
file, at any indentation. So a fault survives changes around it, and says so if its own lines have changed.
"""
