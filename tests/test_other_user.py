"""The whole command for a uid without an entry in the user database, as with `docker -u 54321`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .support.checkout import BIN
from .support.local_control import needs_root
from .support.needs import need
from .support.other_user import UID, WORDS, argv, open_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of this user's, with a script."""
    need("setpriv", "unshare")
    with open_folder() as path:
        os.chown(path, UID, UID)
        (path / "train.py").write_text("print('trained')")
        yield path


def run(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command of dsrun as this user; with no variables but PATH and those given."""
    tool, *rest = words
    return subprocess.run(
        argv(sys.executable, str(BIN / tool), *rest),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "DSRUN_ACCELERATOR": "cpu", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@needs_root
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dsrun --host n1,n2 train.py", "USER@n1, or set LOGNAME"),
        ("dsrun --host me@n1,me@n2 --launcher openssh train.py", "use --launcher ssh"),
        ("dsrun --host me@n1,me@n2 --launcher pdsh train.py", "use --launcher ssh"),
        ("dsrun-exec --host n1,n2 hostname", "USER@n1, or set LOGNAME"),
        ("dsrun-check --host n1,n2", "USER@n1, or set LOGNAME"),
        ("dsrun-hold --host n1,n2", "USER@n1, or set LOGNAME"),
    ],
)
def test_hosts_without_a_name_for_the_login(folder: Path, words: str, said: str) -> None:
    if "pdsh" in words:
        need("pdsh")
    ran = run(folder, *words.split(), HOME=str(folder))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@needs_root
def test_a_job_on_hosts_logs_in_by_the_name_that_is_given(folder: Path) -> None:
    """Nothing listens on the port of the only host, which is this machine."""
    words = ("--host=me@127.0.0.1", "--force_multi", "--launcher=ssh", "--ssh_port=1", "train.py")
    ran = run(folder, "dsrun", *words, HOME=str(folder))
    assert ran.returncode == 69, ran.stderr
    assert "connection refused: no sshd on that port (127.0.0.1:1)" in ran.stderr


@needs_root
@pytest.mark.parametrize("home", [None, "", "relative", "{folder}"])
def test_a_job_on_this_machine_makes_no_folder_of_a_tilde(folder: Path, home: str | None) -> None:
    environ = {} if home is None else {"HOME": home.format(folder=folder)}
    ran = run(folder, "dsrun", "train.py", **environ)
    assert (ran.returncode, ran.stdout) == (0, "localhost:0| trained\n"), ran.stderr
    ran = run(folder, "dsrun", "--log_dir", "~/logs", "train.py", **environ)
    assert not (folder / "~").exists()
    if home == "{folder}":
        assert ran.returncode == 0, ran.stderr
        assert (folder / "logs").is_dir()
    else:
        assert ran.returncode == 2
        assert f"--log_dir ~/logs: {WORDS} has no home folder" in ran.stderr


@needs_root
def test_detached_jobs_and_what_is_beside_a_job(folder: Path) -> None:
    for tool in ("dsrun-job", "dsrun-topo"):
        assert run(folder, tool).returncode == 0
    refused = run(folder, "dsrun", "--detach", "train.py")
    assert refused.returncode == 74
    assert f"{WORDS} has no home folder" in refused.stderr
    for act in ("wait", "logs", "report", "stacks", "forget", "kill"):
        unknown = run(folder, "dsrun-job", act, "x")
        assert (unknown.returncode, len(unknown.stderr.splitlines())) == (2, 1), unknown.stderr
    kept = {"XDG_STATE_HOME": str(folder / "state")}
    started = run(folder, "dsrun", "--detach", "train.py", **kept)
    assert started.returncode == 0, started.stderr
    waited = run(folder, "dsrun-job", "wait", started.stdout.strip(), **kept)
    assert waited.returncode == 0, waited.stderr
    assert "trained" in run(folder, "dsrun-job", "logs", started.stdout.strip(), **kept).stdout
    assert {one.name for one in folder.iterdir()} == {"train.py", "state"}


@needs_root
def test_a_command_on_this_machine_runs_where_a_login_without_a_home_would(folder: Path) -> None:
    ran = run(folder, "dsrun-exec", "--host=localhost", "pwd")
    assert (ran.returncode, ran.stdout) == (0, "localhost: /\n"), ran.stderr
