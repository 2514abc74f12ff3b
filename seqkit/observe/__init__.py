"""Looking at an expression: how it is built, what its views give, and where the time goes."""

from .debug import debug
from .explain import explain, notebook
from .monitor_throughput import monitor_throughput
from .profile import Profile, Stage, profile

__all__ = ["Profile", "Stage", "debug", "explain", "monitor_throughput", "notebook", "profile"]
