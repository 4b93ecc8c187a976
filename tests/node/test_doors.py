"""The outfits of workers, none of which is imported for a job without it, services, questions."""

from __future__ import annotations

import inspect
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.entry import load
from dsrun.launcher.features.stacks.hook import FOLDER
from dsrun.launcher.node import doors
from dsrun.launcher.node.answers import NodeAnswers
from dsrun.launcher.node.doors import NodeDoor
from dsrun.launcher.node.service import NodeService
from dsrun.launcher.node.workers.spawn import StartingWorkers, WorkerSpec
from dsrun.launcher.specs.policies import BindingPolicy
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.rendezvous import Rendezvous

from ..support.services import service_context
from ..support.tasks import program_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsrun.launcher.node.service import ServiceDoor

SPEC = WorkerSpec(3, [b"python", b"train.py"], {b"A": b"1"}, b"/")
TORCHS = Rendezvous("c10d", "h:1", "j", 1, 2, {}, "", 0, 0.1)
SHELL = Program("sh", no_python=True)


def outfitted(**fields: Any) -> WorkerSpec:
    with doors.outfitted([SPEC], StartingWorkers(program_task(**fields), "/logs/j")) as (spec,):
        return spec


@pytest.mark.parametrize("door", doors.OUTFITS)
def test_behind_each_door_there_is_a_function(door: NodeDoor) -> None:
    assert callable(load(door.name))


@pytest.mark.parametrize("fields", [{}, {"hook": True, "program": SHELL}])
def test_workers_of_a_job_without_features_stay_as_they_are(fields: dict[str, Any]) -> None:
    assert outfitted(**fields) == SPEC


def test_workers_that_run_python_have_the_hook_and_the_flight_recorder() -> None:
    spec = outfitted(hook=True)
    assert spec.hook == os.fsencode(FOLDER)
    assert spec.env == {
        b"A": b"1",
        b"TORCH_FR_BUFFER_SIZE": b"500",
        b"TORCH_FR_DUMP_TEMP_FILE": b"/logs/j/nccl_trace_rank_",
        b"TORCH_NCCL_DUMP_ON_TIMEOUT": b"1",
    }


def test_outfits_are_put_on_one_after_another_and_taken_off_at_the_end() -> None:
    own = f"{__name__}:outfit"
    worn, left = NodeDoor(own, lambda _: True), NodeDoor(own, lambda _: False)
    rows = [worn, left, worn]
    with doors.outfitted([SPEC], StartingWorkers(program_task()), rows) as (spec,):
        assert spec.argv == [*SPEC.argv, b"1", b"2"]
    assert order == ["on", "on", "off", "off"]


order: list[str] = []


@contextmanager
def outfit(
    specs: Sequence[WorkerSpec], _starting: StartingWorkers
) -> Iterator[Sequence[WorkerSpec]]:
    """An outfit that tells when it is put on and taken off."""
    order.append("on")
    yield [one._replace(argv=[*one.argv, b"%d" % len(order)]) for one in specs]
    order.append("off")


@pytest.mark.parametrize("row", doors.SERVICES, ids=lambda row: row.name)
def test_behind_each_row_there_is_a_service(row: ServiceDoor) -> None:
    service = row.open(service_context())
    assert isinstance(service, NodeService)
    service.close()
    service.close()


@pytest.mark.parametrize(
    ("fields", "also"),
    [
        ({}, set()),
        ({"shard_queue": True}, {"QueueLines"}),
        ({"reach": True}, {"Reaching"}),
        ({"port": 0}, {"PortWatch"}),
        ({"elastic": True}, {"PortWatch"}),
        ({"elastic": True, "rendezvous": TORCHS}, set()),
        ({"sample": 2.0}, {"Sampler"}),
        ({"ports": {"http": 0}}, {"RolePorts"}),
        ({"binding": BindingPolicy(report=True)}, {"AffinityReport"}),
    ],
)
def test_services_of_a_job(fields: dict[str, Any], also: set[str]) -> None:
    task = program_task(**fields)
    found = {row.name.partition(":")[2] for row in doors.SERVICES if row.applies(task)}
    assert found == {"Probes", "DeathWatch"} | also


@pytest.mark.parametrize("name", doors.QUESTIONS)
def test_a_question_has_its_types_and_what_answers_it(name: str) -> None:
    (own, ask, answer), answers = (load(one) for one in doors.QUESTIONS[name])
    assert own == name
    assert hasattr(ask, "_fields")
    assert hasattr(answer, "_fields")
    if inspect.isclass(answers):
        assert issubclass(answers, NodeAnswers)
    else:
        assert callable(answers)
