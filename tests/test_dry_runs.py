"""Dry runs of the whole command, as text and as JSON, compared with `recorded/dry_runs.json`.

They run in this process, with stand-ins for the tools that a launcher asks for its version; only
names that differ from machine to machine are replaced.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__, runner
from dsrun.launcher.backends.base import BOOT, package_root
from dsrun.launcher.backends.package.command import boot, without_code
from dsrun.launcher.backends.package.contents import digest
from dsrun.launcher.resources import world_info

from .recorded import Record
from .recorded.differences import beyond_defaults
from .support import schemas
from .support.checkout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator


HOSTFILE = "w0 slots=4\nw1 slots=4\nw2 slots=2\n"
FILES = {
    "hosts": HOSTFILE,
    "two": "w0 slots=2\nw1 slots=2\n",
    "plain": "w0\nw1\n",
    "numbers": "192.0.2.1 slots=2\n192.0.2.2 slots=2\n",
    "plain_numbers": "192.0.2.1\n192.0.2.2\n",
    "ranged": "me@w[01-03] slots=2 port=2222\n",
    "many": "".join(f"h{at:03} slots=8\n" for at in range(66)),
    "env": "A=1\nB='two words'\n",
    "train.py": "",
    "run.sh": "#!/bin/sh\n",
    "ds.json": json.dumps(
        {
            "elasticity": {
                "enabled": True,
                "max_train_batch_size": 2000,
                "micro_batch_sizes": [2, 4, 6],
                "min_gpus": 1,
                "max_gpus": 10000,
                "version": 0.1,
            }
        }
    ),
}
TOOLS = {
    "mpirun": "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/",
    "mpiexec.hydra": "HYDRA build details:\n    Version:  4.0.2",
    "intel/mpiexec.hydra": "Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260601",
    "mpiexec": "HYDRA build details:\n    Version:  4.0.2",
    "srun": "slurm-wlm 22.05.8",
    "salloc": "slurm-wlm 22.05.8",
    "sinfo": "slurm-wlm 22.05.8",
    "scontrol": "slurm-wlm 22.05.8",
    "pdsh": "pdsh-2.34 (+debug)\nrcmd modules: ssh,exec (default: ssh)",
    "ssh": "OpenSSH_9.2p1 Debian-2, OpenSSL 3.0.11",
    "numactl": "",
}
"""Programs on PATH, and what each prints."""

TWO, THREE = ("-H", "two"), ("-H", "hosts")
NUMBERS = ("-H", "numbers")
"""For engines: names would be looked up, which takes seconds where no name server answers."""
SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "w[0-1]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_GPUS_ON_NODE": "2",
    "SLURM_TASKS_PER_NODE": "1(x2)",
    "SLURM_NODELIST": "w[0-1]",
}
ENGINES = ("openmpi", "mpich", "impi", "mvapich")
REMOTE = ("ssh", "openssh", "pdsh", *ENGINES)
INTEL = ("--launcher", "impi", "--launcher_path", "bin/intel")


def over(launcher: str) -> tuple[str, ...]:
    """Return the options that choose a launcher; Intel's program has the name of MPICH's."""
    return INTEL if launcher == "impi" else ("--launcher", launcher)


LINES: list[tuple[str, ...]] = [
    ("train.py",),
    ("--num_gpus", "2", "train.py", "--lr", "0.1"),
    ("--nproc_per_node", "2", "train.py", "a b", "'", "*"),
    ("--standalone", "--nproc_per_node", "2", "train.py"),
    ("--host", "w0:2,w1:0-1", "train.py"),
    ("--host", "w0,w1", "train.py"),
    ("--host", "me@w0:2", "--ssh_port", "2200", "train.py"),
    (*TWO, "train.py"),
    (*THREE, "train.py"),
    ("-H", "plain", "train.py"),
    ("-H", "ranged", "train.py"),
    ("-H", "many", "train.py"),
    (*THREE, "--include", "w0@w2:0", "train.py"),
    (*THREE, "--include", "w[0-1]:1-2", "train.py"),
    (*THREE, "--exclude", "w1", "train.py"),
    (*THREE, "--exclude", "w0:0,3@w2:1", "train.py"),
    (*THREE, "--num_nodes", "2", "train.py"),
    (*THREE, "--num_gpus", "2", "train.py"),
    (*THREE, "--nnodes", "2", "--nproc_per_node", "1", "train.py"),
    (*TWO, "-m", "package.train", "--x"),
    (*TWO, "--no_python", "./run.sh", "x"),
    (*TWO, "--no_python", "--no_local_rank", "./run.sh"),
    (*TWO, "--no_local_rank", "train.py"),
    (*TWO, "--python", "/opt/py/bin/python", "train.py"),
    (*TWO, "--master_addr", "10.0.0.1", "--master_port", "29500", "train.py"),
    (*TWO, "--rdzv_endpoint", "w0:29400", "train.py"),
    (*TWO, "--workdir", "/data", "train.py"),
    (*TWO, "--export", "A=1", "--export", "HF_TOKEN", "train.py"),
    (*TWO, "--env_file", "env", "train.py"),
    (*TWO, "--venv_script", "env", "train.py"),
    (*TWO, "--bind_cores_to_rank", "train.py"),
    (*TWO, "--bind_to", "numa", "--bind_memory", "interleave", "train.py"),
    (*TWO, "--numa_binding", "socket", "train.py"),
    (*TWO, "--bind_cores_to_rank", "--bind_core_list", "0-7", "train.py"),
    (*TWO, "--log_dir", "logs", "train.py"),
    (*TWO, "--log_dir", "logs", "--redirects", "3", "train.py"),
    (*TWO, "--log_dir", "logs", "--tee", "0:1,1:2", "train.py"),
    (*TWO, "--console_ranks", "0,2", "train.py"),
    (*TWO, "--local_ranks_filter", "0", "train.py"),
    (*TWO, "--prefix", "[{rank}] ", "train.py"),
    (*TWO, "--prefix", "", "train.py"),
    (*TWO, "--accelerator", "cpu", "train.py"),
    (*TWO, "--accelerator", "cuda", "train.py"),
    (*TWO, "--virtual_local_rank", "train.py"),
    (*TWO, "--grace", "5", "--heartbeat_timeout", "60", "train.py"),
    (*TWO, "--graceful_term_ok", "--signals_to_handle", "SIGTERM", "train.py"),
    (*TWO, "--stdin", "rank0", "train.py"),
    (*TWO, "--shard_queue", "train.py"),
    (*TWO, "--role", "trainer", "--rdzv_id", "job7", "train.py"),
    (*TWO, "--allow_background", "--quiet", "train.py"),
    (*TWO, "--connect_timeout", "3", "--start_timeout", "30", "train.py"),
    (*TWO, "--accept_new_host_keys", "train.py"),
    (*TWO, "--launcher_args", "-v -o X=y", "train.py"),
    (*TWO, "--max_restarts", "3", "train.py"),
    (*TWO, "--elastic_training", "train.py"),
    (*TWO, "--elastic_training", "--min_elastic_nodes", "2", "train.py"),
    (*TWO, "--elastic_training", "--max_elastic_nodes", "1", "train.py"),
    (*TWO, "--nnodes", "1:2", "--max_restarts", "2", "train.py"),
    (*TWO, "--elastic_training", "--warm_workers", "train.py"),
    (*TWO, "--preload", "torch,torch._dynamo", "train.py"),
    (*TWO, "--preload", "torch", "--no_python", "train.py"),
    (*TWO, "--elastic_training", "--change_notice", "SIGUSR1", "train.py"),
    (*TWO, "--elastic_config", "ds.json", "train.py"),
    ("--watch_hostfile", *TWO, "train.py"),
    ("--watch_hostfile", "--elastic_training", *TWO, "train.py"),
    ("--no_ssh", "--host", "w0:2,w1:2", "--node_rank", "0", "train.py"),
    ("--no_ssh", "--nnodes", "2", "--node_rank", "1", "--master_addr", "w0", "train.py"),
    ("--nnodes=2", "--node_rank=0", "--nproc_per_node=2", "--master_addr=w0", "train.py"),
    ("--rdzv_backend=c10d", "--rdzv_endpoint=w0:29400", "--nnodes=2", "--nproc_per_node=2",
     "train.py"),
    *[(*NUMBERS, *over(name), "train.py", "x y") for name in REMOTE],
    *[("-H", "plain_numbers", *over(name), "train.py") for name in REMOTE],
    *[(*NUMBERS, *over(name), "--include", "192.0.2.2:1", "train.py") for name in REMOTE],
    *[(*NUMBERS, *over(name), "--launcher_args", "-x Y", "train.py") for name in REMOTE[1:]],
    *[(*NUMBERS, *over(name), "--elastic_training", "train.py") for name in REMOTE],
    *[(*NUMBERS, *over(name), "--rank_per_task", "train.py") for name in ENGINES],
    *[(*NUMBERS, *over(name), "--bind_cores_to_rank", "train.py") for name in ENGINES],
]  # fmt: skip
IN_SLURM: list[tuple[str, ...]] = [
    ("train.py",),
    ("--launcher", "slurm", "train.py"),
    ("--launcher", "slurm", "--launcher_args", "--partition=x", "train.py"),
    ("--launcher", "slurm", "--rank_per_task", "train.py"),
    ("--num_nodes", "1", "train.py"),
    ("--launcher", "ssh", "train.py"),
    ("--launcher", "openmpi", "train.py"),
    ("--exclude", "w1", "train.py"),
]
BASE = (*TWO, "train.py")
CASES: list[tuple[tuple[str, ...], dict[str, str]]] = [
    *((line, {}) for line in sorted(LINES, key=lambda line: line != BASE)),
    *((line, SLURM) for line in IN_SLURM),
]
"""All of them, that with which the others are compared first."""


def name_of(line: tuple[str, ...], environ: dict[str, str]) -> str:
    return " ".join([*(["in Slurm:"] if environ else []), *line])


RECORD = Record("dry_runs", name_of(BASE, {}))
PLAN = schemas.schema("dry_run")


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """The command sets the dispositions of signals that it needs; put ours back."""
    numbers = (signal.SIGINT, signal.SIGCHLD)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder, with the tools in `bin`."""
    folder = tmp_path_factory.mktemp("dry").resolve()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "run.sh").chmod(0o755)
    (folder / "bin" / "intel").mkdir(parents=True)
    for name, text in TOOLS.items():
        tool = folder / "bin" / name
        tool.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        tool.chmod(0o755)
    return folder


