"""What the frames say, there and back."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from dsrun.launcher.control import auth, frames, messages, round_messages
from dsrun.launcher.specs.policies import (
    DebugPolicy,
    ElasticPolicy,
    OutputPolicy,
    Rule,
    Streams,
    SupervisionPolicy,
    WatchPolicy,
    WorkerPolicy,
)
from dsrun.launcher.specs.program import Program

ODD = "a\udcff\udc80 é€😀\n\0'\"\\"


TASK = messages.NodeJob(
    dsrun="1",
    job_id="j",
    host=ODD,
    program=Program(ODD, (ODD, "", "--x"), module=True, python=None),
    workdir=ODD,
    env={ODD: ODD, "A": ""},
    slots=(0, "GPU-a"),
    port=0,
    workers=WorkerPolicy(preload=(ODD,)),
    supervision=SupervisionPolicy(requeue_codes=frozenset({3, 4})),
    output=OutputPolicy(log_dir=ODD, tee=Streams(1, ((0, 3),))),
    watch=WatchPolicy(rules=(Rule("name", ODD, ranks=frozenset({1})),)),
    debug=DebugPolicy(frozenset({1})),
    elastic=ElasticPolicy(1, 2, 3),
    lease=0.25,
)


@pytest.mark.parametrize(
    "message",
    [
        messages.Hello(
            dsrun="1",
            hostname="h",
            machine="m",
            python="/py",
            accelerator="cuda",
            devices=("0", "GPU-x"),
            slots=2,
            port=None,
            addresses=("10.0.0.1", "fd00::1"),
            problems=(ODD,),
            clock=12345.678901234,
            log_dir="/l",
        ),
        messages.Start(4, (0, "MIG-x"), 8, 1, 2, "10.0.0.1", 29500, 1 << 40),
        messages.Stop(15, 30.0),
        messages.WorkerExit(3, 77, -9, True, 0.1 + 0.2, ODD),
        round_messages.Finished(3),
        messages.Note(ODD),
        messages.Note("", 9),
        messages.Done(("pid 3",), {"0": [ODD, ""]}, "why", {"0": [ODD, ""]}, {"0": ODD}),
        messages.Done((), {}),
        auth.Credentials("w0", "proof", "digest"),
    ],
)
def test_messages_come_back_as_they_were(message: NamedTuple) -> None:
    ((kind, body),) = frames.Decoder().feed(messages.pack(200, message))
    assert kind == 200
    shape: Any = type(message)
    back = messages.unpack(shape, body)
    assert back == message
    assert type(back) is type(message)


def test_a_task_comes_back_with_its_policies() -> None:
    ((_, body),) = frames.Decoder().feed(messages.pack(frames.JOB, TASK))
    back = messages.unpack(messages.NodeJob, body)
    assert back == TASK
    assert (
        messages.unpack(messages.NodeJob, messages.pack(1, TASK._replace(slots=None))[5:]).slots
        is None
    )


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b'{"number":15}', "grace"),
        (b'{"number":15,"grace":1,"more":2}', "more"),
        (b"{}", "number"),
        (b"[]", "not a JSON object"),
    ],
)
def test_messages_with_other_fields_are_refused(body: bytes, match: str) -> None:
    with pytest.raises(frames.BadFrame, match=match):
        messages.unpack(messages.Stop, body)


KINDS = [
    (messages.Stop(15, 1.0), {"number": "15"}, "number: expected Signal"),
    (messages.Stop(15, 1.0), {"grace": None}, "grace: expected float"),
    (messages.WorkerExit(0, 1, 0, False, 0.0), {"signalled": 1}, "signalled: expected bool"),
    (messages.WorkerExit(0, 1, 0, False, 0.0), {"rank": 1.5}, "rank: expected Rank"),
    (messages.Note("x"), {"text": ["x"]}, "text: expected str"),
    (messages.Start(0, (0,), 1, 0, 1, "m", 1, 1), {"slots": [0.5]}, r"slots\[0\]: expected Slot"),
    (messages.Start(0, (0,), 1, 0, 1, "m", 1, 1), {"slots": 3}, "slots: expected tuple"),
    (messages.Done((), {}), {"left": [3]}, r"left\[0\]: expected str"),
    (messages.Done((), {}), {"tails": {"0": "x"}}, r"tails\['0'\]: expected"),
    (messages.Done((), {}), {"tails": []}, "tails: expected dict"),
    (messages.Done((), {}), {"recorded": {"0": ["x"]}}, r"recorded\['0'\]: expected"),
    (messages.Done((), {}), {"logs": {"0": 1}}, r"logs\['0'\]: expected"),
    (TASK, {"env": {"A": 1}}, r"env\['A'\]: expected"),
    (TASK, {"port": "1"}, "port: expected Port"),
    (TASK, {"program": ["x"]}, "program: expected Program"),
    (auth.Credentials("a", "b"), {"proof": 3}, "proof: expected Name"),
]


@pytest.mark.parametrize(("message", "wrong", "fault"), KINDS)
def test_values_of_another_kind_are_refused(
    message: NamedTuple, wrong: dict[str, object], fault: str
) -> None:
    shape: Any = type(message)
    body = frames.json_line({**message._asdict(), **wrong})
    with pytest.raises(frames.BadFrame, match=f"^{fault}"):
        messages.unpack(shape, body)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"candidates": ["n1"]},
        {"candidates": "n1", "port": 1},
        {"candidates": ["n1"], "port": None},
        {"candidates": ["a\0b"], "port": 1},
        {"candidates": ["n1"], "port": 1 << 16},
    ],
)
def test_a_probe_of_nothing_that_can_be_reached(wrong: dict[str, object]) -> None:
    with pytest.raises(frames.BadFrame):
        messages.unpack(messages.Probe, json.dumps(wrong).encode())


def test_what_a_start_is_when_nothing_is_said() -> None:
    start = messages.Start(0, (0,), 1, 0, 1, "n1", 29500, 1)
    assert start[8:] == (None, 0, 0, 0, (), "")
    assert round_messages.AgentFailure("why").unusable is False
    assert messages.Note("text").signal == 0


@pytest.mark.parametrize(("elastic", "seconds"), [(False, 20.0), (True, 16.0)])
def test_how_long_a_node_launcher_may_stand_still(elastic: bool, seconds: float) -> None:
    assert (
        TASK._replace(lease=20.0, elastic=ElasticPolicy(1, 2, 3) if elastic else None).stillness
        == seconds
    )


@pytest.mark.parametrize(
    ("code", "signalled", "failed"),
    [(0, False, False), (1, False, True), (-9, False, True), (1, True, False), (0, True, False)],
)
def test_which_exits_are_failures(code: int, signalled: bool, failed: bool) -> None:
    assert messages.WorkerExit(3, 77, code, signalled, 0.0).failed is failed


def test_each_end_gives_many_signs_of_life_in_the_time_allowed() -> None:
    assert messages.BEATS == 16


def test_lists_come_as_tuples() -> None:
    body = b'{"left": ["pid 3"], "tails": {"0": ["a", "b"]}}'
    assert messages.unpack(messages.Done, body) == messages.Done(("pid 3",), {"0": ["a", "b"]})
