"""The ways to read a loader that its tests run over."""

from __future__ import annotations

import pytest

__all__ = ["WAYS"]

WAYS = [
    pytest.param({}, id="no workers"),
    pytest.param({"num_workers": 2, "method": "thread"}, id="threads"),
    pytest.param({"num_workers": 2}, id="processes"),
    pytest.param({"num_workers": 2, "persistent_workers": True}, id="persistent processes"),
]
