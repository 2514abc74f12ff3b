"""Observe an expression: its structure, its items, and the time that each view takes."""

from ..core.lazy_imports import public_names
from .debug import debug
from .diagnosis import Diagnosis
from .explain import Explanation, explain
from .measurement import Stage
from .monitor_throughput import monitor_throughput
from .preview import Preview, preview
from .profile import profile
from .report import Profile
from .status import Status
from .trace import Trace, trace
from .tune import Tuning, tune
from .verify import Verification, verify
from .watch import Watch, watch

__all__ = [
    "Diagnosis",
    "Explanation",
    "Preview",
    "Profile",
    "Stage",
    "Status",
    "Trace",
    "Tuning",
    "Verification",
    "Watch",
    "debug",
    "explain",
    "monitor_throughput",
    "preview",
    "profile",
    "trace",
    "tune",
    "verify",
    "watch",
]

__dir__ = public_names(__name__)
