"""Which watches a run has."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.head.output.console import Console
from dsrun.launcher.head.watch import attach


def test_what_applies_is_given_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run: Any = type("Run", (), {"spec": 1, "loop": None})
    seen: list[object] = []
    monkeypatch.setattr(Console, "__init__", lambda _self, *given: seen.append(given))
    table = ((lambda spec: spec == 1, ".output.console:Console"), (lambda _spec: False, ".x:Y"))
    closed: list[bool] = []
    monkeypatch.setattr(Console, "close", lambda _self: closed.append(True))
    monkeypatch.setattr(attach, "WATCHES", table)
    monkeypatch.setattr(attach, "HOOKS", table)
    (close,) = attach.attach(run, "screen")  # type: ignore[arg-type]
    assert seen == [(run, "screen")] * 2
    close()
    assert closed == [True]
