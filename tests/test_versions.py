"""What dsrun does with jobs, holds and folders of another version: one clear line, nothing wrong.

The other version is a copy of this checkout with another number, in which a field of a job's
status and the form of a detached job's folder are others. The folder in `recorded/form_1` was
written by the first dsrun that had detached jobs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.features.detached import runner_job_folder as job_folder
from dsrun.launcher.features.detached.runner_process_identity import ProcessIdentity

from .support.checkout import BIN, CHECKOUT
from .support.limits import HANG, wait_for
from .support.local_control import new_name
from .support.needs import need

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OLDER = "0.0.7"
OTHERS = {
    f'__version__ = "{__version__}"': f'__version__ = "{OLDER}"',
    "last_rank": "newest_rank",
    f"\nVERSION = {job_folder.VERSION}\n": "\nVERSION = 1\n",
}
"""What is replaced in the copy."""

VERSIONS = f"it runs dsrun {OLDER}, but this is dsrun {__version__}"
RECORDED = "20261129-151417-91398e"
WAITS = "#!/bin/sh\necho up\nexec sleep 9999\n"


class Site:
    """A folder in which commands of both versions run."""

    def __init__(self, folder: Path) -> None:
        self.older = folder / "older"
        self.place = folder / "place"
        self.place.mkdir()
        script = self.place / "waits"
        script.write_text(WAITS)
        script.chmod(0o755)
        for name in ("launcher", "accelerator", "bin"):
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(CHECKOUT / name, self.older / name, ignore=skip)
        for path in (self.older / "launcher").rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for ours, theirs in OTHERS.items():
                text = text.replace(ours, theirs)
            path.write_text(text, encoding="utf-8")
        states = {"HOME": folder / "home", "XDG_STATE_HOME": folder / "state"}
        plain = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = {name: str(path) for name, path in states.items()}
        self.environ = {**plain, **own, "DSRUN_ACCELERATOR": "cpu"}
        self.jobs = folder / "state" / "dsrun" / "jobs"

    def run(
        self, *words: str, older: bool = False, alone: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of this version, or of the older one.

        Args:
            words: the command, and its arguments.
            older: run the older version.
            alone: run it where it sees no running job, of this user's or of another test's.
        """
        apart = ["unshare", "--net"] if alone else []
        ran = subprocess.run(
            [*apart, *self.command(words, older=older)],
            cwd=self.place,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG,
            stdin=subprocess.DEVNULL,
        )
        assert "Traceback" not in ran.stderr, ran.stderr
        assert "bug in dsrun" not in ran.stderr
        return ran

    def command(self, words: Sequence[str], *, older: bool) -> list[str]:
        """Return the command line of one of the two versions."""
        name, *rest = words
        return [sys.executable, str((self.older / "bin" if older else BIN) / name), *rest]

    def told(self, *words: str) -> Any:
        """Return what a command tells as JSON."""
        return json.loads(self.run(*words, "--json").stdout)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The two versions."""
    return Site(tmp_path_factory.mktemp("versions"))


# -- a job that runs ----------------------------------------------------------------------------


@contextmanager
def older_job(site: Site) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A job of the older version in the foreground; yield its dsrun, and its id."""
    command = site.command(["dsrun", "--num_gpus=2", "--no_python", "./waits"], older=True)
    with subprocess.Popen(
        command, cwd=site.place, env=site.environ, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert {process.stdout.readline() for _ in range(2)} == {
                "localhost:0| up\n",
                "localhost:1| up\n",
            }
            known = json.loads(site.run("dsrun-job", "--json", older=True).stdout)
            (job,) = [one["job_id"] for one in known["jobs"] if one["pid"] == process.pid]
            yield process, job
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=HANG)


def test_an_older_job_is_told_and_asked_as_far_as_it_is_understood(site: Site) -> None:
    with older_job(site) as (process, job):
        listed = site.run("dsrun-job").stdout
        (row,) = [line for line in listed.splitlines() if line.startswith(job)]
        assert row.split("  ")[1:] == [f"of dsrun {OLDER}"]
        assert {"name": job, "version": OLDER} in site.told("dsrun-job")["unread"]
        line = f"dsrun: dsrun-job: job {job}: its answer cannot be read; {VERSIONS}\n"
        for more in ([], ["--json"]):
            top = site.run("dsrun-job", "top", job, *more)
            assert (top.returncode, top.stdout, top.stderr) == (2, "", line)
        assert (
            f"job {job}: its answer cannot be read; {VERSIONS}"
            in site.run("dsrun-job", "top").stderr
        )
        role = site.run("dsrun-job", "restart", job, "--role", "x")
        assert role.returncode == 2
        assert role.stderr.startswith(f"dsrun: dsrun-job: job {job}: ")
        assert role.stderr.endswith(f"; {VERSIONS}\n")
        # What has the same form in both is done.
        logs = site.run("dsrun-job", "logs", job)
        assert logs.stdout.splitlines() == ["localhost:0| up", "localhost:1| up"]
        assert site.run("dsrun-job", "signal", job, "CONT").returncode == 0
        assert site.run("dsrun-job", "kill", job, "--now").returncode == 0
        assert process.wait(HANG) != 0


