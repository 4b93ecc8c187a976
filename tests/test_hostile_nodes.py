"""A node that has proved who it is, and then says what no node launcher says: it is lost."""

from __future__ import annotations

import json
import random
import socket
import time
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.backends.base import Part
from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, kinds, messages
from dsrun.launcher.control.line import Line
from dsrun.launcher.control.link import Link
from dsrun.launcher.head.fleet.node_connection import OVERDRAFT, Peer
from dsrun.launcher.head.output.console import Console
from dsrun.launcher.head.run.job import Job
from dsrun.launcher.head.run.policy import rules
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsrun.launcher.backends.base import Dial, Reports
    from dsrun.launcher.head.report.report import Report
    from dsrun.launcher.specs.plan import Node

PLAN = Plan(lay_out([Host("good", (0, 1)), Host("bad", (0, 1))]), Program("x"), "ssh", None, None)
TASK = messages.Task("", "job", "", Program("x"), "/", {}, None, None)
LOST = 75

HELLO = messages.Hello(
    dsrun="",
    hostname="h",
    machine="",
    python="3",
    accelerator="cpu",
    devices=(),
    slots=2,
    port=29500,
    addresses=("10.0.0.1",),
    problems=(),
    clock=1.0,
)
ENDED = messages.Exit(2, 17, 0, False, 1.0)


class Played:
    """Two node launchers on the job's own loop: one that is good, and one that is not.

    The bad one answers as the good one does but for one frame, in whose place it says `says`, and
    then `leaves`.
    """

    def __init__(self, instead: int, says: bytes, *, leaves: bool) -> None:
        self._instead = instead
        self._says = says
        self._leaves = leaves

    def start(
        self, nodes: Sequence[Node], loop: Loop, reports: Reports, _dial: Dial | None
    ) -> None:
        """Open their lines."""
        for node in nodes:
            ours, theirs = (one.detach() for one in socket.socketpair())
            self._play(node, loop, Line(theirs, theirs))
            reports.line(node.rank, Line(ours, ours))

    def close(self) -> None:
        """Nothing to end."""

    def _play(self, node: Node, loop: Loop, line: Line) -> None:
        hello = HELLO._replace(machine=node.host.name, clock=time.monotonic())
        well = {
            frames.JOB: messages.pack(frames.HELLO, hello),
            frames.PROBE: messages.pack(frames.PROBED, messages.Probed(("",) * 3)),
            frames.START: frames.pack_beat(time.monotonic()),
            frames.STOP: messages.pack(frames.DONE, messages.Done((), {})),
            frames.BEAT: b"",
            frames.CREDIT: b"",
        }
        if node.host.name == "bad":
            well[self._instead] = self._says

        def answer(kind: int) -> Callable[[bytes], None]:
            return lambda _body: say(kind)

        def say(kind: int) -> None:
            link.send(well[kind])
            if self._leaves and well[kind] is self._says:
                link.close()

        handlers = {kind: answer(kind) for kind in well}
        handlers[frames.END] = lambda _body: link.close()
        link = Link(loop, line, handlers, lambda _why: None)


def run(instead: int, says: bytes, *, leaves: bool = False) -> Report:
    """How a job ends whose second node says this instead of answering that frame."""
    loop = Loop()
    late = loop.after(20.0, loop.stop)
    console = Console(loop, level="critical")
    told = rules(Options(grace=1.0, console_ranks="0"), "job")  # of the good one
    job = Job("job", PLAN, loop, console, told, lambda _node: TASK)
    part = Part(Played(instead, says, leaves=leaves), PLAN.nodes)  # type: ignore[arg-type]
    try:
        return job.run([part], None, lambda _who, _token: None)
    finally:
        assert late.call is not None
        console.close()


def hello(**wrong: object) -> bytes:
    return frames.pack(frames.HELLO, json.dumps({**HELLO._asdict(), **wrong}).encode())


def ended(**wrong: object) -> bytes:
    return frames.pack(frames.EXIT, json.dumps({**ENDED._asdict(), **wrong}).encode())


def note(**wrong: object) -> bytes:
    return frames.pack(frames.NOTE, json.dumps({"text": "x", "signal": 0, **wrong}).encode())


