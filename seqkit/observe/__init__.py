"""Observe an expression: its structure, its items, and the time that each view takes."""

from ..core.lazy import public_names
from .diagnosis import Diagnosis as Diagnosis
from .diagnosis import Stage as Stage
from .explain import Explanation as Explanation
from .explain import explain as explain
from .preview import Preview as Preview
from .preview import preview as preview
from .profile import Profile as Profile
from .profile import profile as profile
from .show_versions import show_versions as show_versions
from .taps import debug as debug
from .taps import monitor_throughput as monitor_throughput
from .trace import Trace as Trace
from .trace import trace as trace
from .tune import Tuning as Tuning
from .tune import tune as tune
from .verify import Verification as Verification
from .verify import verify as verify
from .watch import Status as Status
from .watch import Watch as Watch
from .watch import watch as watch

__all__ = [
    *("Diagnosis", "Explanation", "Preview", "Profile", "Stage", "Status", "Trace", "Tuning", "Verification"),
    *("Watch", "debug", "explain", "monitor_throughput", "preview", "profile", "show_versions", "trace"),
    *("tune", "verify", "watch"),
]

__dir__ = public_names(__name__)
