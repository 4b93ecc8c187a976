"""What each worker of a round is started with."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.control.messages import Start
from dsrun.launcher.features.binding import node_apply as apply
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.machine.cores import WorkerCores
from dsrun.launcher.node.workers.spawn import Process
from dsrun.launcher.node.workers.worker_specs import WorkerSpecs
from dsrun.launcher.specs.host import Slot
from dsrun.launcher.specs.plan import encode_world
from dsrun.launcher.specs.policies import BindingPolicy
from dsrun.launcher.specs.program import Program

from ...support.leaks import open_files
from ...support.node_setup import node_setup
from ...support.tasks import task_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsrun.launcher.node.workers.spawn import WorkerSpec

START = Start(4, (0, 1), 8, 2, 3, "h", 29500, 1, restarts=1, max_restarts=3, world="w")
TRAIN = Program("train.py", ("--lr", "1"), python=sys.executable)
SHELL = Program("/bin/sh", no_python=True, local_rank=False)
CPUS = len(os.sched_getaffinity(0))
CUDA = {"DSRUN_ACCELERATOR": "cuda", "CUDA_VISIBLE_DEVICES": "3,5"}


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., WorkerSpecs]]:
    """Make the workers of a task, where the environment has no PYTHONPATH."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    made = []
    (tmp_path / "train.py").touch()

    def specs(program: Program = TRAIN, **fields: Any) -> WorkerSpecs:
        usual: dict[str, Any] = {
            "dsrun": __version__,
            "job_id": "j",
            "host": "n0",
            "program": program,
            "workdir": str(tmp_path),
            "env": {"DSRUN_ACCELERATOR": "cpu"},
            "slots": (0, 1),
            "port": None,
        }
        made.append(WorkerSpecs(node_setup(task_of(**usual | fields), print), print))
        return made[-1]

    yield specs
    for one in made:
        one.close()


def variables(spec: WorkerSpec, *names: str) -> list[str | None]:
    """Return these variables of a worker."""
    found = [spec.env.get(name.encode()) for name in names]
    return [None if value is None else os.fsdecode(value) for value in found]


