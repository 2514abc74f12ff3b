"""Observe an expression: its structure, its items, and the time that each view takes."""

from .debug import debug
from .explain import Explanation, explain, notebook
from .monitor_throughput import monitor_throughput
from .preview import Preview, preview
from .profile import Profile, Stage, profile
from .trace import Trace, trace
from .tune import Tuning, tune
from .verify import Verification, verify

__all__ = [
    "Explanation",
    "Preview",
    "Profile",
    "Stage",
    "Trace",
    "Tuning",
    "Verification",
    "debug",
    "explain",
    "monitor_throughput",
    "notebook",
    "preview",
    "profile",
    "trace",
    "tune",
    "verify",
]
