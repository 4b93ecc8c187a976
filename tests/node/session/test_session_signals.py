"""Histories of a node's session: a scheduler's signals and the guard's end, in each phase."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import LOST
from dsrun.launcher.control import frames
from dsrun.launcher.node.guard import INITIAL_SILENCE
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.session import session, signal_deduplicator
from dsrun.launcher.node.session.signal_deduplicator import TOGETHER
from dsrun.launcher.specs.program import Program

from ...support.fake_runner import (
    STUBBORN,
    TRAP,
    WAITS,
    FakeRunner,
    between,
    prepared,
    ran,
    running,
    stopped,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_runner import Steps

pytestmark = pytest.mark.usefixtures("adopting")


# -- signals of a scheduler -----------------------------------------------------------------------

ENDING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


def by_launcher(r: FakeRunner, number: int) -> None:
    """The node launcher alone gets a signal."""
    os.kill(os.getpid(), number)
    assert r.session is not None


def by_guard(r: FakeRunner, number: int) -> None:
    """The guard alone gets it, and passes it on."""
    r.guard_got(number)


def open_pipes() -> int:
    """How many pipes this process has open: two for each worker's output."""
    every = [str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return sum(one.startswith("pipe:") for one in every)


def by_both(r: FakeRunner, number: int) -> None:
    """Every process of the node gets it, but for the workers of these tests, which are not new."""
    r.leap(2 * TOGETHER)
    r.guard_got(number)
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("way", [by_launcher, by_guard])
def test_a_signal_stops_the_workers_and_no_other_run_follows(
    runner: FakeRunner, number: int, way: Callable[[FakeRunner, int], None]
) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from running(r, grace=500.0)
        way(r, number)
        yield r.got(frames.DONE)
        r.job("exit 0")
        yield lambda: False

    assert runner.play(history) == 0
    assert runner.notes() == [(f"the node launcher received {signal.Signals(number).name}", number)]
    assert runner.output() == f"ready\n{number}\n"
    assert runner.exits() == [(0, 3, True)]
    assert runner.names().count("HELLO") == 1


def test_a_signal_that_all_have_got_is_not_sent_once_more(runner: FakeRunner) -> None:
    """The workers have their grace all the same."""

    def history(r: FakeRunner) -> Steps:
        yield from running(r, STUBBORN, grace=500.0)
        by_both(r, signal.SIGTERM)
        yield r.got(frames.NOTE)
        yield r.skip(400.0)
        assert r.names()[-1] == "NOTE"
        yield r.skip(200.0)
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0
    assert runner.output() == "ready\n"
    assert runner.exits() == [(0, -9, True)]


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("code", [0, 1])
def test_a_signal_is_told_of_before_the_ends_of_workers_that_have_got_it(
    runner: FakeRunner, number: int, code: int
) -> None:
    """However they end: the runner is not to take that for their own end."""

    def history(r: FakeRunner) -> Steps:
        program = WAITS._replace(args=("-ISc", TRAP.format(then=f"os._exit({code})")))
        yield from running(r, program, grace=500.0)
        (pid,) = r.all(frames.STARTED)[0]["pids"]
        by_both(r, number)
        os.kill(pid, number)
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0
    assert [name for name in runner.names() if name != "HELLO"] == [
        *("STARTED", "NOTE", "EXIT", "DONE")
    ]
    assert runner.notes() == [(f"the node launcher received {signal.Signals(number).name}", number)]


def test_a_signal_after_the_last_worker_is_told_of_at_once(runner: FakeRunner) -> None:
    """Something of the run is left, so it is not over: the workers may have got it before."""

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "sleep 600 & exit 0", allow_background=False)
        r.start()
        yield r.got(frames.EXIT)
        by_guard(r, signal.SIGTERM)
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0
    names = runner.names()
    assert names.index("EXIT") < names.index("NOTE") < names.index("DONE")


