"""Histories of a node's session: frames, signals and time in; frames, runs and exit code out.

The workers are real processes, and tiny.
"""

from __future__ import annotations

import os
import re
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import LOST
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.role_messages import RolePeers
from dsrun.launcher.features.quick_check import node_probes as probes
from dsrun.launcher.node.machine import leftovers, ports, processes
from dsrun.launcher.node.session.session import START_TIMEOUT
from dsrun.launcher.specs.role_words import Peers

from ...support.fake_runner import (
    STUBBORN,
    WAITS,
    FakeRunner,
    between,
    prepared,
    ran,
    running,
    stopped,
)
from ...support.leaks import open_files
from ...support.limits import wait_for
from ...support.silent_port import silent_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_runner import Steps

pytestmark = pytest.mark.usefixtures("adopting")

RUN = ["HELLO", "STARTED", "EXIT", "DONE"]
"""What a node says in a run that ends by itself."""


# -- runs one after another -----------------------------------------------------------------------


def test_one_run(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from ran(r, "echo hello; exit 0")
        r.end()

    assert runner.play(history) == 0
    kinds = [kind for kind, _ in runner.received]
    assert kinds[:4] == [frames.HELLO, frames.OPENED, frames.BEAT, frames.STARTED]
    assert runner.names() == RUN
    assert runner.output() == "hello\n"
    assert runner.exits() == [(0, 0, False)]
    assert runner.all(frames.DONE) == [
        {"left": [], "tails": {}, "reason": "", "recorded": {}, "logs": {}, "evidence": {}}
    ]
    assert runner.all(frames.STARTED)[0]["ranks"] == [0]


def test_several_runs_on_one_line(runner: FakeRunner) -> None:
    """Another program, other ranks and another size each time; one that fails spoils nothing."""

    def history(r: FakeRunner) -> Steps:
        yield from ran(r, "echo first $RANK; exit 0")
        yield from ran(r, "echo second >&2; exit 7")
        yield from prepared(r, "echo third $RANK $WORLD_SIZE", slots=(0, 1))
        r.start(first_rank=2, slots=(0, 1), world_size=4, node_rank=1, nodes=2)
        yield r.got(frames.DONE, 3)
        r.end()

    assert runner.play(history) == 0
    assert runner.names() == [*RUN, *RUN, "HELLO", "STARTED", "EXIT", "EXIT", "DONE"]
    assert sorted(runner.output().splitlines()) == ["first 0", "second", "third 2 4", "third 3 4"]
    assert sorted(runner.exits()[2:]) == [(2, 0, False), (3, 0, False)]
    assert runner.exits()[:2] == [(0, 0, False), (0, 7, False)]
    tails = [done["tails"] for done in runner.all(frames.DONE)]
    assert tails == [{}, {"0": ["", "second\n"]}, {}]
    assert [done["reason"] for done in runner.all(frames.DONE)] == ["", "", ""]


@pytest.mark.parametrize("runs", [2, 0])
def test_leftovers_are_looked_for_once_also_by_who_leaves_before_a_start(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch, runs: int
) -> None:
    looks = list[int]()

    def look() -> list[int]:
        looks.append(0)
        return []

    monkeypatch.setattr(leftovers, "leftovers", look)

    def history(r: FakeRunner) -> Steps:
        for _ in range(runs):
            yield from ran(r, "exit 0")
        yield from prepared(r, "exit 0")
        r.end()

    assert runner.play(history) == 0
    assert len(looks) == 1


def test_notes_of_the_checks_follow_hello(runner: FakeRunner) -> None:
    """What comes before it would be taken for the end of an earlier run."""

    def history(r: FakeRunner) -> Steps:
        before = processes.children()
        yield from prepared(r, "exit 0", preload=("json",), held=True)
        yield from prepared(r, "exit 0", preload=("os",), held=True)
        yield from prepared(r, "exit 0")
        yield lambda: processes.children() == before
        r.end()

    assert runner.play(history) == 0
    assert runner.names() == ["HELLO", "HELLO", "NOTE", "HELLO"]


def test_a_job_takes_the_place_of_one_that_was_not_started(runner: FakeRunner) -> None:
    """What was reserved for it can be had again, by the next one."""

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 3", port=0)
        port = r.all(frames.HELLO)[0]["port"]
        yield from ran(r, "exit 4", port=port)
        yield from prepared(r, "exit 5", port=port)
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0
    assert [hello["problems"] for hello in runner.all(frames.HELLO)] == [[], [], []]
    assert runner.exits() == [(0, 4, False)]


def test_a_stop_before_the_start_ends_that_run_alone(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 3", port=0)
        port = r.all(frames.HELLO)[0]["port"]
        yield from stopped(r)
        assert not ports.is_held(port)
        yield from ran(r, "exit 4", port=port)
        r.end()

    assert runner.play(history) == 0
    assert runner.names() == ["HELLO", "DONE", *RUN]


def test_a_worker_that_fails_just_before_a_stop_was_not_stopped(runner: FakeRunner) -> None:
    """A busy node launcher reads STOP first, and hears of its end later."""

    def history(r: FakeRunner) -> Steps:
        yield from running(r)
        pid = r.all(frames.STARTED)[0]["pids"][0]
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        os.kill(pid, signal.SIGSEGV)
        wait_for(lambda: processes.stat(pid)[0] == "Z", "its end")
        r.stop()
        yield r.skip(0.1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0
    assert runner.exits() == [(0, -signal.SIGSEGV, False)]


def test_a_stop_without_any_job_is_answered(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from stopped(r)
        yield from ran(r, "exit 0")
        r.end()

    assert runner.play(history) == 0
    assert runner.names() == ["DONE", *RUN]
    assert runner.all(frames.DONE)[0] == {
        "left": [],
        "tails": {},
        "reason": "",
        "recorded": {},
        "logs": {},
        "evidence": {},
    }


def test_what_comes_for_a_run_that_is_over_is_too_late(runner: FakeRunner) -> None:
    """The runner has sent it before it knew; the next run's workers shall have none of it."""

    def history(r: FakeRunner) -> Steps:
        yield from ran(r, "exit 0")
        r.sends(frames.CREDIT, (1 << 20).to_bytes(8, "big"))
        r.sends(frames.INPUT, b"text")
        r.sends(frames.SHARD_ANSWER, bytes(4))
        r.sends(frames.SIGNAL, bytes([signal.SIGUSR1]))
        r.stop(grace=0.0)
        yield from running(r)
        yield r.skip(1.0)
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0
    assert runner.names() == [*RUN, *RUN]
    assert runner.exits() == [(0, 0, False), (0, 3, True)]
    assert runner.output() == "ready\n15\n"


def test_a_run_leaves_no_open_file(runner: FakeRunner, tmp_path: Path) -> None:
    """Not of logs, memory files, standard input, queues or the port."""
    counts = []

    def history(r: FakeRunner) -> Steps:
        for _ in range(3):
            counts.append(len(open_files()))
            more = {"log_dir": str(tmp_path / "logs")} if len(counts) == 2 else {}
            job = f"j{len(counts)}"
            yield from ran(r, "cat; exit 1", port=0, shard_queue=True, job_id=job, **more)
        r.end()

    def with_input(r: FakeRunner) -> Steps:
        for step in history(r):
            r.sends(frames.INPUT, b"") if r.names()[-1:] == ["STARTED"] else None
            yield step

    assert runner.play(with_input) == 0
    assert counts[0] == counts[1] == counts[2]


def test_the_guard_leaves_alone_what_waits_for_the_disk_of_the_logs(runner: FakeRunner) -> None:
    """It would wait for its end, which may never come."""
    found: list[int] = []

    def history(r: FakeRunner) -> Steps:
        text = "until [ -e go ]; do sleep 0.01; done"
        yield from prepared(r, text, lease=100.0, log_dir="logs")
        r.start()
        yield r.got(frames.STARTED)
        found.extend(pid for pid in processes.children() if pid not in pids(r))
        os.kill(found[0], signal.SIGSTOP)
        (r.folder / "go").touch()
        yield r.got(frames.EXIT)
        for _ in range(6):
            yield r.skip(100.0 / 8)
        yield r.got(frames.DONE)
        r.end()

    def pids(r: FakeRunner) -> set[int]:
        return {r.guard.pid, *r.all(frames.STARTED)[0]["pids"]}

    assert runner.play(history) == 0
    (stuck,) = found
    both = sorted([stuck, runner.guard.pid])
    assert b"spare %d %d" % (both[0], both[1]) in runner.told
    ((note, _),) = runner.notes()
    assert note.endswith("nothing could be written for 50 s; the logs end here")
    with suppress(ChildProcessError):
        os.waitpid(stuck, 0)


def test_the_background_of_one_run_is_not_the_next_ones(runner: FakeRunner) -> None:
    """It outlives the next run, which is cleaned_up as ever, and the guard is told to leave it."""
    daemon = "sleep 600 >/dev/null 2>&1 & echo $!; exit 0"

    def history(r: FakeRunner) -> Steps:
        yield from ran(r, daemon, allow_background=True)
        assert r.told[-1] == b"stay"
        pid = int(r.output())
        yield from ran(r, daemon)
        r.end()
        assert processes.parent(pid) == os.getpid()
        former = sorted([pid, r.guard.pid])
        assert b"spare %d %d" % (former[0], former[1]) in r.told
        assert b"stay" not in r.told[r.told.index(b"stay") + 1 :]
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    assert runner.play(history) == 0
    ((note, _),) = runner.notes()
    assert note.startswith("stopped processes that the job left running: ")


# -- what makes no sense --------------------------------------------------------------------------


def start_alone(r: FakeRunner) -> Steps:
    r.start()
    yield lambda: False


def second_start(r: FakeRunner) -> Steps:
    yield from running(r)
    r.start()
    yield lambda: False


def job_while_workers_run(r: FakeRunner) -> Steps:
    yield from running(r)
    r.job("exit 0")
    yield lambda: False


def round_of_no_elastic_job(r: FakeRunner) -> Steps:
    yield from running(r)
    r.sends(frames.LEAVE_ROUND)
    yield lambda: False


def credit_before_a_job(r: FakeRunner) -> Steps:
    r.sends(frames.CREDIT, bytes(8))
    yield lambda: False


def frame_of_a_nodes(r: FakeRunner) -> Steps:
    yield from running(r)
    r.sends(frames.DONE, b"{}")
    yield lambda: False


def start_after_the_end(r: FakeRunner) -> Steps:
    yield from between(r)
    r.start()
    yield lambda: False


@pytest.mark.parametrize(
    ("history", "code"),
    [
        (start_alone, LOST),
        (credit_before_a_job, LOST),
        (second_start, LOST),
        (job_while_workers_run, LOST),
        (round_of_no_elastic_job, LOST),
        (frame_of_a_nodes, LOST),
        (start_after_the_end, 0),
    ],
)
def test_what_makes_no_sense_ends_the_line_and_what_runs(
    runner: FakeRunner, history: Callable[[FakeRunner], Steps], code: int
) -> None:
    assert runner.play(history) == code
    assert runner.closed
    assert runner.names().count("HELLO") <= 1


# -- signs of life --------------------------------------------------------------------------------


def test_beats_come_from_the_first_start_on_and_between_runs(runner: FakeRunner) -> None:
    """One at each START, and sixteen in a lease; that of the newest task counts."""
    found = []

    def beats(r: FakeRunner, seconds: float) -> Steps:
        before = r.beats()
        yield r.skip(seconds)
        r.sends(frames.BEAT)
        yield r.skip(0.0)
        found.append(r.beats() - before)

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, program=WAITS, lease=1600.0)
        yield r.skip(101.0)  # not started yet
        r.start()
        yield r.prints("ready")
        assert r.beats() == 1
        yield from beats(r, 101.0)
        yield from stopped(r)
        yield from beats(r, 101.0)
        yield from beats(r, 60.0)
        yield from prepared(r, program=WAITS, lease=160.0)
        yield from beats(r, 11.0)
        before = r.beats()
        r.start()
        yield r.got(frames.STARTED, 2)
        found.append(r.beats() - before)
        yield from beats(r, 5.0)
        yield from beats(r, 6.0)
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0
    assert found == [1, 1, 0, 1, 1, 0, 1]


class SlowStart(FakeRunner):
    """A runner of a node on which each start of a process takes 101 seconds."""

    _most = 0
    _own = 0.0

    @property
    def _skipped(self) -> float:
        self._most = max(self._most, len(processes.children()))
        return self._own + 101.0 * self._most

    @_skipped.setter
    def _skipped(self, seconds: float) -> None:
        self._own = seconds


SEVEN = tuple(range(7))


def test_a_node_that_starts_many_workers_beats_meanwhile(tmp_path: Path) -> None:
    runner = SlowStart(tmp_path)

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, program=WAITS, lease=1600.0, slots=SEVEN)
        r.start(slots=SEVEN)
        yield r.got(frames.STARTED)
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0
    kinds = [kind for kind, _ in runner.received]
    assert kinds[: kinds.index(frames.STARTED)].count(frames.BEAT) > len(SEVEN) - 2


def test_a_runner_that_is_silent_while_many_workers_are_started_is_lost(tmp_path: Path) -> None:
    runner = SlowStart(tmp_path)

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, program=WAITS, lease=320.0, slots=SEVEN)
        r.start(slots=SEVEN)
        yield lambda: False

    assert runner.play(history) == LOST
    assert runner.notes()[0][0].startswith("no heartbeat from the runner for ")
    assert frames.STARTED not in [kind for kind, _ in runner.received]


def silent(r: FakeRunner, seconds: float) -> Steps:
    """Let time pass in steps in which a node would notice each."""
    for _ in range(16):
        yield r.skip(seconds / 16)


def test_a_silent_runner_is_lost_and_the_workers_are_stopped(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from running(r, lease=1000.0, last_grace=500.0)
        yield from silent(r, 800.0)
        assert not r.closed
        r.sends(frames.BEAT)
        yield r.skip(0.0)
        yield from silent(r, 800.0)
        assert not r.closed
        yield from silent(r, 300.0)
        yield lambda: False

    assert runner.play(history) == LOST
    ((text, number),) = runner.notes()
    assert re.fullmatch(r"no heartbeat from the runner for 1\d\d\d s", text)
    assert number == signal.SIGKILL
    assert processes.children() == []


def test_a_runner_that_is_silent_between_runs_is_lost(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from ran(r, "exit 0", lease=100.0)
        yield from silent(r, 130.0)
        yield lambda: False

    assert runner.play(history) == 0
    assert [number for _, number in runner.notes()] == [signal.SIGKILL]


def test_a_suspended_runner_may_be_silent(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from running(r, lease=1000.0)
        r.sends(frames.SUSPEND, b"hold")
        yield r.got(frames.SUSPEND)
        yield from silent(r, 5000.0)
        r.sends(frames.SUSPEND, b"count")
        yield r.skip(0.0)
        yield from silent(r, 800.0)
        assert not r.closed
        yield from silent(r, 300.0)
        yield lambda: False

    assert runner.play(history) == LOST
    assert runner.names().count("SUSPEND") == 1


def test_the_first_start_is_waited_for_so_long(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 0")
        yield r.skip(START_TIMEOUT - 5.0)
        assert not r.closed
        yield r.skip(10.0)
        yield lambda: False

    assert runner.play(history) == LOST
    assert runner.names() == ["HELLO"]


def test_a_held_node_waits_for_any_start_and_beats_from_its_job_on(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 0", held=True, lease=10.0 * START_TIMEOUT)
        yield r.got(frames.BEAT)
        yield r.skip(START_TIMEOUT + 1.0)
        r.start()
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0
    assert runner.names() == RUN


def test_a_runner_that_beats_before_the_start_may_take_its_time(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 0", lease=10.0 * START_TIMEOUT)
        assert r.beats() == 0
        r.sends(frames.BEAT)
        yield r.got(frames.BEAT)
        yield r.skip(START_TIMEOUT + 1.0)
        r.start()
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0


def test_a_spare_beats_without_a_job_and_tells_when_one_comes(runner: FakeRunner) -> None:
    """A heartbeat comes before the checks, which may take long."""

    def history(r: FakeRunner) -> Steps:
        r.sends(frames.LEASE, b'{"seconds": %d}' % (10 * START_TIMEOUT))
        yield r.got(frames.BEAT)
        yield r.skip(START_TIMEOUT + 1.0)
        assert not r.closed
        before = r.beats()
        yield from prepared(r, "exit 0", held=True, lease=10.0 * START_TIMEOUT)
        assert r.beats() > before
        kinds = [kind for kind, _ in r.received]
        assert kinds[before] == frames.BEAT
        r.start()
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0
    assert runner.names() == RUN


def test_a_spare_leaves_a_runner_that_falls_silent(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        r.sends(frames.LEASE, b'{"seconds": 10.0}')
        yield r.got(frames.BEAT)
        yield r.skip(11.0)
        yield lambda: False

    assert runner.play(history) == LOST


def test_a_held_node_leaves_a_runner_that_falls_silent_before_a_start(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 0", held=True, lease=10.0)
        yield r.skip(11.0)
        yield lambda: False

    assert runner.play(history) == LOST


def test_later_starts_are_not(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from ran(r, "exit 0", lease=10.0 * START_TIMEOUT)
        yield r.skip(START_TIMEOUT + 1.0)
        yield from ran(r, "exit 0")
        r.end()

    assert runner.play(history) == 0


def test_checks_that_take_long_are_not_the_runners_silence(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile nothing is read; what has come is seen before anybody is called silent."""

    def slow(*_: object) -> str:
        runner.leap(500.0)
        return ""

    def history(r: FakeRunner) -> Steps:
        yield from ran(r, "exit 0", lease=100.0)
        monkeypatch.setattr(ports, "taken_problem", slow)
        with socket.create_server(("", 0)) as server:
            yield from prepared(r, "exit 0", lease=100.0, port=server.getsockname()[1])
        r.end()
        yield lambda: False

    assert runner.play(history) == 0
    assert runner.notes() == []


def test_addresses_are_tried(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 0")
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            r.says(frames.PROBE, messages.Probe(("127.0.0.1", "no host"), port))
            yield r.got(frames.PROBED)
        r.end()

    assert runner.play(history) == 0
    ((good, bad),) = (probed["verdicts"] for probed in runner.all(frames.PROBED))
    assert good == ""
    assert bad.startswith("does not resolve")


def test_an_address_that_does_not_answer_costs_no_sign_of_life(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two rounds of an elastic job, where the runner counts on beats."""
    monkeypatch.setattr(probes, "SECONDS", 500.0)
    seen: list[int] = []

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, elastic=True, lease=1600.0)
        r.start()
        yield r.got(frames.READY)
        with silent_port() as port:
            r.says(frames.PROBE, messages.Probe(("127.0.0.1",), port))
            seen.append(r.beats())
            for _ in range(2):
                yield r.skip(150.0)
                yield lambda: r.beats() > seen[-1]
                seen.append(r.beats())
            assert "PROBED" not in r.names()
            yield r.skip(200.0)
            yield r.got(frames.PROBED)
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0
    assert len(seen) == 3
    assert runner.all(frames.PROBED) == [{"verdicts": ["no answer"]}]


def test_a_probe_ends_with_its_run(runner: FakeRunner) -> None:
    """The next run would take the answer for one of its own."""

    def history(r: FakeRunner) -> Steps:
        with silent_port() as port:
            for leave in (stopped, lambda r: prepared(r, "exit 0")):
                yield from prepared(r, "exit 0")
                r.says(frames.PROBE, messages.Probe(("127.0.0.1",), port))
                yield from leave(r)
            yield r.skip(10.0)
        r.end()

    assert runner.play(history) == 0
    assert runner.names() == ["HELLO", "DONE", "HELLO", "HELLO"]


# -- the end of the line --------------------------------------------------------------------------


def test_end_tells_a_node_that_joined_how_the_job_ended(
    joined: FakeRunner, capfd: pytest.CaptureFixture[str]
) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from between(r)
        r.end(7, "rank 3\x1b failed\n")

    assert joined.play(history) == 7
    assert capfd.readouterr().err == "rank 3\\x1b failed\n"


def test_end_says_nothing_to_others(runner: FakeRunner, capfd: pytest.CaptureFixture[str]) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from between(r)
        r.end(7, "rank 3 failed\n")

    assert runner.play(history) == 0
    assert capfd.readouterr().err == ""


def gone_at_once(r: FakeRunner) -> Steps:
    r.leaves()
    yield lambda: False


def gone_before_the_start(r: FakeRunner) -> Steps:
    yield from prepared(r, "exit 0")
    r.leaves()
    yield lambda: False


def gone_between_runs(r: FakeRunner) -> Steps:
    yield from between(r)
    r.leaves()
    yield lambda: False


def gone_before_the_second_start(r: FakeRunner) -> Steps:
    yield from between(r)
    yield from gone_before_the_start(r)


@pytest.mark.parametrize(
    ("history", "code"),
    [
        (gone_at_once, LOST),
        (gone_before_the_start, LOST),
        (gone_between_runs, 0),
        (gone_before_the_second_start, LOST),
    ],
)
def test_a_line_that_ends_where_nothing_runs_ends_the_session(
    runner: FakeRunner, history: Callable[[FakeRunner], Steps], code: int
) -> None:
    assert runner.play(history) == code


def test_a_line_that_ends_stops_the_workers_after_their_last_grace(runner: FakeRunner) -> None:
    """Output is worth nothing any more, and is not waited for."""
    pids = []

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, program=STUBBORN, last_grace=500.0, grace=1.0)
        r.start(credit=1)
        yield r.prints("ready")
        (pid,) = r.all(frames.STARTED)[0]["pids"]
        pids.append(pid)
        r.leaves()
        yield r.skip(400.0)
        assert processes.started(pid)
        yield r.skip(200.0)
        yield lambda: False

    assert runner.play(history) == LOST
    assert not processes.started(pids[0])


# -- roles ----------------------------------------------------------------------------------------

TELLS = """
echo $0 $DSRUN_PORT_HTTP $MINE
cat $DSRUN_ROLES_FILE
until grep -q 9000 $DSRUN_ROLES_FILE; do sleep 0.01; done
cat $DSRUN_ROLES_FILE
"""


def peers(port: int) -> RolePeers:
    return RolePeers({"server": Peers(("10.0.0.3",), (port,))})


def test_workers_of_a_role_are_told_of_the_others(runner: FakeRunner) -> None:
    """Those that start by words and variables, those that run by a file that is replaced."""

    def history(r: FakeRunner) -> Steps:
        r.says(frames.PEERS, peers(8000))  # before the checks of the JOB are made
        env = {"MINE": "http://{server.addrs}/{port.http}?{x}"}
        r.job(TELLS, "{server.addrs}", part="trainer", ports={"http": 0}, held=True, env=env)
        yield r.got(frames.HELLO)
        (port,) = r.all(frames.HELLO)[0]["ports"]
        r.start()
        yield r.prints(f"10.0.0.3:8000 {port} http://10.0.0.3:8000/{port}?{{x}}\n")
        yield r.prints('"10.0.0.3:8000"]}}\n')
        r.says(frames.PEERS, peers(9000))
        yield r.prints('"10.0.0.3:9000"]}}\n')
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0


def test_the_ports_of_a_role_are_free_for_its_workers(runner: FakeRunner) -> None:
    """Also for those that do not set SO_REUSEADDR; before, nobody else gets them."""

    def bound(port: int) -> bool:
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("", port))
                one.listen()
            except OSError:
                return False
            return True

    def history(r: FakeRunner) -> Steps:
        r.job("sleep 300", part="server", ports={"http": 0, "grpc": 0}, held=True)
        yield r.got(frames.HELLO)
        first, _ = r.all(frames.HELLO)[0]["ports"]
        assert not bound(first)
        r.job("sleep 300", part="server", ports={"http": first, "grpc": 0}, held=True)
        yield r.got(frames.HELLO, 2)
        assert r.all(frames.HELLO)[1]["ports"][0] == first
        r.start()
        yield r.got(frames.STARTED)
        with socket.socket() as server:
            server.bind(("", first))
        r.stop(signal.SIGKILL)
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0
