"""A node that has proved who it is, and then says what no node launcher says: it is lost."""

from __future__ import annotations

import json
import random
import socket
import time
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.backends.base import Part
from dsrun.launcher.backends.events import EngineEnded, SessionEnded, SessionStarted
from dsrun.launcher.common.errors import SWEPT, NodeError
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.activity_messages import Activity, RankActivity
from dsrun.launcher.control.connection import Connection
from dsrun.launcher.control.stream import FrameStream
from dsrun.launcher.head.fleet.fleet import NodeFleet
from dsrun.launcher.head.fleet.node_connection import NodeConnection
from dsrun.launcher.head.job.job import RunnerJob
from dsrun.launcher.head.job.launch import serve
from dsrun.launcher.head.job.one_program import OneProgram
from dsrun.launcher.head.output.console import Console
from dsrun.launcher.head.run.events import RanksActive
from dsrun.launcher.head.run.run_node import OVERDRAFT, RunNode
from dsrun.launcher.head.run.run_signals import progress
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.policies import OutputPolicy, SupervisionPolicy, WorkerPolicy
from dsrun.launcher.specs.program import Program

from ...support.fake_fleet import losses, story
from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsrun.launcher.backends.base import DialBack
    from dsrun.launcher.backends.events import Emit
    from dsrun.launcher.head.report.report import JobReport
    from dsrun.launcher.specs.plan import Node

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

PLAN = Plan(lay_out([Host("good", (0, 1)), Host("bad", (0, 1))]), Program("x"), "ssh", None, None)
SPEC = JobSpec(
    "job",
    PLAN,
    "/",
    supervision=SupervisionPolicy(grace=1.0),
    output=OutputPolicy(console_ranks=frozenset({0})),  # of the good one
)
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
ENDED = messages.WorkerExit(2, 17, 0, False, 1.0)
BUSY = RankActivity(3, 4003, "R", 1.0, 0.0, 0, 0, 0.0, traced=False)


