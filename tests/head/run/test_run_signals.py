"""What a run does with signals: the first interrupt stops, the second kills, the third leaves."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.loop import Timers
from dsrun.launcher.control import frames
from dsrun.launcher.head.run import run_signals
from dsrun.launcher.head.run.record import JobRecord
from dsrun.launcher.head.run.run_signals import StopRequests, StopStep
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.head.run.running_ranks import Workers

from ...support.recorder import Recorder
from ...support.run_nodes import plan_of, sent_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dsrun.launcher.head.run.run_node import RunNode

INT, TERM = signal.SIGINT, signal.SIGTERM


class FakeRun:
    """A run of two nodes that has started; what signals have it do is noted.

    Attributes:
        did: in order.
        said: (text, level).
    """

    def __init__(self) -> None:
        self.plan = plan_of(2)
        self.nodes = sent_nodes(self.plan)
        self.record = JobRecord("j", 0.0)
        self.started, self.ending, self.grace = True, False, 30.0
        self.phase = RunPhase.RUNNING
        self.did: list[object] = []
        self.said: list[tuple[str, str]] = []
        self.workers = Workers(float, Timers(float), self.warn)
        self.interrupts = StopRequests()
        self.act = Recorder(self.did)

    def handle(self, happened: Callable[..., None], *args: object) -> None:
        happened(self, *args)

    def do(self, call: Callable[..., None], *args: object) -> None:
        call(*args)

    def finish(self) -> None:
        self.did.append("finish")

    def abandon(self) -> None:
        self.did.append("abandon")

    def stop(self, number: int, grace: float | None = None) -> None:
        self.did.append((number, grace))

    def log(self, text: str, level: str = "info") -> None:
        self.said.append((text, level))

    def warn(self, text: str) -> None:
        self.log(text, "warning")

    def send(self, nodes: Iterable[RunNode], frame: bytes) -> None:
        for node in nodes:
            node.send(frame)


@pytest.mark.parametrize(
    ("numbers", "steps"),
    [
        ([INT, INT, INT, INT], [StopStep.STOP, StopStep.KILL, StopStep.LEAVE, StopStep.LEAVE]),
        ([TERM, TERM, TERM], [StopStep.STOP] * 3),
        ([TERM, INT, INT], [StopStep.STOP, StopStep.STOP, StopStep.KILL]),
        ([INT, TERM, INT], [StopStep.STOP, StopStep.STOP, StopStep.KILL]),
        ([INT, INT, TERM], [StopStep.STOP, StopStep.KILL, StopStep.KILL]),
    ],
)
def test_interrupts_are_counted(numbers: list[int], steps: list[StopStep]) -> None:
    requests = StopRequests()
    assert [requests.next(number) for number in numbers] == steps


def test_interrupts_stop_then_kill_then_leave() -> None:
    run = FakeRun()
    run.nodes[1].lose("gone")
    for _ in range(3):
        run.handle(run_signals.on_end_signal, INT)
    assert run.did == [(INT, None), (INT, 0.0), "abandon"]
    assert run.said == [
        ("SIGINT: stopping 4 ranks, grace 30 s; interrupt again to kill them now", "warning"),
        ("killing all ranks now", "warning"),
        ("exiting now; may still be running on: n0", "error"),
    ]


def test_another_signal_has_no_second_meaning() -> None:
    run = FakeRun()
    run.handle(run_signals.on_end_signal, TERM)
    assert (run.did, run.said) == (
        [(TERM, None)],
        [("SIGTERM: stopping 4 ranks, grace 30 s", "warning")],
    )


def test_the_first_signal_is_the_one_that_is_told() -> None:
    run = FakeRun()
    run.handle(run_signals.on_end_signal, TERM)
    run.handle(run_signals.on_end_signal, INT)
    assert run.record.stop_signal == TERM


def test_a_run_that_has_not_started_ends_at_once() -> None:
    run = FakeRun()
    run.started = False
    run.handle(run_signals.on_end_signal, signal.SIGHUP)
    assert (run.did, run.said, run.record.stop_signal) == (["finish"], [], signal.SIGHUP)


def test_a_run_that_is_ending_hears_nothing() -> None:
    run = FakeRun()
    run.ending = True
    run.handle(run_signals.on_end_signal, INT)
    assert (run.did, run.record.stop_signal) == ([], 0)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_user_signals_go_to_every_node(number: int) -> None:
    run = FakeRun()
    run.handle(run_signals.on_other_signal, number)
    assert [node.sink.sent for node in run.nodes] == [[(frames.SIGNAL, bytes([number]))]] * 2


def test_ctrl_z_suspends_the_fleet_and_sigquit_shows_who_runs() -> None:
    run = FakeRun()
    run.handle(run_signals.on_other_signal, signal.SIGTSTP)
    run.handle(run_signals.on_other_signal, signal.SIGQUIT)
    assert (run.did, run.said) == ([("suspend",)], [("running: 0 of 0 ranks", "error")])
    assert [node.sink.sent for node in run.nodes] == [[], []]


@pytest.mark.parametrize(
    ("started", "ending", "did"),
    [(True, False, [(TERM, None)]), (True, True, []), (False, False, [])],
)
def test_a_reader_that_leaves_stops_what_runs(
    started: bool, ending: bool, did: list[object]
) -> None:
    run = FakeRun()
    run.started, run.ending = started, ending
    run.handle(run_signals.on_broken_output)
    assert (run.record.broken_pipe, run.did) == (True, did)


def test_of_the_same_signal_twice_one_line_is_printed() -> None:
    """It is passed on again all the same."""
    run = FakeRun()
    for number in (TERM, TERM, INT):
        run.handle(run_signals.on_end_signal, number)
    assert run.did == [(TERM, None), (TERM, None), (INT, None)]
    assert [text.partition(":")[0] for text, _ in run.said] == ["SIGTERM", "SIGINT"]