def test_every_worker_has_its_command_and_its_place(
    make: Callable[..., WorkerSpecs], tmp_path: Path
) -> None:
    specs, logs = make().make(START)
    assert logs is None
    python = os.fsencode(sys.executable)
    for local, spec in enumerate(specs):
        local_rank = b"--local_rank=%d" % local
        assert spec.argv == [python, b"-u", b"train.py", local_rank, b"--lr", b"1"]
        assert (spec.rank, spec.workdir, spec.cpus) == (4 + local, os.fsencode(tmp_path), ())
        assert not spec.keep_stdin
        where = variables(spec, "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE")
        assert where == [str(4 + local), str(local), "2", "8"]
        job = variables(spec, "GROUP_RANK", "GROUP_WORLD_SIZE", "DSRUN_JOB_ID", "DSRUN_WORLD_INFO")
        assert job == ["2", "3", "j", "w"]
        master = variables(spec, "MASTER_ADDR", "MASTER_PORT", "ROLE_NAME", "OMP_NUM_THREADS")
        assert master == ["h", "29500", "default", str(max(1, CPUS // 2))]
        restarts = variables(spec, "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS")
        assert restarts == ["1", "3"]
        elastic = variables(spec, "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RUN_ID")
        assert elastic == ["False", "j"]
        owners = [f"{pid}:{processes.started(pid)}" for pid in (os.getpid(), os.getppid())]
        assert variables(spec, "DSRUN_NODE_LAUNCHER") == [",".join(owners)]


def test_one_worker_may_be_enough(make: Callable[..., WorkerSpecs]) -> None:
    specs, _ = make().make(START._replace(only=1))
    assert [spec.rank for spec in specs] == [5]


def test_rank_0_alone_keeps_standard_input(make: Callable[..., WorkerSpecs]) -> None:
    specs, _ = make(stdin=True).make(START._replace(first_rank=0))
    assert [spec.keep_stdin for spec in specs] == [True, False]
    specs, _ = make(stdin=True).make(START)
    assert [spec.keep_stdin for spec in specs] == [False, False]


@pytest.mark.parametrize(
    ("one_device", "masks", "local_ranks"),
    [(False, ["3,5", "3,5"], ["0", "1"]), (True, ["3", "5"], ["0", "0"])],
)
def test_workers_see_the_nodes_devices_or_their_own(
    make: Callable[..., WorkerSpecs], one_device: bool, masks: list[str], local_ranks: list[str]
) -> None:
    specs, _ = make(env=CUDA, one_device=one_device).make(START)
    assert [variables(one, "CUDA_VISIBLE_DEVICES")[0] for one in specs] == masks
    assert [variables(one, "LOCAL_RANK")[0] for one in specs] == local_ranks
    assert [one.argv[3].decode() for one in specs] == [f"--local_rank={n}" for n in local_ranks]


@pytest.mark.parametrize(
    ("slots", "masks"),
    [
        (("0+1",), ["3,5"]),
        ((0, "none"), ["3", "-1"]),
        (("none",), ["-1"]),
    ],
)
def test_a_worker_with_several_devices_or_none_sees_its_own(
    make: Callable[..., WorkerSpecs], slots: tuple[Slot, ...], masks: list[str]
) -> None:
    specs, _ = make(env=CUDA).make(START._replace(slots=slots))
    assert [variables(one, "CUDA_VISIBLE_DEVICES")[0] for one in specs] == masks
    assert [variables(one, "LOCAL_RANK")[0] for one in specs] == ["0", "1"][: len(slots)]


def test_a_slot_that_is_no_device(make: Callable[..., WorkerSpecs]) -> None:
    with pytest.raises(ValueError, match="7"):
        make(env=CUDA).make(START._replace(slots=(7,)))


@pytest.mark.parametrize(
    ("world", "each"),
    [({"a": (0, 1), "b": (0, 1), "c": (0,)}, "2(x2),1"), ({}, None), ({"a b": (0,)}, None)],
)
def test_slurms_counts_are_those_of_workers(
    world: dict[str, tuple[Slot, ...]],
    each: str | None,
    make: Callable[..., WorkerSpecs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_PROCID", "SLURM_TASKS_PER_NODE"):
        monkeypatch.setenv(name, "1")
    first, second = make().make(START._replace(world=encode_world(world) if world else ""))[0]
    names = ("SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_PROCID")
    assert variables(first, *names) == [each, "2", "4"]
    assert variables(second, *names) == [each, "2", "5"]


@pytest.mark.parametrize(("sent", "seen"), [({}, None), ({"PMI_RANK": "9"}, "9")])
def test_a_variable_of_mpi_that_the_user_sends_is_the_users(
    sent: dict[str, str],
    seen: str | None,
    make: Callable[..., WorkerSpecs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PMI_RANK", "1")
    specs, _ = make(env={"DSRUN_ACCELERATOR": "cpu", **sent}).make(START)
    assert [variables(spec, "PMI_RANK") for spec in specs] == [[seen], [seen]]


def test_what_the_agent_says_of_a_worker_wins(make: Callable[..., WorkerSpecs]) -> None:
    said = ({"LOCAL_RANK": "9", "ROLE_RANK": "6"}, {"LOCAL_RANK": "9", "ROLE_RANK": "7"})
    specs, _ = make(torch_agent=True, run_id="id").make(START._replace(agent_variables=said))
    assert [variables(one, "LOCAL_RANK", "ROLE_RANK") for one in specs] == [["0", "6"], ["1", "7"]]
    found = variables(specs[0], "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RUN_ID")
    assert found == ["True", "id"]


def test_cores_are_bound_where_that_is_asked_for(make: Callable[..., WorkerSpecs]) -> None:
    policy = BindingPolicy("core", memory="none")
    specs, _ = make(binding=policy, slots=(0,)).make(START._replace(slots=(0,)))
    assert set(specs[0].cpus) <= os.sched_getaffinity(0)
    assert specs[0].cpus
    threads = int(variables(specs[0], "OMP_NUM_THREADS")[0] or 0)
    assert 1 <= threads <= len(specs[0].cpus)


def test_a_memory_policy_is_a_command_and_a_value(
    make: Callable[..., WorkerSpecs], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is for a worker that is executed, the value for one that is forked."""
    cores = WorkerCores(("numactl", "-m", "1", "--"), (2, 3), 2, ("bind", (1,)))
    monkeypatch.setattr(apply, "bound", lambda *_args, **_more: [cores])
    (spec,), _ = make(binding=BindingPolicy("numa"), slots=(0,)).make(START._replace(slots=(0,)))
    assert spec.prefix == (b"numactl", b"-m", b"1", b"--")
    assert (spec.argv[2], spec.cpus, spec.memory) == (b"train.py", (2, 3), ("bind", (1,)))


@pytest.mark.parametrize(
    ("program", "path"),
    [
        (TRAIN._replace(folder_first=True), "{folder}:/mine"),
        (TRAIN, "/mine"),
    ],
)
def test_the_folder_may_be_where_modules_come_from(
    make: Callable[..., WorkerSpecs], tmp_path: Path, program: Program, path: str
) -> None:
    env = {"DSRUN_ACCELERATOR": "cpu", "PYTHONPATH": "/mine"}
    (spec, _), _ = make(program, env=env).make(START)
    assert variables(spec, "PYTHONPATH") == [path.replace("{folder}", str(tmp_path))]


def test_where_workers_are_is_known_by_their_pids(make: Callable[..., WorkerSpecs]) -> None:
    made = make()
    specs, _ = made.make(START)
    started = [Process(spec, 100 + spec.rank, -1, -1, -1) for spec in specs]
    bound = made.bound(START, started)
    assert bound.accelerator == "cpu"
    assert [(one.rank, one.pid) for one in bound.workers] == [(4, 104), (5, 105)]


def test_memory_files_are_those_of_the_newest_round(make: Callable[..., WorkerSpecs]) -> None:
    made = make()
    (first, _), _ = made.make(START)
    (old,) = variables(first, "TORCHELASTIC_ERROR_FILE")
    assert old
    (second, third), _ = made.make(START)
    paths = [*variables(second, "TORCHELASTIC_ERROR_FILE")]
    paths += variables(third, "TORCHELASTIC_ERROR_FILE")
    assert all(is_memory(path or "") for path in paths)
    made.close()
    assert not any(is_memory(path or "") for path in (*paths, old))


def is_memory(path: str) -> bool:
    """Return whether a path is a file in memory of ours: its number may be reused."""
    return Path(path).is_symlink() and "memfd:error.json" in str(Path(path).readlink())


def test_files_of_a_round_are_closed_before_those_of_the_next(
    make: Callable[..., WorkerSpecs],
) -> None:
    specs = make()
    open_files()  # or a number that is free only later would be that of the second file
    specs.make(START)
    before = open_files()
    (spec, _), _ = specs.make(START)
    assert open_files() == before
    assert "TORCHELASTIC_ERROR_FILE" in {name.decode() for name in spec.env}


def test_what_is_known_before_the_start_is_what_all_workers_have_alike(
    make: Callable[..., WorkerSpecs],
) -> None:
    common = make(env={**CUDA, "MINE": "1"}).common()
    known = {name.decode(): value.decode() for name, value in common.items()}
    assert (known["MINE"], known["DSRUN_JOB_ID"]) == ("1", "j")
    assert not known.keys() & {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"}
