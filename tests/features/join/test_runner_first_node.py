"""Node 0 of `--no_ssh` sees whether it is itself who answers where node 0 is to be."""

from __future__ import annotations

import os
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.features.join import runner as first_node
from dsrun.launcher.resources import source
from dsrun.launcher.specs.backend import DialIn
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program

from ...support.listeners import Runner, runner

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["runner"]


class Job:
    """A run of two nodes, of which node 0 is to be at an address.

    Attributes:
        reasons: why it was called off.
        started: whether its workers run.
        ending: whether it ends.
    """

    def __init__(self, address: str, port: int, nodes: int = 2) -> None:
        self.loop = Loop()
        self.reasons: list[str] = []
        hosts = [Host(f"n{number}", (0,)) for number in range(nodes)]
        self.plan = Plan(lay_out(hosts), Program("x.py"), "none", None, None)
        self.spec = SimpleNamespace(dial_in=DialIn(port, address), plan=self.plan)
        self.started = self.ending = False

    def call_off(self, reason: str) -> None:
        """Note the reason."""
        self.reasons.append(reason)
        self.loop.stop()

    def look(self, pin: str) -> None:
        """Look until nobody looks any more; the loop has run then."""
        before = set(threading.enumerate())
        first_node.look_for_another(cast("Any", self.spec), self.loop, cast("Any", self), pin)
        for thread in set(threading.enumerate()) - before:
            thread.join(20)
            assert not thread.is_alive()
        self.loop.call_later(0.01, self.loop.stop)  # what was said meanwhile comes before
        self.loop.run()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no address be this machine's."""
    monkeypatch.setattr(source, "own_address", lambda _address: False)


@pytest.mark.usefixtures("elsewhere")
def test_another_node_0_calls_the_job_off(runner: Runner) -> None:
    port = runner.listener.port
    job = Job("127.0.0.1", port)
    job.look("0" * 64)
    assert job.reasons == [
        f"--node_rank 0 on {os.uname().nodename}, but another machine answers as node 0 at"
        f" 127.0.0.1:{port}; give each node its own --node_rank, 0 to 1"
    ]
    assert runner.asked.is_set(), "it has said who it is"


@pytest.mark.usefixtures("elsewhere")
def test_an_address_may_lead_here_after_all(runner: Runner) -> None:
    job = Job("127.0.0.1", runner.listener.port)
    job.look(runner.pin)
    assert job.reasons == []
    assert runner.asked.is_set()


def test_ones_own_address_is_not_called(runner: Runner) -> None:
    job = Job("127.0.0.1", runner.listener.port)
    job.look("0" * 64)
    assert job.reasons == []
    assert not runner.asked.is_set()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("phase", ["started", "ending"])
def test_once_the_job_runs_nobody_looks(runner: Runner, phase: str) -> None:
    job = Job("127.0.0.1", runner.listener.port)
    setattr(job, phase, True)
    job.look("0" * 64)
    assert not runner.asked.is_set()


@pytest.mark.usefixtures("elsewhere")
def test_a_node_alone_has_nobody_to_be_mistaken_for(runner: Runner) -> None:
    job = Job("127.0.0.1", runner.listener.port, nodes=1)
    job.look("0" * 64)
    assert job.reasons == []
    assert not runner.asked.is_set()


@pytest.mark.usefixtures("elsewhere")
def test_while_nobody_answers_it_looks_again(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job("127.0.0.1", 1)

    def sleep(_seconds: float) -> None:
        job.spec.dial_in = None
        job.started = True

    monkeypatch.setattr(time, "sleep", sleep)
    job.look(runner.pin)
    assert job.spec.dial_in is None, "it has waited, and then seen that the job runs"
    assert job.reasons == []


@pytest.mark.parametrize(
    ("name", "own"),
    [("127.0.0.1", True), ("localhost", True), ("192.0.2.1", False), ("a\0b", False)],
)
def test_what_leads_to_this_machine(name: str, own: bool) -> None:
    leads_here: Callable[[str], bool] = first_node._is_own
    assert leads_here(name) is own


def test_a_name_that_nobody_knows_is_taken_as_it_is_written() -> None:
    assert not first_node._is_own("no-such-host.invalid")
