"""What a node launcher learns from the variables of the engine that has started it."""

from __future__ import annotations

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.node import engine_task


@pytest.mark.parametrize(
    ("engine", "environ", "expected"),
    [
        ("openmpi", {"OMPI_COMM_WORLD_RANK": "3", "PMIX_RANK": "3"}, "3@here"),
        ("openmpi", {"PMIX_RANK": "0", "SLURM_PROCID": "7"}, "0@here"),
        ("mpich", {"PMI_RANK": "2"}, "2@here"),
        ("mpich", {"PALS_RANKID": "1"}, "1@here"),
        ("impi", {"PMI_RANK": "12", "PMI_SIZE": "16"}, "12@here"),
        ("mvapich", {"MV2_COMM_WORLD_RANK": "5", "PMI_RANK": "5"}, "5@here"),
        ("slurm", {"SLURM_PROCID": "1", "SLURMD_NODENAME": "n7"}, "1@n7,here"),
        ("slurm", {"SLURM_PROCID": "1", "SLURMD_NODENAME": "here"}, "1@here"),
    ],
)
def test_who_this_is(engine: str, environ: dict[str, str], expected: str) -> None:
    assert engine_task.task_identity(engine, environ, "here") == expected


@pytest.mark.parametrize(
    ("engine", "environ", "message"),
    [
        ("openmpi", {"PMI_RANK": "0"}, "none of its variables is set here .OMPI_COMM_WORLD_RANK"),
        ("mpich", {"PMI_RANK": ""}, "none of its variables"),
        (
            "openmpi",
            {"OMPI_COMM_WORLD_RANK": "0", "PMIX_RANK": "1"},
            "task of openmpi this is: OMPI_COMM_WORLD_RANK=0, PMIX_RANK=1 disagree",
        ),
        ("mpich", {"PMI_RANK": "-1"}, "task of mpich this is: PMI_RANK=-1 is not a number"),
        (
            "slurm",
            {"SLURM_PROCID": "\u0661"},
            "task of slurm this is: SLURM_PROCID=\u0661 is not a number",
        ),
    ],
)
def test_who_cannot_be_told(engine: str, environ: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        engine_task.task_identity(engine, environ, "here")
