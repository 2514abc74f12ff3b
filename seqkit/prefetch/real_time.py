"""The clocks of the engine. Libraries that freeze the time in tests, such as freezegun, do not find them.

Such a library replaces the functions of `time` in every module. With a frozen clock the engine would wait for
a deadline that never comes.
"""

from __future__ import annotations

import time
from functools import partial

# These are called for every item. A `partial` adds no Python call.
monotonic = partial(time.monotonic)
monotonic_ns = partial(time.monotonic_ns)
perf_counter_ns = partial(time.perf_counter_ns)