class Played:
    """Two node launchers on the job's own loop: one that is good, and one that is not.

    The bad one answers as the good one does but for one frame, in whose place it says `says`, and
    then `leaves`.
    """

    def __init__(self, instead: int, says: bytes, *, leaves: bool) -> None:
        self._instead = instead
        self._says = says
        self._leaves = leaves

    def start(self, nodes: Sequence[Node], loop: Loop, emit: Emit, _dial: DialBack | None) -> None:
        """Open their lines."""
        for node in nodes:
            ours, theirs = (one.detach() for one in socket.socketpair())
            self._play(node, loop, FrameStream(theirs, theirs))
            emit(SessionStarted(node.rank, FrameStream(ours, ours)))

    def close(self) -> None:
        """Nothing to end."""

    def _play(self, node: Node, loop: Loop, line: FrameStream) -> None:
        hello = HELLO._replace(machine=node.host.name, clock=time.monotonic())
        well = {
            frames.JOB: messages.pack(frames.HELLO, hello),
            frames.PROBE: messages.pack(frames.PROBED, messages.Probed(("",) * 3)),
            frames.START: frames.pack(frames.OPENED) + frames.pack_beat(time.monotonic()),
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
        link = Connection(loop, line, handlers, lambda _why: None)


def run(instead: int, says: bytes, *, leaves: bool = False) -> JobReport:
    """How a job ends whose second node says this instead of answering that frame."""
    loop = Loop()
    late = loop.call_later(HANG, loop.stop)
    console = Console(loop, level="critical")
    fleet = NodeFleet(PLAN.nodes, loop, console.log, SPEC.supervision.heartbeat_timeout)
    part = Part(Played(instead, says, leaves=leaves), PLAN.nodes)  # type: ignore[arg-type]
    try:
        job = RunnerJob(SPEC, console, loop, lambda _ending: None)
        job.attach(OneProgram(SPEC, fleet, console))
        report = serve(job, fleet, [part]).report
        assert report is not None
        return report
    finally:
        assert late.call is not None
        console.close()


def hello(**wrong: object) -> bytes:
    return frames.pack(frames.HELLO, json.dumps({**HELLO._asdict(), **wrong}).encode())


def ended(**wrong: object) -> bytes:
    return frames.pack(frames.EXIT, json.dumps({**ENDED._asdict(), **wrong}).encode())


def note(**wrong: object) -> bytes:
    return frames.pack(frames.NOTE, json.dumps({"text": "x", "signal": 0, **wrong}).encode())


def active(*rows: RankActivity) -> bytes:
    return messages.pack(frames.ACTIVITY, Activity(1.0, 0.0, rows))


EARLY = {
    "activity before the start": hello() + active(BUSY),
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
    "input taken before the start": hello() + frames.pack_credit(frames.INPUT_ACK, 1),
    "a stop before the start": hello() + note(signal=15),
    "hello twice": hello() + hello(),
    "no frames": b"\xff" * 64,
    "a frame of another job's kind": frames.pack(frames.READY, b'{"port":1,"probe":1}'),
    "the end of a round, where there are none": frames.pack(frames.FINISHED, b'{"generation":1}'),
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
    "activity of another's rank": active(BUSY._replace(rank=1)),
    "activity that is none": active(BUSY._replace(cpu=float("inf"))),
    "a signal that is none": note(signal=77),
    "notes without end": note() * 2000,
    "input that nobody sent": frames.pack_credit(frames.INPUT_ACK, 1 << 60),
    "a count of no bytes": frames.pack(frames.INPUT_ACK, b""),
    "a question of another's": frames.pack_shard_request(1, 0, 1, b"{}"),
    "half a question": frames.pack(frames.SHARD_REQUEST, b"\0"),
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
    node, window = RunNode(NodeConnection(PLAN.nodes[0]), PLAN.nodes[0], 0), 1 << 20
    node.limits.on_output(window, window)
    node.limits.on_printed(window, window)
    node.limits.on_output(window + OVERDRAFT, window)
    with pytest.raises(frames.BadFrame, match="bytes of output, but credit for 1048576"):
        node.limits.on_output(1, window)


# -- what is done with each frame -----------------------------------------------------------------


def test_who_runs_is_known_from_the_node(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.ready(run)
    job.node("n0").beats()
    job.up("n0", 0, 1)
    job.up("n1", 2)
    table = progress(run.state).split("\n")
    assert table[0] == "running: 3 of 3 ranks"
    job.node("n0").exits(1, 0)
    job.step()
    assert progress(run.state).startswith("running: 2 of 3 ranks\n  n0: rank 0, pid 4000, up for")


def test_workers_that_are_told_to_stop_have_not_failed(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.start()
    job.node("n0").exits(0, -15, told=True)
    job.step()
    assert not run.state.stopping
    job.node("n0").exits(1, 0)
    job.node("n0").done()
    job.step()
    assert (story(run)["stopped"], story(run)["failures"], job.kinds("n0")) == (1, [], [])


@pytest.mark.parametrize("says", ["exits", "beats"])
def test_any_word_of_the_first_node_after_its_start_starts_the_others(
    says: str, fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.ready(run)
    assert "START" not in job.kinds("n1")
    if says == "exits":
        job.node("n0").exits(0, 0)
    else:
        job.node("n0").beats()
    assert job.kinds("n1") == ["START"]


def test_the_clock_of_a_node_is_known_from_all_that_carries_it(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.run()
    (node,) = job.fleet.nodes.values()
    job.node("n0").hello(clock=job.clock.now + 5)
    job.step()
    assert node.offset == -5
    job.node("n0").exits(0, 7, clock=job.clock.now + 8)
    job.step()
    assert node.offset == -8
    assert run.state.stopping


def test_a_line_for_the_user_comes_with_the_nodes_name(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.said()
    job.node("n1").notes("left running by the job")
    job.step()
    assert (job.said("warning"), run.state.stopping) == (["n1: left running by the job"], False)


def test_a_signal_to_a_node_launcher_stops_all_and_is_the_cause(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").notes("got SIGUSR2", 12)
    assert job.news("n0") == [["STOP", {"number": 12, "grace": 30.0}]]
    assert job.said("warning") == ["n1: got SIGUSR2"]
    job.node("n0").stops(0, 1)
    job.node("n1").stops(2, 3)
    job.step()
    assert (story(run)["signal"], story(run)["exit_code"]) == (12, 140)


def end_well(job: FakeFleet, name: str, *ranks: int) -> None:
    for rank in ranks:
        job.node(name).exits(rank, 0)
    job.node(name).done()
    job.step()


def test_a_signal_to_a_node_on_which_all_has_ended_stops_nobody(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    end_well(job, "n1", 2, 3)
    job.node("n1").notes("got SIGTERM", 15)
    job.step()
    assert job.said("warning") == ["n1: got SIGTERM"]
    assert (run.state.stopping, job.news("n0")) == (False, [])
    end_well(job, "n0", 0, 1)
    assert (story(run)["signal"], story(run)["exit_code"]) == (None, 0)


def test_a_signal_while_it_is_stopped_is_no_cause_but_is_passed_on(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n0").exits(0, 7)
    job.step()
    job.news("n1")
    job.node("n1").notes("got SIGTERM", 15)
    assert job.kinds("n0") == ["STOP", "STOP"]
    job.node("n0").stops(1)
    job.node("n1").stops(2, 3)
    job.step()
    assert (story(run)["signal"], story(run)["exit_code"]) == (None, 7)


@pytest.mark.parametrize(
    ("launcher", "reason"),
    [("ssh", "its guard was killed"), ("openmpi", "mpirun has been killed")],
)
def test_a_node_without_its_guard_is_lost_for_that_or_for_what_its_engine_says(
    launcher: str, reason: str, fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1")
    run = job.start(plan={"launcher": launcher})
    job.said()
    job.node("n1").notes("its guard was killed", 9)
    assert job.kinds("n0") == ["STOP"]
    assert (job.said("warning"), run.state.nodes[1].over) == ([], False)
    job.emit(SessionEnded(1, "mpirun has been killed"))
    job.node("n0").stops(0, 1)
    job.node("n1").stops(2, 3)
    job.step()
    assert losses(run) == {"n1": reason}


@pytest.mark.parametrize(
    ("killed", "reason"),
    [(False, "its guard was killed; srun ended (exit code 137)"), (True, "srun ended (SIGKILL)")],
)
def test_a_guard_with_which_its_engine_ends_is_named(
    killed: bool, reason: str, fleet_of: FleetOf
) -> None:
    """Unless the engine was killed, and has ended the guards with it."""
    job = fleet_of("n0", "n1")
    run = job.start(plan={"launcher": "slurm"})
    job.node("n1").notes("its guard was killed", 9)
    job.step()
    job.emit(EngineEnded(reason.rpartition("; ")[2], LOST, killed))
    job.node("n0").stops(0, 1)
    job.node("n1").stops(2, 3)
    job.step()
    job.go(1.0)
    assert losses(run) == {"n1": reason}


def test_a_node_whose_guard_has_cleaned_up_has_nothing_left_under_an_engine(
    fleet_of: FleetOf,
) -> None:
    """The engine's end, which follows from that, is not the cause."""
    job = fleet_of("n0", "n1")
    run = job.start(plan={"launcher": "slurm"})
    job.node("n1").leaves()
    job.step()
    job.emit(SessionEnded(1, f"the node launcher was killed by SIGKILL; {SWEPT}"))
    job.go(0.5)
    job.node("n0").exits(0, -15)
    job.node("n0").exits(1, 143)
    job.step()
    job.emit(EngineEnded("srun ended (exit code 75)", LOST, killed=False))
    job.node("n0").done()
    job.go(1.0)
    told = story(run)
    assert told["lost"][0] == {
        "host": "n1",
        "reason": f"the node launcher was killed by SIGKILL; {SWEPT}",
    }
    assert (told["exit_code"], told["unseen"]) == (LOST, [])
    assert (told["failures"], told["stopped"]) == ([], 2), "who was stopped has not failed"


def test_a_worker_that_was_killed_first_has_failed_though_its_end_is_heard_of_later(
    fleet_of: FleetOf,
) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.go(2.0)
    job.node("n1").exits(2, 1, clock=job.clock.now)
    job.step()
    job.node("n0").exits(0, -15, clock=job.clock.now - 1.5)
    job.node("n0").stops(1)
    job.node("n1").stops(3)
    job.step()
    assert story(run)["first_failure"]["rank"] == 0


def test_what_workers_are_bound_to_is_shown_once_all_have_said_it(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    job.start()
    job.said()
    for at, name in enumerate(job.hosts):
        rows = tuple(
            messages.WorkerBinding(rank, 4000 + rank, str(rank % 2), "", None, f"{rank}")
            for rank in (2 * at, 2 * at + 1)
        )
        bound = messages.pack(frames.BINDINGS, messages.NodeBindings("cuda", rows))
        job.node(name).says(bound)
        job.step()
        assert len(job.said()) == at
    assert job.fleet.nodes[0].connected


def test_what_workers_do_is_told_to_observers(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").says(active(BUSY))
    job.step()
    seen: list[object] = []
    run.observe(seen.append)
    job.node("n1").says(active(BUSY, BUSY._replace(rank=2)))
    job.step()
    assert seen == [RanksActive("n1", Activity(1.0, 0.0, (BUSY, BUSY._replace(rank=2))))]


def test_a_question_of_a_worker_is_answered(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.start(workers=WorkerPolicy(shard_queue=True))
    spec = {"size": 4, "shard": 2, "epochs": 1, "shuffle": False, "seed": 0, "growing": False}
    asked = json.dumps({"ask": "open", "queue": "q", "spec": spec}).encode()
    job.node("n0").says(frames.pack_shard_request(1, 0, 7, asked))
    assert job.news("n0") == [["SHARD_ANSWER", repr(frames.pack_shard_answer(7, b"{}")[5:])]]
    job.node("n0").says(frames.pack_shard_request(1, 3, 7, asked))
    of_another_round = repr(frames.pack_shard_answer(7, b"")[5:])
    assert job.news("n0") == [["SHARD_ANSWER", of_another_round]]


def test_what_a_node_reaches_is_for_the_startup_and_done_for_the_end(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n0").done("pid 31, state D")
    job.node("n1").done()
    job.step()
    assert story(run)["left"] == ["n0: pid 31, state D"]
    assert story(run)["exit_code"] == LOST
