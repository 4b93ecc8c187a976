"""`--launcher slurm` outside of a job: what salloc is asked for, and what runs inside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.schedulers import command_salloc as salloc

from ...support import schemas
from ...support.limits import HANG, wait_for


@pytest.fixture
def tool(tmp_path: Path) -> str:
    """A folder with something called salloc in it."""
    (tmp_path / "salloc").touch(mode=0o755)
    return str(tmp_path)


def command(words: list[str], environ: dict[str, str] | None = None) -> list[str]:
    return salloc.argv(words, parse(words, {}), environ or {})


def asked(tool: str, *words: str, **environ: str) -> list[str]:
    """Return what is asked of salloc."""
    argv = command([*words, "--launcher_path", tool, "x.py"], environ)
    assert argv[0] == f"{tool}/salloc"
    return argv[1 : argv.index(sys.executable)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), []),
        (("--num_nodes", "2", "--num_gpus", "8"), ["--nodes=2", "--gpus-per-node=8"]),
        (("--nnodes", "1:4", "--nproc_per_node", "gpu"), ["--nodes=1-4"]),
        (("--nnodes", "3", "--nproc_per_node=2"), ["--nodes=3", "--gpus-per-node=2"]),
        (("--num_gpus", "2", "--accelerator", "cpu"), []),
        (("--host", "n[1-3]:4", "--exclude", "n2"), ["--nodes=2", "--nodelist=n1,n3"]),
        (
            ("--num_nodes=2", "--launcher_args", "-p gpu --comment 'a b'"),
            ["--nodes=2", "-p", "gpu", "--comment", "a b"],
        ),
    ],
)
def test_what_is_asked_for(tool: str, words: tuple[str, ...], expected: list[str]) -> None:
    assert asked(tool, *words) == expected


def test_no_gpus_are_asked_for_where_devices_are_cpus(tool: str) -> None:
    assert asked(tool, "--num_gpus", "2", DS_ACCELERATOR="cpu") == []


@pytest.mark.parametrize(
    ("words", "again"),
    [
        (["x.py", "--launcher_args", "y"], ["x.py", "--launcher_args", "y"]),
        (["--launcher_args=-p a", "x.py"], ["--launcher_args=-p a", "--launcher_args=", "x.py"]),
        (
            ["--launcher_args", "-p", "-q", "--", "--", "-"],
            ["--launcher_args", "-p", "-q", "--launcher_args=", "--", "--", "-"],
        ),
        (
            ["--launcher_args", "-p", "x.py", "--", "--lr"],
            ["--launcher_args", "-p", "--launcher_args=", "x.py", "--", "--lr"],
        ),
        (
            ["--launcher_args", "-p", "--role", "--", "x.py"],
            ["--launcher_args", "-p", "--role", "--", "--launcher_args=", "x.py"],
        ),
    ],
)
def test_the_same_command_runs_inside_without_what_salloc_has_got(
    tool: str, words: list[str], again: list[str]
) -> None:
    argv = command(["--launcher_path", tool, *words])
    assert argv[-len(again) - 2 :] == ["--launcher_path", tool, *again]
    inside, outside = (parse(some, {}) for some in (again, words))
    assert inside.program == outside.program
    assert inside.options.launcher_args == ""


@pytest.mark.parametrize(
    ("words", "environ", "needed"),
    [
        (["--launcher", "slurm"], {}, True),
        (["--launcher", "SLURM", "--dry_run"], {}, True),
        (["--launcher", "slurm"], {"SLURM_JOB_ID": "1"}, False),
        (["--launcher", "slurm", "--standalone"], {}, False),
        (["--launcher", "slurm", "--no_ssh", "--node_rank=0"], {}, False),
        (["--launcher", "slurm", "--rdzv_backend", "c10d"], {}, False),
        ([], {}, False),
    ],
)
def test_where_an_allocation_is_needed(
    words: list[str], environ: dict[str, str], needed: bool
) -> None:
    assert salloc.is_needed(parse([*words, "x.py"], {}).options, environ) is needed


def test_what_can_be_known_is_told_before_the_wait(tool: str, tmp_path: Path) -> None:
    wrong = {
        "no script": [],
        '--launcher_args "\'": No closing quotation': ["--launcher_args", "'", "x.py"],
        "--env_file nope: no such file": ["--env_file", "nope", "x.py"],
        "--include: no host 'b'": ["--host", "a:2", "--include", "b", "x.py"],
    }
    for message, words in wrong.items():
        with pytest.raises(UsageError) as caught:
            command(["--launcher_path", tool, *words])
        assert message in str(caught.value)
    (tmp_path / "bin").mkdir()
    with pytest.raises(UsageError) as caught:
        command(["--launcher_path", str(tmp_path / "bin"), "x.py"])
    assert str(caught.value) == (
        "--launcher slurm: this is not a Slurm job (no SLURM_JOB_ID), and there is no salloc in"
        f" {tmp_path}/bin to request one; start dsrun from an sbatch script"
    )


def test_a_dry_run_shows_the_command() -> None:
    argv = ["/bin/salloc", "--nodes=2", "python", "dsrun", "x y"]
    shown = salloc.shown(argv, Options())
    assert shown.endswith("\n\n  /bin/salloc --nodes=2 python dsrun 'x y'\n")
    told = json.loads(salloc.shown(argv, Options(json=True)))
    assert schemas.faults("dry_run", told) == []
    assert schemas.faults("dry_run", {**told, "more": 1}) != []
    (run,) = told["commands"]
    assert run["argv"] == argv


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("echo 'Slurmctld(primary) at n0 is DOWN'; exit 1", "Slurmctld(primary) at n0 is DOWN"),
        ("echo 'Slurmctld(primary) at n0 is DOWN'", "Slurmctld(primary) at n0 is DOWN"),
        ("echo 'error: dns' >&2; echo 'fatal: no config' >&2; exit 1", "fatal: no config"),
    ],
)
def test_a_slurm_that_is_down_is_told_before_salloc_runs(tool: str, answer: str, said: str) -> None:
    scontrol = Path(tool) / "scontrol"
    scontrol.write_text(f'#!/bin/sh\n[ "$*" = ping ] || exit 9\n{answer}\n')
    scontrol.chmod(0o755)
    with pytest.raises(UsageError) as caught:
        salloc.run([f"{tool}/salloc", sys.executable], Options(quiet=True))
    assert f": Slurm does not answer, so there is no allocation now: {said}; " in str(caught.value)


INSIDE = """
import os, signal, sys, time
from dsrun.launcher.cli.options import Options
from dsrun.launcher.features.schedulers import command_salloc as salloc

