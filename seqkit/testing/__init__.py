"""Hold a view against a plain list: the laws that every view obeys, for views of your own too.

>>> import seqkit as sk
>>> check_view(lambda source: sk.smap(str, source), lambda items: [str(x) for x in items])

Each law is a short function named after what it says; they lie in `reading`, `laziness`, `failing`,
`writing` and `copying`. The sources that the laws lay under a view serve in tests of other things too, and
`seqkit.testing.strategies` offers keys, index batches and plans to Hypothesis.
"""

from .check import check_view
from .sources import CountingSource, ExplodingSource, FailingSource, NarrowSource, UnsizedSource

__all__ = [
    "CountingSource",
    "ExplodingSource",
    "FailingSource",
    "NarrowSource",
    "UnsizedSource",
    "check_view",
]
