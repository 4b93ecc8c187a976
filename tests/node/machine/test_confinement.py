"""Who has left fewer CPUs than there are workers, and how to undo it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.machine import confinement

from ...support.checkout import BIN
from ...support.limits import HANG
from ...support.needs import need
from .test_capacity import root_of

if TYPE_CHECKING:
    from pathlib import Path

CPUS = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("environ", "by_engine", "who", "undo"),
    [
        ({}, False, "taskset", "mpirun --bind-to none"),
        ({}, True, "the launcher", "--launcher_args '--bind-to none'"),
        ({"OMPI_COMM_WORLD_SIZE": "1"}, False, "Open MPI's mpirun", "mpirun --bind-to none"),
        ({"I_MPI_HYDRA_HOST_FILE": "x"}, False, "Intel MPI's mpirun", "I_MPI_PIN=0"),
        ({"MPI_LOCALNRANKS": "1"}, False, "Hydra's mpiexec", "mpiexec -bind-to none"),
        ({"PALS_RANKID": "0"}, False, "PALS's mpiexec", "--cpu-bind none"),
        ({"SLURM_STEP_ID": "0", "PMI_RANK": "0"}, False, "srun", "srun --cpu-bind=none"),
        ({"SLURM_STEP_ID": "0", "MPI_LOCALRANKID": "0"}, False, "Hydra's", "-bind-to none"),
    ],
)
def test_who_has_bound_the_node_launcher(
    tmp_path: Path, environ: dict[str, str], by_engine: bool, who: str, undo: str
) -> None:
    root = f"{tmp_path}/"
    text = confinement.note(CPUS + 1, CPUS, environ, by_engine, online=CPUS + 1, root=root)
    counts = f"{CPUS + 1} workers share {CPUS} of {CPUS + 1} CPUs, because of "
    assert text.startswith(counts)
    assert who in text
    assert f"bound dsrun to CPU {min(os.sched_getaffinity(0))}" in text
    assert undo in text.partition("; to undo that: ")[2]


def test_a_quota_is_named_with_its_cgroup(tmp_path: Path) -> None:
    files = {
        "proc__self__cgroup": "0::/a/b\n",
        "sys__fs__cgroup__a__cpuDOTmax": "150000 100000\n",
        "sys__fs__cgroup__a__b__cpuDOTmax": "max 100000\n",
    }
    root = root_of(tmp_path, **files)
    text = confinement.note(2, 1.5, {"OMPI_COMM_WORLD_SIZE": "1"}, online=8, root=root)
    expected = f"2 workers share 1.5 of 8 CPUs, because of the CPU quota of {root}sys/fs/cgroup/a; "
    assert text.startswith(expected)
    assert "--cpus" in text


@pytest.mark.parametrize(
    ("environ", "undo"), [({}, "--cpuset-cpus"), ({"SLURM_JOB_ID": "7"}, "--cpus-per-task")]
)
def test_a_cpuset_is_named_with_its_cgroup(
    tmp_path: Path, environ: dict[str, str], undo: str
) -> None:
    files = {
        "proc__self__cgroup": "5:cpuset:/job/step\n",
        "sys__fs__cgroup__cpuset__job__cpusetDOTeffective_cpus": "2,4\n",
    }
    root = root_of(tmp_path, **files)
    text = confinement.note(4, 2, environ, online=8, root=root)
    folder = f"{root}sys/fs/cgroup/cpuset/job"
    assert text.startswith(
        f"4 workers share 2 of 8 CPUs, because of the cpuset 2,4 of {folder}; to undo that: "
    )
    assert undo in text
    assert "cpuset" not in confinement.note(4, 1, {}, online=8, root=root).partition(";")[0]


def test_a_machine_without_more_cpus_needs_no_word(tmp_path: Path) -> None:
    assert confinement.note(8, 2, {}, online=2, root=f"{tmp_path}/") == ""
    assert confinement.note(2, 2, {}, online=8, root=f"{tmp_path}/") == ""


def test_a_job_says_once_that_a_mask_leaves_too_few(tmp_path: Path) -> None:
    need("taskset")
    if CPUS < 2:
        pytest.skip("one CPU")
    cpu = min(os.sched_getaffinity(0))
    (tmp_path / "show.py").write_text("import os\nprint(os.environ['OMP_NUM_THREADS'])")
    command = ["taskset", "-c", str(cpu), sys.executable, str(BIN / "dsrun"), "--accelerator=cpu"]
    ran = subprocess.run(
        [*command, "--num_gpus=2", "show.py"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "OMPI_COMM_WORLD_SIZE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert ran.returncode == 0, ran.stderr
    assert [line[-1] for line in ran.stdout.splitlines()] == ["1", "1"]
    assert ran.stderr.count("2 workers share 1 of ") == 1
    assert ran.stderr.count(f"Open MPI's mpirun, which bound dsrun to CPU {cpu}; to undo") == 1
