"""Whether the program of a run is started, and with what."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import frames
from dsrun.launcher.head.job.ending import ending_of
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.policies import CheckPolicy, OutputPolicy, WorkerPolicy

from ...support.fake_fleet import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


def test_what_is_asked_for_and_cannot_be_had_is_seen_before_the_start(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run(output=OutputPolicy(console_ranks=frozenset({4})))
    job.ready(run)
    ending = ending_of(run.view())
    assert (type(ending.error), ending.code) == (UsageError, 2)
    assert "--console_ranks 4: the ranks of this job are 0 to 3" in ending.text
    assert job.kinds("n0") == ["JOB"], "no START"


@pytest.mark.parametrize(("kinds", "bare"), [(("cpu", "cpu"), True), (("cuda", "cuda"), False)])
def test_accelerators_that_are_asked_for_by_name(
    kinds: tuple[str, str], bare: bool, fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1")
    run = job.run(workers=WorkerPolicy(needs_devices="--num_gpus 2"))
    job.ready(run, accelerator=kinds[0])
    assert (run.state.phase is RunPhase.OVER) is bare
    if bare:
        assert type(run.state.error) is UsageError
        assert "--num_gpus 2: the hosts have no accelerator" in str(run.state.error)


def test_slots_that_only_the_nodes_know(fleet_of: FleetOf) -> None:
    job = fleet_of(Host("n0"), Host("n1"))
    run = job.run()
    job.node("n0").hello()
    job.node("n1").hello(slots=3)
    job.step()
    job.node("n1").reaches()
    job.step()
    assert (run.state.phase, run.state.plan.world_size) == (RunPhase.RUNNING, 5)
    assert [len(node.node.slots or ()) for node in run.state.nodes] == [2, 3]
    assert [node.node.ranks for node in run.state.nodes] == [range(2), range(2, 5)]


def test_a_static_job_starts_with_those_that_are_enough(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.run(checks=CheckPolicy(least=2))
    job.node("n0").hello()
    job.node("n1").hello(problems=("no folder",))
    job.node("n2").hello()
    job.step()
    assert job.kinds("n1") == ["JOB", "STOP"]
    job.node("n1").done()
    job.step()
    job.node("n2").reaches()
    job.step()
    assert job.said() == ["n1: no folder; starting without it"]
    assert (run.state.phase, run.state.plan.world_size) == (RunPhase.RUNNING, 4)
    job.node("n0").beats()
    job.step()
    job.up("n2", 2, 3)
    job.node("n2").exits(2, 7)
    job.step()
    assert run.state.stopping, "it is not elastic"


def test_one_that_becomes_the_first_gets_the_master_port(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.run(checks=CheckPolicy(least=2))
    for name, problems in (("n0", ("no folder",)), ("n1", ()), ("n2", ())):
        job.node(name).hello(port=None, problems=problems)
    job.step()
    (_, first), (kind, again) = job.news("n1")
    assert (first["port"], kind, again["port"]) == (None, "JOB", 0)
    job.node("n1").hello(port=29600)
    job.step()
    job.node("n2").reaches()
    job.step()
    ((kind, start),) = job.news("n1")
    assert (kind, start["master_addr"], start["master_port"]) == ("START", "n1", 29600)
    assert (run.state.phase, start["world_size"]) == (RunPhase.RUNNING, 4)


def test_below_the_least_there_is_no_start(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run(checks=CheckPolicy(least=2))
    job.node("n0").hello()
    job.node("n1").hello(problems=("no folder",))
    job.step()
    assert refusal(run) == ["n1: no folder"]


@pytest.fixture
def stdin() -> Iterator[int]:
    """What is written here this process reads as its standard input."""
    read, write = os.pipe()
    before = os.dup(0)
    os.dup2(read, 0)
    os.close(read)
    yield write
    os.dup2(before, 0)
    for fd in (before, write):
        os.close(fd)


def test_standard_input_goes_to_rank_0_alone(stdin: int, fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start(output=OutputPolicy(stdin=True))
    os.write(stdin, b"hello")
    assert job.news("n0") == [["INPUT", "b'hello'"]]
    job.node("n0").says(frames.pack_credit(frames.INPUT_ACK, 5))
    job.step()
    assert run.state.phase is RunPhase.RUNNING
    job.node("n0").says(frames.pack_credit(frames.INPUT_ACK, 1))
    job.step()
    assert run.state.nodes[0].lost.endswith("kind 38: 1 bytes of input read, but only 0 sent")
    assert job.kinds("n1") == ["STOP"]


@pytest.mark.parametrize("asked", [True, False])
def test_input_is_taken_only_where_some_was_sent(asked: bool, fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start(output=OutputPolicy(stdin=asked))
    job.node("n1" if asked else "n0").says(frames.pack_credit(frames.INPUT_ACK, 0))
    job.step()
    assert run.state.nodes[asked].lost.endswith("kind 38: input read, but none sent")