@pytest.mark.parametrize(("line", "environ"), CASES, ids=[name_of(*case) for case in CASES])
def test_a_dry_run_says_what_it_said(
    line: tuple[str, ...],
    environ: dict[str, str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for variable in list(os.environ):
        monkeypatch.delenv(variable)
    own = {"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": str(folder), "HF_TOKEN": "hush"}
    for variable, value in {**own, "NCCL_DEBUG": "INFO", **environ}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(folder)
    said = {}
    for kind, more in {"text": (), "json": ("--json",)}.items():
        code = runner.main(["--dry_run", *more, *line])
        output = capfd.readouterr()
        machine = Machine(folder)
        printed: Any = machine.plain(output.out).splitlines()
        if kind == "json" and code == 0:
            assert schemas.faults("dry_run", json.loads(output.out)) == []
            plan = machine.without(json.loads(output.out))
            printed = beyond_defaults(plan, PLAN["$defs"]["plan"], PLAN)
        errors = machine.plain(output.err).splitlines()
        said[kind] = {"code": code, "output": printed, "errors": errors}
    RECORD.check(name_of(line, environ), said)


def test_there_is_no_other_recorded_line() -> None:
    assert set(RECORD.values()) == {name_of(*case) for case in CASES}


class Machine:
    """Takes out of an output what differs from machine to machine, and from user to user."""

    def __init__(self, folder: Path) -> None:
        checkout = CHECKOUT
        self._words = {
            BOOT: "BOOT",
            boot(): "BOOT",
            without_code(boot()): "BOOT",
            digest(package_root()): "DIGEST",
            str(folder): "FOLDER",
            sys.executable: "PYTHON",
            str(checkout): "CHECKOUT",
            "--allow-run-as-root ": "",
        }
        self._here = re.compile(rf"\b{re.escape(os.uname().nodename)}\b")
        self._version = re.compile(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])")

    def plain(self, text: str) -> str:
        for word, name in self._words.items():
            text = text.replace(word, name)
        text = re.sub(r"(-iface|-localhost) \S+", r"\1 HERE", text)
        return self._here.sub("THIS-MACHINE", self._version.sub("VERSION", text))

    def without(self, value: Any) -> Any:
        """Return a plan without them; world info is decoded, and commands are one line each."""
        if isinstance(value, dict):
            info, argv = value.get("world_info"), value.get("argv")
            own = {"world_info": dict(world_info.decode(info))} if info else {}
            line = {"argv": shlex.join(self.without(argv))} if argv else {}
            return {name: self.without(one) for name, one in value.items()} | own | line
        if isinstance(value, list):
            before = [None, *value]
            return [
                "HERE" if before[at] in ["-iface", "-localhost"] else self.without(one)
                for at, one in enumerate(value)
                if one != "--allow-run-as-root"
            ]
        return self.plain(value) if isinstance(value, str) else value
