"""What torch's flight recorder has written: as torch writes it, and as nobody would."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.control import messages
from dsrun.launcher.features.stacks import node_recorded as recorded
from dsrun.launcher.features.stacks.messages import Collective, StacksAnswer, ThreadStack

NOW = 1000.0


def entry(sequence: int, group: str = "0", **fields: Any) -> dict[str, Any]:
    """An entry as torch 2.13 writes it, of a collective that is over."""
    usual = {
        "collective_seq_id": sequence,
        "frames": [
            {"name": "all_reduce", "filename": "/p/torch/distributed/d.py", "line": 3},
            {"name": "step", "filename": "/w/train.py", "line": 9},
        ],
        "input_dtypes": ["Float"],
        "input_sizes": [[10], [2, 3]],
        "is_p2p": False,
        "process_group": (group, "default_pg" if group == "0" else "undefined"),
        "profiling_name": "gloo:all_reduce",
        "retired": True,
        "state": "scheduled",
        "time_created_ns": int((NOW - 2.5) * 1e9),
    }
    return usual | fields


def rows(*entries: object, **record: object) -> list[Collective]:
    return [*recorded.newest(3, {"entries": [*entries], **record}, NOW)]


def test_a_collective_as_torch_records_it() -> None:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 3]"}}
    (row,) = rows(entry(7, state="started", retired=False), pg_config=config)
    assert row == Collective(
        rank=3,
        group="default_pg",
        members=(0, 3),
        sequence=7,
        operation="all_reduce",
        sizes="[[10], [2, 3]]",
        types="['Float']",
        state="started",
        age=2.5,
        where="step (/w/train.py:9)",
    )


def test_the_newest_of_each_group_and_what_still_runs() -> None:
    entries = [entry(at, group) for at in range(1, 10) for group in ("0", "1")]
    entries[0] |= {"retired": False}
    found = rows(*entries, entry(99, is_p2p=True), entry(9, "5", process_group=("5", "tensor")))
    assert [(row.group, row.sequence) for row in found] == [
        *(("default_pg", at) for at in (1, 2, 3, 4, 6, 7, 8, 9)),
        *(("1", at) for at in (6, 7, 8, 9)),
        ("5 tensor", 9),
    ]
    assert [row.state for row in found[:2]] == ["scheduled", "completed"]


def test_those_before_many_that_still_run() -> None:
    """A rank has called many parts of its backward pass after what another one waits in."""
    entries = [entry(at, retired=at < 20) for at in range(1, 40)]
    assert [row.sequence for row in rows(*entries)] == [*range(16, 24), *range(36, 40)]


@pytest.mark.parametrize(
    "config",
    [None, [], {"0": 5}, {"0": {"ranks": "[0"}}, {"0": {"ranks": [*range(300)]}}, {"0": {}}],
)
def test_members_that_are_not_known_or_very_many(config: object) -> None:
    assert rows(entry(1), pg_config=config)[0].members == ()


ODD: tuple[Any, ...] = (
    None,
    -1,
    1 << 80,
    1e400,
    "\ud800",
    "x" * 9999,
    [[[]]],
    {"a": {}},
    b"\xff",
    True,
)


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("field", [*entry(1)])
def test_whatever_a_worker_says_can_be_sent(field: str, value: object) -> None:
    found = rows(entry(1) | {field: value}, pg_config={"0": {"ranks": value}})
    body = messages.pack(51, StacksAnswer((), (), tuple(found)))[5:]
    assert len(messages.unpack(StacksAnswer, body).collectives) == len(found)


def test_names_of_groups_can_be_sent() -> None:
    (row,) = rows(entry(1, process_group=["\ud800", "x" * 999, 5]))
    assert row.group == "? " + "x" * recorded.SHOWN


@pytest.mark.parametrize("record", [None, [], {}, {"entries": 5}, {"entries": [None, 3]}, "x"])
def test_what_is_no_record_has_no_rows(record: object) -> None:
    assert [*recorded.newest(0, record, NOW)] == []


def test_the_stack_of_a_main_thread_is_told_as_it_is() -> None:
    told = ["spin (/w/train.py:9)", "<module> (/w/train.py:20)"]
    assert recorded.frames({"main_thread": told}) == tuple(told)
    assert len(recorded.frames({"main_thread": told * 999})) == recorded.FRAMES


@pytest.mark.parametrize("value", ODD)
def test_whatever_is_told_of_a_main_thread_can_be_sent(value: object) -> None:
    for record in (value, {"main_thread": value}, {"main_thread": [value, "\ud800", "x" * 9999]}):
        frames = recorded.frames(record)
        thread = ThreadStack(7, "MainThread", True, True, frames)
        body = messages.pack(51, StacksAnswer((), (thread,), ()))[5:]
        assert len(messages.unpack(StacksAnswer, body).threads) == 1
        assert all(len(one) <= recorded.LONGEST for one in frames)
