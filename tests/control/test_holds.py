"""Which hold a name means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import holds, local

from ..support.local_control import new_name, serving

if TYPE_CHECKING:
    from dsrun.launcher.head.local.server import Caller, Verb

FAR = 1e12
"""Later than any hold that really runs on this machine was started."""


def started(since: object) -> dict[str, Verb]:
    """What a hold answers that was started then."""

    def status(_: Caller, __: dict[str, Any], ___: list[int]) -> dict[str, Any]:
        return {"since": since}

    return {"status": status, "describe": lambda *_: {"since": since}}


def silent(*_: object) -> None:
    """Never answer."""


def since(name: str) -> float:
    with holds.find(name) as client:
        return float(client.ask({"do": "describe"})["since"])


def test_a_hold_is_found_by_its_name() -> None:
    with serving(started(1.0), local.HOLD) as one, serving(started(2.0), local.HOLD) as other:
        assert (since(one.name), since(other.name)) == (1.0, 2.0)


def test_last_is_the_newest_of_those_that_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holds, "PATIENCE", 0.1)
    with (
        serving(started(FAR + 1), local.HOLD),
        serving(started(FAR + 2), local.HOLD),
        serving(started(FAR), local.HOLD),
        serving(started("not a time"), local.HOLD),
        serving({"status": silent}, local.HOLD),
    ):
        assert since("last") == FAR + 2


@pytest.mark.parametrize("name", ["", "no such hold", "a\nb", "é", "x" * 99])
def test_a_name_that_no_hold_has(name: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--on {name}: no such hold on this machine; ")):
        holds.find(name)


def test_those_that_run_are_named() -> None:
    with serving(started(1.0), local.HOLD) as served:
        name = new_name()
        with pytest.raises(UsageError, match=rf"--x {name}: .*running: .*{served.name}"):
            holds.find(name, "--x")
