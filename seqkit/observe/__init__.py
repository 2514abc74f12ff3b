"""Observe an expression: its structure, its items, and the time that each view takes."""

from .debug import debug
from .explain import explain, notebook
from .measurement import Stage
from .monitor_throughput import monitor_throughput
from .profile import profile
from .report import Profile
from .tune import Tuning, tune
from .verify import Verification, verify

__all__ = [
    "Profile",
    "Stage",
    "Tuning",
    "Verification",
    "debug",
    "explain",
    "monitor_throughput",
    "notebook",
    "profile",
    "tune",
    "verify",
]
