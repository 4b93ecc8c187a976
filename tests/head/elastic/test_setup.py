"""What an elastic job hears of while it runs, over its real socket and a real hostfile."""

from __future__ import annotations

import json
import os
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

from dsrun.launcher.head.elastic import scale_socket
from dsrun.launcher.head.elastic.runner_rounds import RunnerRounds
from dsrun.launcher.head.elastic.setup import runner_rounds
from dsrun.launcher.specs.elastic_policy import ElasticPolicy
from dsrun.launcher.specs.host_updates import HostUpdates

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dsrun.launcher.head.run.run import Run

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

LIMITS = ElasticPolicy(1, 4, 3)


def start(fleet: FakeFleet, updates: HostUpdates | None = None, job_id: str = "") -> Run:
    """An elastic run that has started."""
    run = fleet.run(
        restarts=lambda run: runner_rounds(run, LIMITS, fleet.console),  # type: ignore[arg-type]
        elastic=LIMITS,
        updates=updates,
        job_id=job_id or f"20261122-010203-{os.urandom(3).hex()}",
    )
    assert isinstance(run.restarts, RunnerRounds)
    fleet.ready(run)
    return run


def ask(fleet: FakeFleet, run: Run, nodes: int) -> dict[str, Any]:
    """What the job answers to who asks for so many nodes."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with closing(line):
        line.settimeout(5)
        line.connect(f"\0{scale_socket.name(run.spec.job_id)}")
        line.send(json.dumps({"nodes": nodes}).encode())
        fleet.step()
        answer: dict[str, Any] = json.loads(line.recv(4096))
    return answer


def test_other_commands_can_ask_for_another_number_of_nodes(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    run = start(fleet)
    fleet.said()
    done = {"done": True, "words": "rounds of at most 1 node from now on"}
    assert ask(fleet, run, 1) == done
    assert fleet.said("warning") == ["resizing to 1 node, as dsrun-scale asks"]
    assert not ask(fleet, run, 9)["done"]


def test_a_job_that_is_stopped_cannot_be_asked_any_more(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    run = start(fleet)
    run.stop(15)
    scale_socket.listener(run.spec.job_id).close()  # the name is free


def test_a_job_whose_name_is_taken_runs_without(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    job_id = f"20261122-010203-{os.urandom(3).hex()}"
    with closing(scale_socket.listener(job_id)):
        run = start(fleet, job_id=job_id)
    assert run.started
    assert fleet.said("debug")[0] == "dsrun-scale cannot reach this job: Address already in use"


def test_a_hostfile_that_changes_is_read_again(fleet_of: FleetOf, tmp_path: Path) -> None:
    fleet, path = fleet_of("n0"), tmp_path / "hosts"
    path.write_text("n0 slots=2\n")
    run = start(fleet, HostUpdates(hostfile=str(path)))
    fleet.go(1.5)
    assert fleet.backend.started == [[0]]
    path.write_text("n0 slots=2\nn1 slots=1\n")
    fleet.go(1.5)
    assert fleet.backend.started == [[0], [1]]
    path.write_text("n0 slots=\n")
    fleet.go(1.5)
    (wrong,) = fleet.said("warning")
    assert wrong.startswith(f"{path}:1")
    assert wrong.endswith("; the hosts stay as they are")
    run.stop(15)
    path.write_text("n0 slots=2\nn0 slots=\n")
    fleet.go(3)
    assert fleet.said("warning") == [], "nobody looks any more"


def test_a_program_names_the_hosts_where_one_is_given(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    start(fleet, HostUpdates(script="/no/such/program", hostfile="/no/such/file"))
    fleet.go(1.5)
    (wrong,) = fleet.said("warning")
    assert wrong.startswith("/no/such/program: ")


def test_without_any_source_of_hosts_nobody_looks(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    start(fleet)
    fleet.go(3)
    assert fleet.said("warning") == []
