"""What all tests of a node's facts have in common."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.quick_check import node_code as code
from dsrun.launcher.features.quick_check import node_devices as devices

from ...support.limits import HANG


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at in time, and devices answer, however busy this machine is."""
    monkeypatch.setattr(code, "SECONDS", HANG)
    monkeypatch.setattr(devices, "SECONDS", HANG)
