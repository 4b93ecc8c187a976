"""jax's variables of workers on a node."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.features.jax.node_outfit import outfit, variables
from dsrun.launcher.node.workers.spawn import StartingWorkers, WorkerSpec
from dsrun.launcher.specs.environment import JAX

from ...support.tasks import program_task

PLACE = {
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
}


def given(
    own: dict[str, str], sent: dict[str, str] | None = None, *, per_task: bool = False
) -> dict[str, str]:
    """The variables with which a worker starts, if these are its node's and the job's."""
    job = {JAX: "1", **(sent or {})}
    env = {name.encode(): value.encode() for name, value in {**PLACE, **own, **job}.items()}
    task = program_task(env=job, rank_per_task=per_task)
    with outfit([WorkerSpec(5, [b"w"], env, b"/")], StartingWorkers(task)) as (made,):
        return {name.decode(): value.decode() for name, value in made.env.items()}


def test_a_worker_has_the_variables_and_not_the_mark() -> None:
    assert given({"A": "1"}) == PLACE | {
        "A": "1",
        "JAX_COORDINATOR_ADDRESS": "10.0.0.1:29500",
        "JAX_COORDINATOR_PORT": "29500",
        "JAX_NUM_PROCESSES": "8",
        "JAX_PROCESS_ID": "5",
        "JAX_LOCAL_DEVICE_IDS": "1",
        "OMPI_MCA_orte_hnp_uri": "0.0;tcp://10.0.0.1:29500",
        "OMPI_COMM_WORLD_SIZE": "8",
        "OMPI_COMM_WORLD_RANK": "5",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    }


def test_an_ipv6_address_is_in_brackets() -> None:
    made = variables({**PLACE, "MASTER_ADDR": "fd00::1"}, ())
    assert made["JAX_COORDINATOR_ADDRESS"] == "[fd00::1]:29500"
    assert made["OMPI_MCA_orte_hnp_uri"] == "0.0;tcp6://[fd00::1]:29500"


@pytest.mark.parametrize(
    ("mask", "slots", "ids"),
    [
        (None, (), "1"),  # without devices
        ("-1", ("none", "none", "none", "none"), "1"),
        ("0,1,2,3", (), "1"),  # those of all workers
        ("4,5,6,7", (4, 5, 6, 7), "1"),
        ("GPU-7", (), "0"),  # its own
        ("2,3", ("0+1", "2+3", "4+5", "6+7"), "0,1"),
        ("4,5,6,7", ("0+1+2+3", "4+5+6+7", 8, 9), "0,1,2,3"),  # as many as there are workers
    ],
)
def test_devices_are_numbered_among_those_that_the_worker_sees(
    mask: str | None, slots: tuple[Any, ...], ids: str
) -> None:
    seen = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    assert variables(PLACE | seen, slots)["JAX_LOCAL_DEVICE_IDS"] == ids


def test_what_the_user_has_set_is_left_alone() -> None:
    own = {"JAX_COORDINATOR_ADDRESS": "h:1", "OMPI_COMM_WORLD_RANK": "7"}
    made = given({}, own)
    assert made | own == made
    assert made["JAX_PROCESS_ID"] == "5"


def test_the_variables_of_a_node_are_not_those_of_a_job() -> None:
    made = given({"JAX_PROCESS_ID": "7"})
    assert made["JAX_PROCESS_ID"] == "5"


@pytest.mark.parametrize("per_task", [False, True])
def test_a_task_of_open_mpi_keeps_its_own_values(*, per_task: bool) -> None:
    own = {"OMPI_MCA_orte_hnp_uri": "7.0;tcp://10.0.0.9:1", "OMPI_COMM_WORLD_LOCAL_RANK": "3"}
    made = given(own, per_task=per_task)
    assert (made | own == made) == per_task
    assert made["OMPI_COMM_WORLD_RANK"] == "5"
    assert made["JAX_COORDINATOR_ADDRESS"] == "10.0.0.1:29500"