@pytest.mark.parametrize("settle", [0.0, 0.15])
def test_a_stop_that_answers_such_a_word_does_not_signal_workers_twice(
    runner: FakeRunner, settle: float
) -> None:
    """One of two workers has ended by the signal, and the runner stops the run for that."""
    ends = "os.environ['RANK'] == '0' and os._exit(0)"

    def history(r: FakeRunner) -> Steps:
        program = WAITS._replace(args=("-ISc", TRAP.format(then=ends)))
        yield from prepared(r, program=program, slots=(0, 1), settle=settle)
        r.start(slots=(0, 1), world_size=2)
        yield lambda: r.output().count("ready") == 2
        pids = r.all(frames.STARTED)[0]["pids"]
        by_both(r, signal.SIGTERM)
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        yield r.got(frames.NOTE)
        r.stop(grace=500.0)
        yield r.got(frames.EXIT)
        yield r.skip(5 * TOGETHER)
        r.stop(grace=0.0)
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0
    assert runner.output().count(f"{signal.SIGTERM:d}\n") == 2, "each has got it once"


def test_a_signal_before_the_start_ends_the_session_without_a_word(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 0")
        by_guard(r, signal.SIGTERM)
        yield lambda: False

    assert runner.play(history) == 0
    assert runner.names() == ["HELLO"]


def test_one_that_comes_just_before_the_start_as_well(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 0")
        by_guard(r, signal.SIGTERM)
        yield r.skip(0.0)
        r.start()
        yield lambda: False

    assert runner.play(history) == 0
    assert runner.names() == ["HELLO"]


def test_a_signal_between_two_runs_ends_the_session_at_once(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from between(r)
        by_guard(r, signal.SIGTERM)
        yield lambda: False

    assert runner.play(history) == 0
    assert runner.notes() == [("the node launcher received SIGTERM", signal.SIGTERM)]


def test_what_a_slow_line_has_not_taken_is_sent_before_the_end(runner: FakeRunner) -> None:
    size = 1 << 20

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, f"head -c {size} /dev/zero; exit 0")
        r.reads_nothing()
        idle = open_pipes()
        r.start(credit=2 * size)
        yield lambda: open_pipes() != idle
        yield lambda: open_pipes() == idle  # the run has ended
        by_guard(r, signal.SIGTERM)
        yield r.skip(TOGETHER)
        r.reads_on()
        yield lambda: False

    assert runner.play(history) == 0
    assert len(runner.output()) == size
    assert runner.names() == ["HELLO", "STARTED", "EXIT", "DONE", "NOTE"]


@pytest.mark.parametrize("leaves", [True, False], ids=["closed", "silent"])
def test_a_line_that_takes_nothing_any_more_is_not_waited_for(
    runner: FakeRunner, leaves: bool
) -> None:
    size = 1 << 20
    alone = processes.children()

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, f"head -c {size} /dev/zero; exit 0", lease=100.0)
        r.reads_nothing()
        r.start(credit=2 * size)
        yield lambda: processes.children() != alone
        yield lambda: processes.children() == alone
        by_guard(r, signal.SIGTERM)
        yield r.skip(TOGETHER)
        if leaves:
            r.leaves()
        yield r.skip(100.0)
        yield lambda: False

    assert runner.play(history) == 0


def test_a_signal_just_before_a_round_starts_none_of_its_workers(runner: FakeRunner) -> None:
    """They would not have got it, though all processes of the node have."""

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, program=STUBBORN, elastic=True, grace=500.0)
        r.start()
        yield r.got(frames.READY)
        by_both(r, signal.SIGTERM)
        yield r.skip(0.0)
        r.round()
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0
    assert "STARTED" not in runner.names()
    assert runner.notes() == [("the node launcher received SIGTERM", signal.SIGTERM)]


