"""The table of backends, and that a new backend is one file and one line of the table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import backends
from dsrun.launcher.backends import BACKENDS
from dsrun.launcher.cli.help.pages import text as help_text
from dsrun.launcher.resources.mpi import HYDRA, MVAPICH2, OPEN_MPI
from dsrun.launcher.specs.backend import BackendSettings

from ..support.checkout import CHECKOUT, IMPORTABLE
from ..support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path

ADDED = """
import sys
from dsrun.launcher import backends, runner
from dsrun.launcher.backends.spec import Automatic, BackendSpec, TaskIdentity
words = "asked first, by {why_not}this test"
shell = BackendSpec("tests.backends.added:Shell", automatic=Automatic(0, words, "sh"))
engine = BackendSpec("tests.backends.added:Prun", TaskIdentity(("PRUN_TASK",)))
backends.BACKENDS |= {"shell": shell, "prun": engine}
sys.exit(runner.main(sys.argv[1:]))
"""
"""dsrun, with two more lines in the table."""

FAR = ("--host", "far:2")
"""A host that does not exist: only the shell finds it."""

WORKER = "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])"


def dsrun(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run dsrun with the test's own backend."""
    path = f"{IMPORTABLE['PYTHONPATH']}:{CHECKOUT}"
    return subprocess.run(
        [sys.executable, "-c", ADDED, *words], cwd=folder, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=HANG, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("name", BACKENDS)
def test_every_line_of_the_table_leads_to_a_backend(name: str) -> None:
    backend = backends.load(name, BackendSettings(sys.executable, "/"))
    assert backend.transport in {"stdio", "dial"}
    assert backend.transport == "dial" or not BACKENDS[name].by_engine


def test_engines_number_their_tasks_by_the_variables_of_their_launchers() -> None:
    known = {"openmpi": OPEN_MPI, "mpich": HYDRA, "impi": HYDRA, "mvapich": MVAPICH2}
    for name, launcher in known.items():
        engine = BACKENDS[name].engine
        assert engine is not None
        assert engine.numbers[0] == launcher.rank


def test_the_facts_of_a_backend_cost_no_import_of_it() -> None:
    found = "import sys, dsrun.launcher.backends; print([m for m in sys.modules if '.ssh' in m])"
    argv = [sys.executable, "-c", found]
    assert subprocess.check_output(argv, env={**os.environ, **IMPORTABLE}) == b"[]\n"


def test_no_two_backends_have_the_same_place_in_the_automatic_choice() -> None:
    places = [spec.automatic.place for spec in BACKENDS.values() if spec.automatic]
    assert len(set(places)) == len(places)


def test_help_names_what_can_be_chosen() -> None:
    assert ", ".join(["auto", *backends.choosable()][:-1]) in " ".join(help_text("all").split())
    assert backends.NO_LAUNCHER not in backends.choosable()


def test_an_added_backend_is_in_the_help(tmp_path: Path) -> None:
    assert "slurm, shell or prun" in " ".join(dsrun(tmp_path, "--help").stdout.split())


def test_an_added_backend_is_among_those_that_are_expected(tmp_path: Path) -> None:
    told = dsrun(tmp_path, *FAR, "--launcher", "shel", "x.py")
    assert (told.returncode, told.stderr.count("slurm, shell, prun (did you mean shell?)\n")) == (
        2,
        1,
    )


def test_a_dry_run_over_an_added_backend(tmp_path: Path) -> None:
    shown = dsrun(tmp_path, *FAR, "--launcher", "SHELL", "--dry_run", "--json", "x.py")
    told = json.loads(shown.stdout)
    assert told["launcher"] == "shell"
    (command,) = told["commands"]
    assert (command["hosts"], command["argv"][:2]) == (["far"], ["sh", "-c"])


def test_an_added_backend_has_its_place_in_the_automatic_choice(tmp_path: Path) -> None:
    told = dsrun(tmp_path, *FAR, "--dry_run", "x.py")
    assert "launcher  shell (asked first, by this test)\n" in told.stdout


@pytest.mark.parametrize("launcher", ["auto", "shell"])
def test_a_job_over_an_added_backend(launcher: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(WORKER)
    ended = dsrun(tmp_path, *FAR, "--launcher", launcher, "--no_local_rank", "x.py")
    assert (ended.returncode, sorted(ended.stdout.splitlines())) == (
        0,
        ["far:0| rank 0 of 2", "far:1| rank 1 of 2"],
    )
    assert "1 node from --host over shell" in ended.stderr


def test_an_added_engine_starts_tasks_for_nodes_or_for_ranks(tmp_path: Path) -> None:
    (tmp_path / "prun").touch(0o755)
    given = ("--launcher", "prun", "--launcher_path", str(tmp_path / "prun"), "--dry_run")
    nodes = dsrun(tmp_path, *FAR, *given, "x.py").stdout
    assert f"{tmp_path}/prun --on 'far*1' {sys.executable} -E -S -c" in nodes
    assert "--engine=prun\n" in nodes
    ranks = dsrun(tmp_path, *FAR, *given, "--rank_per_task", "x.py").stdout
    assert f"{tmp_path}/prun --on 'far*2' " in ranks
    assert "--rank=prun\n" in ranks


def test_an_added_backend_starts_no_ranks_and_reaches_no_later_hosts(tmp_path: Path) -> None:
    ranks = dsrun(tmp_path, *FAR, "--launcher", "shell", "--rank_per_task", "x.py")
    assert (
        "--rank_per_task: --launcher shell cannot start ranks; use one of: openmpi," in ranks.stderr
    )
    (tmp_path / "hosts").write_text("far slots=2\n")
    grown = ("--hostfile", "hosts", "--elastic_training", "--watch_hostfile")
    later = dsrun(tmp_path, *grown, "--launcher", "shell", "x.py")
    assert "--launcher shell: cannot add hosts to a running job; use ssh or openssh" in later.stderr
    assert (ranks.returncode, later.returncode) == (2, 2)
