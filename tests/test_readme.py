"""The commands of README, as it has them: run here, planned, or run on virtual hosts."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from .support.checkout import BIN, CHECKOUT
from .support.limits import HANG
from .support.needs import need_modules

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
TRAINING = re.search(r"```python\n(.*?)```", README, re.DOTALL)
SHOWN = re.compile(r"^    \$ (dsrun.*)\n((?:    .*\n)*)", re.MULTILINE)

RUN = {
    "dsrun train.py",
    "dsrun train.py --my-args",
    "dsrun --hostfile hosts train.py",
    "dsrun --dry_run train.py",
    "dsrun -h",
}
"""Commands that are run as they are; the host of the file `hosts` is this machine."""

PLANNED = {
    "dsrun --launcher slurm --num_nodes 2 --num_gpus 8 --launcher_args '-t 60' train.py",
    "dsrun --launcher openmpi --hostfile hosts train.py",
    "dsrun --hostfile hosts --elastic_training --min_elastic_nodes 2 train.py",
    "dsrun --hostfile hosts --roles rl.toml",
    "dsrun --hostfile hosts --container podman:IMAGE train.py",
}
"""Commands that get as far as a plan; the hosts are those of README."""

HELD = ("dsrun-hold --hostfile hosts --preload torch --detach", "dsrun --on=last train.py")
TRAINED = {
    "dsrun --num_gpus 2 train.py": "localhost",
    "dsrun --host n1:2,n2:2 train.py": "n[12]",
}
"""Commands that train, and the hosts of their lines; the second one is run by tests/cluster."""

ELSEWHERE = {
    "dsrun-job stacks",
    "dsrun-check --hostfile hosts --full",
    "dsrun-check --full",
    "dsrun-check --hostfile hosts --promises",
}
"""Commands whose own tests run them as they are: they ask a job, or measure for a minute."""


def commands() -> set[str]:
    """Return all commands of dsrun in README, whole ones."""
    lines = README.replace("\\\n", " ").splitlines()
    spans = {span for line in lines for span in re.findall(r"`(dsrun(?:-\w+)? [^`]+)`", line)}
    return spans | {one[1] for one in SHOWN.finditer(README)}


def shown(command: str) -> list[str]:
    """Return the lines that README shows for a command, without the messages of dsrun."""
    (lines,) = [one[2].splitlines() for one in SHOWN.finditer(README) if one[1] == command]
    return [line.strip() for line in lines if not line.strip().startswith(("dsrun: ", "..."))]


def write_training(folder: Path) -> None:
    """Write the training of README to a folder."""
    assert TRAINING is not None
    (folder / "train.py").write_text(TRAINING[1])


def as_lines(hosts: str, lines: list[str]) -> list[str]:
    """Return which of these lines are not of the form that README shows."""
    form = re.compile(rf"{hosts}:[0-3]\| step [0-2]: loss \d+\.\d{{3}}")
    return [line for line in lines if not form.fullmatch(line)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the commands name; its script has no torch, and ends at once."""
    (tmp_path / "train.py").write_text("print('trained')\n")
    (tmp_path / "hosts").write_text("localhost slots=2\n")
    found = re.search(r"^    \[\[role\]\]\n(?:(?:    .*)?\n)+", README, re.MULTILINE)
    assert found is not None
    (tmp_path / "rl.toml").write_text(re.sub("^    ", "", found[0], flags=re.MULTILINE))
    return tmp_path


def run(folder: Path, command: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a command, with further options behind its name."""
    name, *words = shlex.split(command)
    argv = [sys.executable, str(BIN / name), *more, *words]
    states = {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "DSRUN_ACCELERATOR": "cpu"}
    return subprocess.run(
        argv,
        cwd=folder,
        env={"PATH": os.environ["PATH"], **states},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )


def test_every_command_is_tried() -> None:
    assert commands() == {*RUN, *PLANNED, *HELD, *TRAINED, *ELSEWHERE}


@pytest.mark.parametrize("command", sorted(RUN))
def test_commands_of_this_machine(folder: Path, command: str) -> None:
    ran = run(folder, command)
    assert ran.returncode == 0, ran.stderr
    if command.endswith("train.py") and "--dry_run" not in command:
        assert "| trained\n" in ran.stdout


@pytest.mark.parametrize("command", sorted(PLANNED))
def test_commands_for_a_cluster_are_planned(folder: Path, command: str) -> None:
    match = re.search(r"`hosts` has lines such as `([^`]+)`", README)
    assert match is not None
    (folder / "hosts").write_text(f"{match[1]}\n")
    for name in ("mpirun", "salloc"):
        (folder / name).write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
        (folder / name).chmod(0o755)
    ran = run(folder, command, "--dry_run")
    if "openmpi" in command and "cryptography" in ran.stderr:
        need_modules("cryptography")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.tier("ci")
def test_a_job_on_held_nodes(folder: Path) -> None:
    """`last` is the newest hold of this user, which may be another test's: this one has a name."""
    need_modules("torch")
    held, then = HELD
    name = f"readme-{os.getpid()}"
    started = run(folder, held, "--name", name)
    try:
        assert started.returncode == 0, started.stderr
        ran = run(folder, then.replace("--on=last", f"--on={name}"))
        assert (ran.returncode, ran.stdout.count("| trained\n")) == (0, 2), ran.stderr
    finally:
        assert run(folder, f"dsrun-hold --release {name}").returncode == 0


@pytest.mark.tier("ci")
def test_the_training_on_this_machine(tmp_path: Path) -> None:
    need_modules("torch")
    write_training(tmp_path)
    command, hosts = next(iter(TRAINED.items()))
    ran = run(tmp_path, command)
    assert ran.returncode == 0, ran.stderr
    lines = [line for line in ran.stdout.splitlines() if "| step " in line]
    assert len(lines) == 6
    assert as_lines(hosts, [*lines, *shown(command)]) == []


@pytest.mark.parametrize(("command", "hosts"), TRAINED.items())
def test_the_lines_that_are_shown(command: str, hosts: str) -> None:
    assert shown(command)
    assert as_lines(hosts, shown(command)) == []
