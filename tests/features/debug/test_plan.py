"""Which workers start under a debugger, from the options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.debug.plan import debug_policy
from dsrun.launcher.specs.policies import DebugPolicy

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({}, None),
        ({"debug": "0"}, DebugPolicy(frozenset({0}))),
        ({"debug": "0,3-5"}, DebugPolicy(frozenset({0, 3, 4, 5}))),
        ({"debug": "all", "no_debug_wait": True}, DebugPolicy(frozenset(), wait=False)),
    ],
)
def test_ranks_are_named_or_all(given: dict[str, Any], policy: DebugPolicy | None) -> None:
    assert debug_policy(Options(**given)) == policy


def test_the_file_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    policy = debug_policy(Options(debug="1", debug_file="l.json"))
    assert policy == DebugPolicy(frozenset({1}), file=str(tmp_path / "l.json"))
    assert policy is not None
    assert (policy.has(1), policy.has(0)) == (True, False)
    assert DebugPolicy().has(0)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"debug": "x"}, "--debug 'x': expected ranks such as 0,8-15"),
        ({"debug": "0", "no_python": True}, "--debug: not with --no_python"),
        ({"debug_file": "x"}, "--debug_file: no rank is debugged; name some with --debug RANKS"),
        ({"no_debug_wait": True}, "--no_debug_wait: no rank is debugged"),
        ({"debug": "0", "debug_file": "/none/x"}, "--debug_file /none/x: no folder /none"),
    ],
)
def test_what_cannot_be_debugged_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        debug_policy(Options(**given))
    assert str(caught.value).startswith(problem)
