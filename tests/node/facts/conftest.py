"""What all tests of a node's facts have in common."""

from __future__ import annotations

import pytest

from dsrun.launcher.node.facts import code

from ...support.limits import HANG


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at in time, however busy this machine is."""
    monkeypatch.setattr(code, "SECONDS", HANG)
