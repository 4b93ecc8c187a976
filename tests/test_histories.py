"""Histories of whole jobs over fake nodes: frames in; frames, words, report and exit code out.

What comes out is compared with `recorded/endings.json` and `recorded/frames.json`.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.backends.events import EngineEnded, SessionEnded
from dsrun.launcher.control import frames, messages

from .recorded import Record
from .recorded.differences import changes
from .support.fake_nodes import FakeNode, Told, play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Steps = Iterator[Callable[[], bool]]
    Nodes = Sequence[FakeNode]

TWO = ("--host", "n0:2,n1:2")
BASE = (*TWO, "x.py")
"""The command line with whose frames those of others are compared."""

ENDS_RECORD = Record("endings", "all_is_well")
FRAMES_RECORD = Record("frames", " ".join(BASE))


def ready(nodes: Nodes) -> Steps:
    """All say HELLO and reach the master."""
    for node in nodes:
        yield node.got(frames.JOB)
        node.hello()
    for node in nodes[1:]:
        yield node.got(frames.PROBE)
        node.reaches()


def started(nodes: Nodes) -> Steps:
    """All have got START, the first before the others."""
    yield from ready(nodes)
    for node in nodes:
        yield node.got(frames.START)
        node.beats()


def end_well(nodes: Nodes) -> None:
    """The two workers of each node exit with 0, and nothing is left."""
    for rank in range(2 * len(nodes)):
        nodes[rank // 2].exits(rank, 0)
    for node in nodes:
        node.done()


def stopped(nodes: Nodes, *ranks: Sequence[int]) -> Steps:
    """Every node stops those of its ranks that still run."""
    for node, running in zip(nodes, ranks, strict=True):
        yield node.got(frames.STOP)
        node.stops(*running)


# -- how jobs end ---------------------------------------------------------------------------------


def all_is_well(nodes: Nodes) -> Steps:
    yield from started(nodes)
    nodes[0].prints(0, "hello\n")
    nodes[1].prints(3, "wor")
    nodes[1].prints(3, "ld\n")
    nodes[1].prints(2, "oops\n", stream=2)
    end_well(nodes)


def a_rank_fails(nodes: Nodes) -> Steps:
    yield from started(nodes)
    nodes[1].exits(2, 7)
    yield nodes[1].got(frames.STOP)
    nodes[1].exits(3, -15, told=True)
    nodes[1].done(tails={"2": ["out\n", "Traceback\nValueError: boom\n"]})
    yield from stopped(nodes[:1], (0, 1))


def two_ranks_fail(nodes: Nodes) -> Steps:
    yield from started(nodes)
    nodes[0].exits(1, 3)
    yield nodes[0].got(frames.STOP)
    nodes[1].exits(2, 4)
    nodes[1].stops(3)
    nodes[0].stops(0)


def a_rank_is_killed(nodes: Nodes) -> Steps:
    yield from started(nodes)
    nodes[0].exits(1, -9, hint="the kernel ran out of memory")
    yield from stopped(nodes, (0,), (2, 3))


def a_rank_does_not_start(nodes: Nodes) -> Steps:
    yield from started(nodes)
    failed = messages.WorkerExit(2, 0, 126, False, 0.0, "not started: train.py: no such file")
    nodes[1].says(messages.pack(frames.EXIT, failed))
    yield from stopped(nodes, (0, 1), ())


def processes_are_left(nodes: Nodes) -> Steps:
    yield from started(nodes)
    for rank in range(4):
        nodes[rank // 2].exits(rank, 0)
    nodes[0].done("pid 31, state D, waiting in nfs")
    nodes[1].done()


def a_node_is_lost(nodes: Nodes) -> Steps:
    yield from started(nodes)
    nodes[1].leaves()
    yield from stopped(nodes[:1], (0, 1))


def a_node_is_lost_and_its_backend_says_why(nodes: Nodes) -> Steps:
    yield from started(nodes)
    nodes[1].leaves()
    yield nodes[0].got(frames.STOP)
    nodes[1].emit(SessionEnded(1, "Connection reset by peer"))
    nodes[0].stops(0, 1)


def the_only_node_is_lost_and_its_guard_says_later_that_all_is_swept(nodes: Nodes) -> Steps:
    (node,) = nodes
    node.hello(pids=(4711, 4710))
    yield node.got(frames.START)
    node.beats()
    workers = messages.WorkersStarted((0, 1), (4001, 4002))
    node.says(messages.pack(frames.STARTED, workers))
    node.leaves()
    node.ends("the node launcher was killed by SIGKILL; its workers were stopped", after=0.05)


def the_only_node_is_lost_and_nobody_says_why(nodes: Nodes) -> Steps:
    (node,) = nodes
    node.hello(pids=(4711, 4710))
    yield node.got(frames.START)
    node.beats()
    workers = messages.WorkersStarted((0, 1), (4001, 4002))
    node.says(messages.pack(frames.STARTED, workers))
    node.leaves()


def a_guard_dies(nodes: Nodes) -> Steps:
    yield from started(nodes)
    nodes[1].notes("its guard was killed", signal.SIGKILL)
    yield from stopped(nodes, (0, 1), (2, 3))


def a_scheduler_stops_a_node(nodes: Nodes) -> Steps:
    yield from started(nodes)
    nodes[1].notes("got SIGTERM", signal.SIGTERM)
    yield from stopped(nodes, (0, 1), (2, 3))


def the_engine_ends(nodes: Nodes) -> Steps:
    yield from started(nodes)
    nodes[0].emit(EngineEnded("mpirun exited with code 1", 75, False))
    yield from stopped(nodes, (0, 1), (2, 3))


def the_engine_says_why_a_node_was_lost_once_it_is_closed(nodes: Nodes) -> Steps:
    yield from started(nodes)
    ended = EngineEnded("mpirun ended (exit code 42): MPI_ABORT was called", 42, False)
    nodes[1].at_close = lambda: nodes[1].emit(ended)
    nodes[1].leaves()
    yield nodes[0].got(frames.STOP)
    nodes[0].stops(0, 1)


def a_killed_engine_reports_it_once_it_is_closed(nodes: Nodes) -> Steps:
    """Its daemons send SIGTERM to the nodes first, which is a consequence, not a stop signal."""
    yield from started(nodes)
    nodes[1].at_close = lambda: nodes[1].emit(EngineEnded("mpirun ended (SIGKILL)", 75, True))
    nodes[1].notes("got SIGTERM", signal.SIGTERM)
    yield from stopped(nodes, (0, 1), (2, 3))


def a_signal_to_dsrun(nodes: Nodes) -> Steps:
    yield from started(nodes)
    os.kill(os.getpid(), signal.SIGTERM)
    yield from stopped(nodes, (0, 1), (2, 3))


def a_signal_that_ends_well(nodes: Nodes) -> Steps:
    yield from started(nodes)
    os.kill(os.getpid(), signal.SIGTERM)
    for node, ranks in zip(nodes, ((0, 1), (2, 3)), strict=True):
        yield node.got(frames.STOP)
        for rank in ranks:
            node.exits(rank, 0, told=True)
        node.done()


def two_interrupts(nodes: Nodes) -> Steps:
    yield from started(nodes)
    os.kill(os.getpid(), signal.SIGINT)
    yield nodes[1].got(frames.STOP)
    os.kill(os.getpid(), signal.SIGINT)
    for node, ranks in zip(nodes, ((0, 1), (2, 3)), strict=True):
        yield node.got(frames.STOP, 2)
        for rank in ranks:
            node.exits(rank, -9, told=True)
        node.done()


def a_user_signal_is_passed_on(nodes: Nodes) -> Steps:
    yield from started(nodes)
    os.kill(os.getpid(), signal.SIGUSR1)
    for node in nodes:
        yield node.got(frames.SIGNAL)
    end_well(nodes)


def a_node_has_something_to_say(nodes: Nodes) -> Steps:
    yield from started(nodes)
    nodes[1].notes("stopped processes that the job left running: sleep 9 (pid 77)")
    end_well(nodes)


# -- jobs that do not start -----------------------------------------------------------------------


def a_node_has_problems(nodes: Nodes) -> Steps:
    nodes[0].hello()
    nodes[1].hello(problems=("no folder /data here", "train.py: no such file"))
    yield nodes[1].got(frames.JOB)


def nodes_do_not_agree(nodes: Nodes) -> Steps:
    nodes[0].hello()
    nodes[1].hello(dsrun="0.0.9", accelerator="rocm")
    yield nodes[1].got(frames.JOB)


def two_names_of_one_machine(nodes: Nodes) -> Steps:
    for node in nodes:
        node.hello(machine="same")
    yield nodes[1].got(frames.JOB)


def a_node_cannot_be_reached(nodes: Nodes) -> Steps:
    nodes[0].hello()
    nodes[1].emit(SessionEnded(1, "connection refused: no sshd on that port (n1:22)"))
    yield nodes[1].got(frames.JOB)


def a_node_leaves_before_the_start(nodes: Nodes) -> Steps:
    nodes[1].hello()
    yield nodes[1].got(frames.JOB)
    nodes[1].leaves()
    nodes[0].hello()


def the_master_cannot_be_reached(nodes: Nodes) -> Steps:
    for node in nodes:
        node.hello()
    yield nodes[1].got(frames.PROBE)
    nodes[1].reaches("timed out")


def an_interrupt_before_the_start(nodes: Nodes) -> Steps:
    nodes[0].hello()
    yield nodes[0].got(frames.JOB)
    os.kill(os.getpid(), signal.SIGINT)


def hosts_without_slots(nodes: Nodes) -> Steps:
    nodes[0].hello()
    nodes[1].hello(devices=("0", "1", "2"), slots=3)
    yield nodes[1].got(frames.PROBE)
    nodes[1].reaches()
    for node in nodes:
        yield node.got(frames.START)
        node.beats()
    for rank in range(5):
        nodes[rank >= 2].exits(rank, 0)
    for node in nodes:
        node.done()


ENDS: dict[Callable[[Nodes], Steps], tuple[str, ...]] = {
    all_is_well: (*TWO, "x.py"),
    a_rank_fails: (*TWO, "x.py"),
    two_ranks_fail: (*TWO, "x.py"),
    a_rank_is_killed: (*TWO, "x.py"),
    a_rank_does_not_start: (*TWO, "x.py"),
    processes_are_left: (*TWO, "x.py"),
    a_node_is_lost: (*TWO, "x.py"),
    a_node_is_lost_and_its_backend_says_why: (*TWO, "x.py"),
    the_only_node_is_lost_and_its_guard_says_later_that_all_is_swept: ("--host", "n0:2", "x.py"),
    the_only_node_is_lost_and_nobody_says_why: ("--host", "n0:2", "x.py"),
    a_guard_dies: (*TWO, "x.py"),
    a_scheduler_stops_a_node: (*TWO, "x.py"),
    the_engine_ends: (*TWO, "x.py"),
    a_killed_engine_reports_it_once_it_is_closed: (*TWO, "x.py"),
    the_engine_says_why_a_node_was_lost_once_it_is_closed: (*TWO, "x.py"),
    a_signal_to_dsrun: (*TWO, "--grace", "5", "x.py"),
    a_signal_that_ends_well: (*TWO, "--graceful_term_ok", "x.py"),
    two_interrupts: (*TWO, "x.py"),
    a_user_signal_is_passed_on: (*TWO, "x.py"),
    a_node_has_something_to_say: (*TWO, "x.py"),
    a_node_has_problems: (*TWO, "x.py"),
    nodes_do_not_agree: (*TWO, "x.py"),
    two_names_of_one_machine: (*TWO, "x.py"),
    a_node_cannot_be_reached: (*TWO, "x.py"),
    a_node_leaves_before_the_start: (*TWO, "x.py"),
    the_master_cannot_be_reached: (*TWO, "x.py"),
    an_interrupt_before_the_start: (*TWO, "x.py"),
    hosts_without_slots: ("--host", "n0,n1", "x.py"),
}
"""Each history, and the command line that it happens to."""

LINES: list[tuple[str, ...]] = [
    BASE,
    (*TWO, "x.py", "--lr", "0.1", "a b", "'", "\u00e9"),
    ("--host", "n0:0-1", "x.py"),
    ("--host", "n0:4,n1:4", "--include", "n0:1,3@n1:0-1", "x.py"),
    (*TWO, "-m", "package.train"),
    (*TWO, "--no_python", "./run.sh"),
    (*TWO, "--no_local_rank", "--python", "/py", "x.py"),
    (*TWO, "--master_addr", "10.9.9.9", "--master_port", "29501", "x.py"),
    (*TWO, "--export", "A=1", "--export", "B=two words", "x.py"),
    (*TWO, "--log_dir", "logs", "--redirects", "3", "x.py"),
    (*TWO, "--bind_cores_to_rank", "--bind_core_list", "n0:0-3@n1:4-7", "x.py"),
    (*TWO, "--bind_to", "numa", "--bind_smt", "no", "--bind_memory", "none", "--bind_nic", "x.py"),
    (*TWO, "--virtual_local_rank", "--role", "r", "--rdzv_id", "id7", "x.py"),
    (*TWO, "--grace", "3", "--heartbeat_timeout", "9", "--allow_background", "x.py"),
    (*TWO, "--workdir", "/data", "--venv_script", "v.sh", "--shard_queue", "x.py"),
    (*TWO, "--accelerator", "cuda", "x.py"),
    (*TWO, "--stdin", "rank0", "x.py"),
]
"""Command lines whose JOB and START are recorded."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder and environment."""
    for name in ("x.py", "v.sh"):
        (tmp_path / name).touch()
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    for variable in list(os.environ):
        monkeypatch.delenv(variable)
    for variable, value in {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/u",
        "NCCL_DEBUG": "INFO",
    }.items():
        monkeypatch.setenv(variable, value)
    return tmp_path.resolve()


