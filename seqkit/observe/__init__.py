"""Observe an expression: its structure, its items, and the time that each view takes."""

from .debug import debug
from .diagnosis import Diagnosis
from .explain import explain, notebook
from .measurement import Stage
from .monitor_throughput import monitor_throughput
from .profile import profile
from .report import Profile
from .tune import Tuning, tune
from .verify import Verification, verify
from .watch import Status, Watch, watch

__all__ = [
    "Diagnosis",
    "Profile",
    "Stage",
    "Status",
    "Tuning",
    "Verification",
    "Watch",
    "debug",
    "explain",
    "monitor_throughput",
    "notebook",
    "profile",
    "tune",
    "verify",
    "watch",
]
