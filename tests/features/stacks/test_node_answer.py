"""What is asked of which process, and what is told of the others."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.stacks import node_answer as answer
from dsrun.launcher.features.stacks import node_faults as faults
from dsrun.launcher.features.stacks import node_py_spy as py_spy
from dsrun.launcher.features.stacks.messages import StacksAsk, ThreadStack
from dsrun.launcher.features.stacks.node_family import Member
from dsrun.launcher.features.stacks.node_py_spy import Reading
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec

WORKER = Member(0, 7, 1, "python", "S", "", python=True, tracer=0)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, ""),
        ({"python": False}, ""),
        ({"python": False, "pid": 8}, "it is not running Python"),
        ({"state": "Z"}, "it has ended"),
        ({"tracer": 99, "state": "t"}, "pid 99, such as a debugger, traces it"),
        ({"state": "D"}, ""),
        ({"state": "T"}, ""),
    ],
)
def test_which_processes_are_read(changed: dict[str, object], problem: str) -> None:
    """A worker may be a Python of any name; one that a debugger holds is left to it."""
    assert answer._obstacle(WORKER._replace(**changed), {7}) == problem  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("native", "told", "ways"),
    [
        (False, {7}, ["worker [7]", "py-spy [8]"]),
        (False, set(), ["worker [7]", "py-spy [7, 8]", "worker [7]"]),
        (True, {7}, ["py-spy [7, 8]", "worker [7]"]),
    ],
)
def test_who_is_asked_first_with_python_3_14(
    monkeypatch: pytest.MonkeyPatch, native: bool, told: set[int], ways: list[str]
) -> None:
    """Process 7 runs it, and 8 an older one, which py-spy can read."""
    asked: list[str] = []

    def written(members: object, _until: float) -> dict[int, tuple[ThreadStack, ...]]:
        pids = [one.pid for one in members]  # type: ignore[attr-defined]
        asked.append(f"worker {pids}")
        return {pid: () for pid in pids if pid in told}

    def spied(members: object, **_: object) -> dict[int, Reading]:
        pids = [one.pid for one, _ in members]  # type: ignore[attr-defined]
        asked.append(f"py-spy {pids}")
        return {pid: Reading((), "py-spy", "too new" if pid == 7 else "") for pid in pids}

    monkeypatch.setattr(py_spy, "find", lambda _: b"py-spy")
    monkeypatch.setattr(py_spy, "read", spied)
    monkeypatch.setattr(faults, "goes_first", lambda pid: pid == 7)
    monkeypatch.setattr(faults, "read", written)
    worker = Process(WorkerSpec(0, [b"python"], {}, b"/"), 7, 0, 0, 0)
    members = [WORKER, WORKER._replace(pid=8)]
    found = answer._read(StacksAsk(native=native), [worker], members, 0.0)
    assert [one for one in asked if not one.endswith("[]")] == ways
    assert found[8].source == "py-spy"
