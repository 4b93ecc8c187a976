"""Which ranks can be debugged, and when."""

from __future__ import annotations

import gc
import os
import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import NODE_UNUSABLE
from dsrun.launcher.head.doors import observe
from dsrun.launcher.specs.policies import DebugPolicy

from ...support.fake_fleet import story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dsrun.launcher.head.run.run import Run

    from ...support.fake_fleet import FakeFleet
    from .desk import Desk

    DeskOf = Callable[..., Desk]
    FleetOf = Callable[..., FakeFleet]

NO_PORT = "rank 1 cannot be debugged: no port here: too many open files"


def begun(job: FakeFleet, policy: DebugPolicy) -> Run:
    """Return a run of these nodes whose workers are to begin."""
    run = job.prepare(debug=policy)
    observe(run)
    run.start()
    job.step()
    job.said()
    return run


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Nothing can be opened inside the `with` block, so there is no port either."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()  # what it closes later would be free
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_each_rank_has_a_line_with_its_port(desk_of: DeskOf) -> None:
    desk = desk_of((1, 2))
    assert [line.partition(" at ")[0] for line in desk.lines] == [
        "rank 1 on n0 waits for a debugger",
        "rank 2 on n1 waits for a debugger",
    ]
    assert desk.run.debugging == {1, 2}


def test_ranks_that_do_not_wait_count_once_somebody_has_come(desk_of: DeskOf) -> None:
    desk = desk_of(wait=False)
    assert desk.lines[0].startswith("rank 1 on n0 can be debugged at 127.0.0.1:")
    assert desk.run.debugging == set()
    desk.connect()
    assert desk.run.debugging == {1}


def test_all_ranks_and_a_file(desk_of: DeskOf, tmp_path: Path) -> None:
    desk = desk_of((), file=str(tmp_path / "l"))
    assert desk.run.debugging == {0, 1, 2, 3}
    assert desk.lines[-1].endswith(f'"dsrun: rank 3 on n1" in {tmp_path}/l')


def test_a_rank_that_has_ended_lets_nobody_in_and_the_job_s_end_closes_its_port(
    desk_of: DeskOf,
) -> None:
    desk = desk_of()
    desk.job.node("n0").exits(1, 0)
    desk.job.step()
    assert desk.run.debugging == set()
    desk.connect()
    assert desk.sent() == []
    desk.job.end_well(desk.run)
    desk.job.tell_end(desk.run)
    with pytest.raises(ConnectionRefusedError):
        desk.connect()


def test_a_lost_node_s_ranks_are_no_more_debugged(desk_of: DeskOf) -> None:
    desk = desk_of()
    desk.job.node("n0").leaves()
    desk.job.step()
    assert desk.run.debugging == set()


def test_a_rank_named_by_a_node_that_does_not_have_it_is_ignored(desk_of: DeskOf) -> None:
    desk = desk_of()
    desk.job.up("n1", 1)
    assert desk.job.said() == []


def test_a_rank_that_would_wait_for_a_debugger_that_cannot_come_ends_the_job(
    fleet_of: FleetOf,
) -> None:
    job = fleet_of("n0", "n1")
    run = begun(job, DebugPolicy(frozenset({1, 2})))
    with no_descriptors():
        job.begin_workers(run)
    assert job.said("warning") == [f"{NO_PORT}: stopping the job"]
    job.end_well(run)
    assert story(run)["exit_code"] == NODE_UNUSABLE


def test_a_rank_without_a_port_goes_on_if_it_does_not_wait(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = begun(job, DebugPolicy(frozenset({1}), wait=False))
    with no_descriptors():
        job.begin_workers(run)
    assert job.said("warning") == [NO_PORT]
    job.end_well(run)
    assert story(run)["exit_code"] == 0