@pytest.mark.parametrize("history", ENDS, ids=[one.__name__ for one in ENDS])
def test_a_job_ends_as_it_did(
    history: Callable[[Nodes], Steps],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    told = play(history, ENDS[history], folder, monkeypatch, capfd)
    sent = {n.name: [f for f in n.frames() if f[0] not in {"JOB", "START"}] for n in told.nodes}
    ENDS_RECORD.check(history.__name__, _timeless(told, sent, folder))


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_nodes_are_sent_what_they_were(
    words: tuple[str, ...],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        for node in nodes:
            node.done()

    told = play(history, words, folder, monkeypatch, capfd)
    sent = {node.name: node.frames() for node in told.nodes}
    by_node = _timeless(told, sent, folder)["frames"]
    first = by_kind(by_node["n0"])
    rest = {name: changes(by_kind(got), first) for name, got in by_node.items() if name != "n0"}
    FRAMES_RECORD.check(" ".join(words), {"n0": first, **rest})


def test_there_is_no_other_recorded_history() -> None:
    assert set(ENDS_RECORD.values()) == {one.__name__ for one in ENDS}
    assert set(FRAMES_RECORD.values()) == set(map(" ".join, LINES))


def by_kind(sent: list[Any]) -> dict[str, Any]:
    """Return the frames of a node, numbered, with their contents by their kinds."""
    return {f"{at} {kind}": fields for at, (kind, fields) in enumerate(sent)}


def _timeless(told: Told, sent: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return all that came of a history, without what differs from run to run."""
    job = str(told.report.get("job_id", "no job"))

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: _untimed(name, plain(one)) for name, one in value.items()}
        if isinstance(value, list):
            return [plain(one) for one in value]
        return _words(value, job, folder) if isinstance(value, str) else value

    return {
        "exit_code": told.code,
        "stdout": plain(sorted(told.out.splitlines())),
        "stderr": plain(told.err.splitlines()),
        "report": plain(told.report),
        "frames": plain(sent),
    }


def _untimed(name: str, value: Any) -> Any:
    return 0 if name in {"seconds", "after_seconds"} else value


def _words(text: str, job: str, folder: Path) -> str:
    if text == __version__:
        return "VERSION"
    for word, name in ((job, "JOB"), (str(folder), "FOLDER"), (sys.executable, "PYTHON")):
        text = text.replace(word, name)
    return re.sub(r"\d+\.\d s\b", "N s", text)
