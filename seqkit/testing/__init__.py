"""Compare a view with a plain list. The laws apply to every view, including your own.

>>> import seqkit as sk
>>> check_view(lambda source: sk.smap(str, source), lambda items: [str(x) for x in items])

Each law is a short function, named after its claim, in `reading`, `laziness`, `failing`, `writing` or
`copying`. The sources used by the laws are useful in other tests too.
"""

from ..core.lazy import public_names
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

__dir__ = public_names(__name__)
