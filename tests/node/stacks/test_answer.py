"""What is asked of which process, and what is told of the others."""

from __future__ import annotations

import pytest

from dsrun.launcher.node.stacks import answer
from dsrun.launcher.node.stacks.family import Member

WORKER = Member(0, 7, 1, "python", "S", "", python=True, tracer=0)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, ""),
        ({"python": False}, ""),
        ({"python": False, "pid": 8}, "it does not run Python"),
        ({"state": "Z"}, "it has ended"),
        ({"tracer": 99, "state": "t"}, "pid 99 traces it, such as a debugger"),
        ({"state": "D"}, ""),
        ({"state": "T"}, ""),
    ],
)
def test_which_processes_are_read(changed: dict[str, object], problem: str) -> None:
    """A worker may be a Python of any name; one that a debugger holds is left to it."""
    assert answer._obstacle(WORKER._replace(**changed), {7}) == problem  # type: ignore[arg-type]