# -- the folder of a detached job ---------------------------------------------------------------


def test_an_older_detached_job_is_told_and_can_be_stopped(site: Site) -> None:
    started = site.run("dsrun", "--detach", "--no_python", "./waits", older=True)
    job = started.stdout.strip()
    assert started.returncode == 0, started.stderr
    try:
        assert f"format 1, by dsrun {OLDER}" in site.run("dsrun-job", "list", "--ended").stdout
        forgotten = site.run("dsrun-job", "forget", job)
        assert (forgotten.returncode, forgotten.stderr) == (
            2,
            f"dsrun: dsrun-job forget: {job} is running\n",
        )
        site.run("dsrun-job", "forget", "--all")
        assert (site.jobs / job / "job.json").exists()
    finally:
        killed = site.run("dsrun-job", "kill", job, "--now")
    assert killed.returncode == 0, killed.stderr
    wait_for((site.jobs / job / "end.json").exists, "the end")
    for verb in ("report", "logs", "wait", "top"):
        ran = site.run("dsrun-job", verb, job)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == (
            f"dsrun: dsrun-job: job {job}: job.json is written in format 1, by dsrun {OLDER};"
            f" dsrun {__version__} reads format {job_folder.VERSION}; ask the dsrun that started"
            f" it, or `dsrun-job forget {job}` removes it\n"
        )
    assert site.run("dsrun-job", "report", job, older=True).returncode == 0
    assert site.run("dsrun-job", "forget", job).returncode == 0
    assert not (site.jobs / job).exists()


def test_a_folder_that_the_first_version_has_written(site: Site) -> None:
    need("unshare")
    site.jobs.mkdir(parents=True, exist_ok=True, mode=0o700)
    there = site.jobs / RECORDED
    shutil.copytree(CHECKOUT / "tests" / "recorded" / "form_1" / RECORDED, there)
    ran = site.run("dsrun-job", "report", RECORDED)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(
        f"dsrun: dsrun-job: job {RECORDED}: job.json is written in format 1, by dsrun 0.1.0; dsrun"
    )
    (row,) = site.told("dsrun-job", "list", "--ended")["damaged"]
    assert row["job_id"] == RECORDED
    assert row["reason"].startswith("job.json is written in format 1")
    for job in site.jobs.iterdir():  # of the tests before: "last" is the newest
        if job.name != RECORDED:
            shutil.rmtree(job)
    assert site.run("dsrun-job", "report", "last", alone=True).stderr == ran.stderr
    assert site.run("dsrun-job", "forget", RECORDED).returncode == 0


FORM = {
    2: {
        "about": (
            *("job_id", "version", "since", "program", "workdir", "launcher", "nodes"),
            *("world_size", "hold", "roles", "process"),
        ),
        "end": ("at", "code", "text", "report", "last", "unkept"),
        "process": ("machine", "boot", "namespace", "pid", "start"),
    }
}
"""The fields of the files by their form: other fields are another form."""


def test_other_fields_have_another_number() -> None:
    assert FORM[job_folder.VERSION] == {
        "about": job_folder.About._fields,
        "end": job_folder.KeptEnd._fields,
        "process": ProcessIdentity._fields,
    }


# -- a hold -------------------------------------------------------------------------------------


def test_an_older_hold_is_refused_and_can_be_released(site: Site) -> None:
    name = new_name()
    started = site.run("dsrun-hold", "--host=localhost", "--name", name, "--detach", older=True)
    assert started.returncode == 0, started.stderr
    refused = (
        f"dsrun: --on {name}: the hold runs dsrun {OLDER}, but this is dsrun {__version__};"
        f" start it again: dsrun-hold --release {name}\n"
    )
    try:
        for words in (
            ("dsrun", "--on", name, "--no_python", "./waits"),
            ("dsrun", "--on", name, "--detach", "--no_python", "./waits"),
            ("dsrun-exec", "--on", name, "--", "true"),
            ("dsrun-check", "--on", name),
        ):
            ran = site.run(*words)
            assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", refused)
        assert name in site.run("dsrun-job").stdout
    finally:
        released = site.run("dsrun-hold", "--release", name)
    assert released.returncode == 0, released.stderr
    wait_for(lambda: name not in site.run("dsrun-job").stdout, "the end of the hold")