@pytest.mark.parametrize(("way", "times"), [(by_launcher, 1), (by_guard, 1), (by_both, 0)])
def test_other_signals_reach_the_workers_once(
    runner: FakeRunner, way: Callable[[FakeRunner, int], None], times: int
) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from running(r)
        way(r, signal.SIGUSR1)
        yield r.skip(1.0)
        yield lambda: r.output().count("10\n") == times
        r.sends(frames.SIGNAL, bytes([signal.SIGUSR1]))
        yield r.skip(0.0)
        yield lambda: r.output().count("10\n") == 2 * times
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0
    # The runner's is another one, unless all have got this one just now.
    assert runner.output() == "ready\n" + f"{signal.SIGUSR1:d}\n" * (2 * times) + "15\n"
    assert runner.notes() == []


def test_what_a_former_runs_workers_have_got_the_next_ones_have_not(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from running(r, STUBBORN)
        by_both(r, signal.SIGUSR1)
        yield r.skip(1.0)
        r.stop(grace=0.0)
        yield r.got(frames.DONE)
        yield from running(r, STUBBORN)
        r.sends(frames.SIGNAL, bytes([signal.SIGUSR1]))
        yield r.prints("10\n")
        r.stop(grace=0.0)
        yield r.got(frames.DONE, 2)
        r.end()

    assert runner.play(history) == 0


def test_a_signal_that_came_before_the_start_is_not_for_its_workers(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, program=Program("/bin/sleep", ("0.2",), False, True, None, False))
        by_guard(r, signal.SIGUSR1)
        yield r.skip(0.0)
        r.start()
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0
    assert runner.exits() == [(0, 0, False)]


@pytest.mark.parametrize("settle", [0.0, 500.0])
def test_the_runners_word_may_have_to_wait_for_the_schedulers(
    runner: FakeRunner, settle: float
) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from running(r, settle=settle)
        r.sends(frames.SIGNAL, bytes([signal.SIGUSR1]))
        for text, then in (("10\n", r.stop), ("15\n", list)):
            if settle:
                yield r.skip(settle - 10.0)
                assert text not in r.output()
                yield r.skip(20.0)
            yield r.prints(text)
            then()
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0


def test_slurms_signal_to_the_guard_and_to_the_runner_is_passed_on_once(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from running(r, settle=TOGETHER)
        by_guard(r, signal.SIGUSR1)
        yield r.skip(TOGETHER)
        yield r.prints("10\n")
        r.sends(frames.SIGNAL, bytes([signal.SIGUSR1]))
        yield r.skip(0.0)
        yield r.skip(TOGETHER)
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0
    assert runner.output() == "ready\n10\n15\n"


def test_a_stop_of_the_runner_waits_for_what_is_known_of_slurms_signal(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = 400.0
    for module in (session, signal_deduplicator):
        monkeypatch.setattr(module, "TOGETHER", together)

    def history(r: FakeRunner) -> Steps:
        yield from running(r, STUBBORN, settle=together / 2, grace=5000.0)
        r.stop(grace=5000.0)
        yield r.skip(together / 4)
        by_both(r, signal.SIGTERM)
        yield r.skip(together / 2)
        assert "NOTE" not in r.names()
        yield r.skip(together)
        yield r.got(frames.NOTE)
        yield r.skip(6000.0)
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == 0
    assert runner.output() == "ready\n", "nothing was sent to the worker a second time"


def test_a_stop_that_waited_does_not_stop_the_next_run(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from running(r, settle=500.0)
        r.stop()
        r.sends(frames.SIGNAL, bytes([signal.SIGUSR1]))
        by_guard(r, signal.SIGUSR1)  # of which its workers are told at once
        yield r.prints("10\n")
        (pid,) = r.all(frames.STARTED)[0]["pids"]
        os.kill(pid, signal.SIGTERM)
        yield r.got(frames.DONE)
        yield from running(r)
        yield r.skip(501.0)
        yield r.skip(1.0)
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0
    assert runner.output() == "ready\n10\n15\nready\n15\n"
    assert runner.exits() == [(0, 3, False), (0, 3, True)]


def test_who_asks_a_joined_node_is_shown_its_workers(
    joined: FakeRunner, capfd: pytest.CaptureFixture[str]
) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from running(r)
        by_launcher(r, signal.SIGQUIT)
        yield r.skip(1.0)
        yield from stopped(r)
        by_launcher(r, signal.SIGQUIT)
        yield r.skip(1.0)
        r.end()

    assert joined.play(history) == 0
    (pid,) = joined.all(frames.STARTED)[0]["pids"]
    assert capfd.readouterr().err == (
        f"dsrun: on this node: rank 0 (pid {pid}); Ctrl-\\ on node 0 shows all\n"
    )


# -- the guard ------------------------------------------------------------------------------------


def test_the_guard_hears_how_long_to_wait(runner: FakeRunner) -> None:
    """Long while checks are made, as long as the runner is waited for from then on."""

    def history(r: FakeRunner) -> Steps:
        yield from ran(r, "exit 0", lease=100.0)
        yield r.skip(26.0)
        yield from ran(r, "exit 0", lease=200.0, elastic=False)
        r.sends(frames.BEAT)
        yield r.skip(51.0)
        r.end()

    assert runner.play(history) == 0
    spared = b"spare %d" % runner.guard.pid
    long = repr(INITIAL_SILENCE).encode()
    assert [word for word in runner.told if word] == [
        *(long, b"100.0", b"100.0 j", spared, b"100.0"),
        *(long, b"200.0", b"200.0 j", spared, b"200.0"),
    ]


def test_the_guard_of_a_held_node_waits_no_longer_between_runs(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 0", held=True, lease=100.0)
        yield r.got(frames.BEAT)
        r.end()

    assert runner.play(history) == 0
    long = repr(INITIAL_SILENCE).encode()
    told = b"".join(runner.told)  # it may end with children that are still to be reaped
    assert told.startswith(long + b"100.0")


@pytest.mark.parametrize("by_engine", [False, True])
def test_without_a_guard_the_workers_are_stopped(runner: FakeRunner, by_engine: bool) -> None:
    """At once; where an engine may only have ended, they have their grace."""

    def history(r: FakeRunner) -> Steps:
        yield from running(r, STUBBORN, grace=500.0, by_engine=by_engine, host=os.uname().nodename)
        r.guard.kill()
        yield r.got(frames.NOTE)
        if by_engine:
            yield r.skip(400.0)
            assert r.names()[-1] == "NOTE"
            yield r.skip(200.0)
        yield r.got(frames.DONE)
        r.end()

    assert runner.play(history) == LOST
    assert runner.notes() == [("its guard was killed", signal.SIGKILL)]
    assert runner.exits() == [(0, -9, True)]
    assert runner.all(frames.DONE)[0]["reason"] == "its guard was killed"


@pytest.mark.parametrize("how", ["guard", "signal"])
def test_a_held_node_that_must_leave_does_so_after_its_run(runner: FakeRunner, how: str) -> None:
    """The runner would keep the line for other runs; then it starts another node launcher."""

    def history(r: FakeRunner) -> Steps:
        yield from running(r, held=True)
        if how == "guard":
            r.guard.kill()
        else:
            r.guard_got(signal.SIGTERM)
        yield lambda: False

    assert runner.play(history) == (LOST if how == "guard" else 0)
    assert runner.names()[-1] == "DONE"


@pytest.mark.parametrize(("before", "noted"), [(prepared, False), (between, True)])
def test_without_a_guard_nothing_is_started(
    runner: FakeRunner, before: Callable[[FakeRunner], Steps], noted: bool
) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from before(r)
        r.guard.kill()
        yield lambda: False

    assert runner.play(history) == LOST
    assert runner.notes() == [("its guard was killed", signal.SIGKILL)] * noted