def program():
    if sys.argv[1] == "handles":
        signal.signal(signal.SIGTERM, lambda number, _: open("told", "w").close())
    with open("up", "w") as up:  # what a signal raises in a file's finalizer would be lost
        up.write(f"{os.getpid()} {salloc.OWNER in os.environ}")
    while not os.path.exists("told" if sys.argv[1] == "handles" else "go"):
        time.sleep(0.01)
    return 3

sys.exit(salloc.inside(Options(launcher_path=os.getcwd()), program))
"""

OWNING = """
import os, subprocess, sys
from dsrun.launcher.features.schedulers.command_salloc import OWNER
os.environ[OWNER] = str(os.getpid())
sys.exit(subprocess.call([sys.executable, "inside.py", *sys.argv[1:]]))
"""
"""Runs a program as salloc does."""


def allocated(folder: Path, word: str) -> subprocess.Popen[str]:
    """Start a program in an allocation, and wait until it runs; scancel notes what it is told."""
    (folder / "inside.py").write_text(INSIDE)
    (folder / "owner.py").write_text(OWNING)
    (folder / "scancel").write_text('#!/bin/sh\necho "$@" > "$(dirname "$0")/given-back"\n')
    (folder / "scancel").chmod(0o755)
    owner = subprocess.Popen(
        [sys.executable, "owner.py", word],
        cwd=folder,
        env={**os.environ, "SLURM_JOB_ID": "7"},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: up(folder) != "", "the program inside")
    return owner


def up(folder: Path) -> str:
    return (folder / "up").read_text() if (folder / "up").exists() else ""


@pytest.mark.parametrize("word", ["handles", "starts"])
def test_who_runs_inside_gives_the_allocation_back_if_salloc_is_killed(
    tmp_path: Path, word: str
) -> None:
    """It is ended first, in its own way once it handles signals."""
    owner = allocated(tmp_path, word)
    assert up(tmp_path).endswith(" False"), "no worker is to think that it is inside"
    owner.kill()
    assert owner.stderr is not None
    said = owner.stderr.read()  # up to the end of the program inside
    owner.wait(HANG)
    owner.stderr.close()
    assert said == "dsrun: salloc was killed: giving back the allocation of Slurm job 7\n"
    assert (tmp_path / "given-back").read_text() == "7\n"
    assert (tmp_path / "told").exists() == (word == "handles")


def test_salloc_itself_gives_back_the_allocation_of_what_ends_before_it(tmp_path: Path) -> None:
    owner = allocated(tmp_path, "starts")
    (tmp_path / "go").touch()
    assert owner.wait(HANG) == 3
    assert owner.stderr is not None
    owner.stderr.close()
    assert not (tmp_path / "given-back").exists()


def test_who_was_started_by_somebody_else_has_nothing_to_give_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(salloc.OWNER, raising=False)
    before = signal.getsignal(signal.SIGTERM)
    assert salloc.inside(Options(), lambda: 5) == 5
    assert signal.getsignal(signal.SIGTERM) is before
