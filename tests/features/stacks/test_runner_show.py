"""Stacks as text and as JSON."""

from __future__ import annotations

import json

from dsrun.launcher.features.stacks.runner_culprit import Reason
from dsrun.launcher.features.stacks.runner_show import (
    BOLD,
    DIM,
    LONGEST,
    NORMAL,
    StackText,
    as_json,
)
from dsrun.launcher.features.stacks.runner_view import RankView
from dsrun.launcher.features.stacks.runner_wait_kinds import Kind

from ...support import schemas
from ...support.jobs import HOSTILE
from ...support.stacks import FETCH, LOAD, NEXT, collective, process, ranks, view

VIEWS = ranks(view(0), view(1), view(2), view(3, LOAD, idle=62.0))

TEXT = """\
ranks 0-2 wait in all_reduce (train.py:41); rank 3 (n1) has been in load_batch (data.py:88) for 62 s

rank 3 (n1), pid 4003: is in load_batch (data.py:88)
    load_batch (/work/data.py:88)
    main (/work/train.py:39)
    <module> (/work/train.py:60)

ranks 0-2 (n0, n1): wait in all_reduce (train.py:41)
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    main (/work/train.py:41)
    <module> (/work/train.py:60)"""


def test_text() -> None:
    assert StackText(VIEWS).text() == TEXT
    assert StackText(VIEWS).text(gap="\n") == TEXT.replace("\n\n", "\n")


def test_a_terminal_sees_what_matters() -> None:
    text = StackText(VIEWS, colour=True).text()
    assert text.startswith(f"{BOLD}ranks 0-2 wait")
    assert f"    {DIM}all_reduce (torch/distributed/distributed_c10d.py:3252){NORMAL}\n" in text
    assert "\n    main (/work/train.py:41)\n" in text
    for code in (BOLD, DIM, NORMAL):
        text = text.replace(code, "")
    assert text == TEXT


def test_where_files_are() -> None:
    saved = {rank: one._replace(saved="/logs/job") for rank, one in VIEWS.items()}
    assert (
        StackText(saved).text().endswith("\n\nsaved on n0 in /logs/job\n\nsaved on n1 in /logs/job")
    )


def test_what_workers_say_cannot_harm_a_terminal() -> None:
    child = process(0, 5001)._replace(command=HOSTILE)
    frames = f"{HOSTILE} (/work/{HOSTILE}.py:3)", *NEXT
    hostile = view(0, NEXT, children=((child, frames), (child._replace(pid=5002), FETCH)))
    hostile = hostile._replace(saved=HOSTILE)
    other = RankView(1, "n0", 4001, problem=HOSTILE)
    for whole in (False, True):
        text = StackText(ranks(hostile, other)).text(whole=whole)
        assert not {*text} & {"\x1b", "\r", "\u202e", "\x07"}


def test_long_names_are_cut() -> None:
    text = StackText(ranks(view(0, (f"{'x' * 5000} (libtorch.so)", *LOAD)))).text()
    assert f"    {'x' * LONGEST} (libtorch.so)\n" in text


def test_json() -> None:
    children = ((process(0, 5001), FETCH),)
    told = as_json("job", ranks(view(0, NEXT, children=children, collectives=(collective(0, 3),))))
    whole = json.loads(json.dumps(told))
    assert schemas.faults("stacks", whole) == []
    assert [whole["reason"], whole["odd"], whole["sure"]] == ["nobody", [], False]
    (rank,) = whole["ranks"]
    assert rank["place"] == {"kind": "data", "function": "load_batch", "where": "data.py:88"}
    assert [len(one["threads"]) for one in rank["processes"]] == [1, 1]
    assert rank["processes"][1]["threads"][0]["frames"] == list(FETCH)
    assert rank["collectives"][0]["sequence"] == 3


def test_json_of_a_silent_node() -> None:
    told = as_json("job", ranks(view(0), RankView(1, "n0", 4001, problem="no answer")))
    assert schemas.faults("stacks", json.loads(json.dumps(told))) == []
    assert [told["reason"], told["odd"], told["waiting"]] == ["silent", [1], [0]]


def test_the_schema_has_every_reason_and_kind() -> None:
    whole = schemas.schema("stacks")
    assert set(whole["properties"]["reason"]["enum"]) == {one.value for one in Reason}
    kinds = whole["$defs"]["place"]["properties"]["kind"]["enum"]
    assert set(kinds) == {one.name.lower() for one in Kind}