EARLY = {
    "slots without number": hello(slots=1 << 40),
    "no slots at all": hello(slots=-1),
    "a port that is none": hello(port=70_000),
    "a clock beyond all": hello(clock=1e300),
    "no clock": hello(clock=float("nan")),
    "an endless clock": frames.pack(
        frames.HELLO, json.dumps(HELLO._asdict()).replace(": 1.0", ": 1e999").encode()
    ),
    "an address with a null": hello(addresses=["a\0b"]),
    "half a character": hello(hostname="\ud800"),
    "an end before the start": hello() + ended(),
    "output before the start": hello() + frames.pack_output(2, 1, b"x"),
    "all done before the start": hello() + messages.pack(frames.DONE, messages.Done((), {})),
    "an answer that nobody asked for": hello() + frames.pack(frames.PROBED, b'{"verdicts":[]}'),
    "input taken before the start": hello() + frames.pack_count(frames.TOOK, 1),
    "a stop before the start": hello() + note(signal=15),
    "hello twice": hello() + hello(),
    "no frames": b"\xff" * 64,
    "a frame of another job's kind": frames.pack(frames.JOIN, b'{"port":1}'),
}

LATE = {
    "output of another's rank": frames.pack_output(0, 1, b"x"),
    "output of no rank": frames.pack_output(1 << 31, 1, b"x"),
    "an end of another's rank": ended(rank=1),
    "an end of no rank": ended(rank=1 << 70),
    "a code that is none": ended(code=999),
    "a time that is none": ended(clock=float("inf")),
    "a pid that is none": ended(pid=-1),
    "ends without end": ended() * 5,
    "a signal that is none": note(signal=77),
    "notes without end": note() * 2000,
    "input that nobody sent": frames.pack_count(frames.TOOK, 1 << 60),
    "a count of no bytes": frames.pack(frames.TOOK, b""),
    "a question of another's": frames.pack_ask(1, 0, 1, b"{}"),
    "half a question": frames.pack(frames.ASK, b"\0"),
    "output of no stream": frames.pack(frames.OUTPUT, b"\0\0\0\2\7x"),
    "a beat without a clock": frames.pack(frames.BEAT, b"nan"),
    "tails that are none": frames.pack(frames.DONE, b'{"left":[],"tails":{"2":["x"]}}'),
    "deep JSON": frames.pack(frames.DONE, b'{"left":' + b"[" * 100_000),
    "many digits": frames.pack(frames.EXIT, b'{"rank":' + b"9" * 100_000),
    "another hello": hello(),
    "a second answer": frames.pack(frames.PROBED, b'{"verdicts":["","",""]}'),
    "a frame of no kind": frames.pack(99, b"x"),
    "too large a frame": frames.pack(frames.NOTE, b"x")[:1] + (5 << 20).to_bytes(4, "big"),
}


@pytest.mark.parametrize("says", EARLY.values(), ids=EARLY.keys())
def test_a_node_that_goes_wrong_before_the_start_is_named(says: bytes) -> None:
    with pytest.raises(NodeError, match=r"^the job cannot start.*\n  bad: (it sent|not a control)"):
        run(frames.JOB, says)


@pytest.mark.parametrize("says", LATE.values(), ids=LATE.keys())
def test_a_node_that_goes_wrong_is_lost_and_the_reason_told(says: bytes) -> None:
    report = run(frames.START, says)
    ((loss),) = report.losses
    assert (loss.host, report.exit_code, report.left) == ("bad", LOST, ())
    assert loss.reason.startswith(("it sent an invalid frame", "not a control line"))
    assert len(loss.reason) <= 200


@pytest.mark.parametrize("count", [0, 1])
def test_answers_that_do_not_fit_the_question(count: int) -> None:
    says = frames.pack_json(frames.PROBED, {"verdicts": [""] * count})
    with pytest.raises(NodeError, match="bad: it sent an invalid frame of kind 34: "):
        run(frames.PROBE, says)


def test_whatever_a_node_says_the_runner_ends_in_order() -> None:
    chance = random.Random(7)
    samples = [*EARLY.values(), *LATE.values()]
    for _ in range(100):
        damaged = bytearray(b"".join(chance.sample(samples, 2))[:4096])
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        assert run(frames.START, bytes(damaged), leaves=True).exit_code in {LOST, 128 + 15}


def test_more_output_than_was_granted() -> None:
    peer, window = Peer(PLAN.nodes[0]), 1 << 20
    peer.wrote(window, window)
    peer.took(window, window)
    peer.wrote(window + OVERDRAFT, window)
    with pytest.raises(frames.BadFrame, match="bytes of output where 1048576 were granted"):
        peer.wrote(1, window)


def test_every_field_of_a_message_has_a_check() -> None:
    shapes = [one for one in vars(messages).values() if hasattr(one, "_fields")]
    asked = {kind for shape in shapes for kind in shape.__annotations__.values()}
    assert asked - {"tuple[Placed, ...]"} <= kinds.KINDS.keys()
    assert len(shapes) > 12
