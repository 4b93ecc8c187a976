"""Detached jobs on this machine: real ones, and the commands about them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from .checkout import BIN
from .limits import HANG, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKER = """#!/bin/sh
echo "rank $RANK is up"
until test -e end; do sleep 0.02; done
echo "rank $RANK leaves" >&2
test $RANK = 0 || { touch left; sleep 1000; }
until test -e left -o $WORLD_SIZE = 1; do sleep 0.02; done
exit 3
"""
"""Once the test wants that, rank 0 fails, after the other one has printed; that is stopped then."""

ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}\n")


PLAN = ("--host", "localhost:2", "--grace", "1")
"""How these jobs are run."""


class Site:
    """A folder with a script, and the commands as a user of this folder types them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = folder / "state/dsrun/jobs"
        self.environ = {
            name: value for name, value in os.environ.items() if not name.startswith("DSRUN_")
        }
        self.environ |= {"XDG_STATE_HOME": str(folder / "state"), "DSRUN_ACCELERATOR": "cpu"}
        (folder / "worker").write_text(WORKER)
        (folder / "worker").chmod(0o755)

    def argv(self, command: str, *words: str) -> list[str]:
        return [sys.executable, str(BIN / command), *words]

    def run(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command whose output ends when its readers see the end of it."""
        return subprocess.run(
            self.argv(command, *words),
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG,
        )

    def job(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("dsrun-job", *words)

    def start(self, command: str, *words: str, **more: Any) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        argv = self.argv(command, *words)
        return subprocess.Popen(argv, cwd=self.folder, env=self.environ, text=True, **pipes)

    def detach(self, *options: str) -> str:
        """Start a job and return its id."""
        done = self.run("dsrun", "--detach", *PLAN, *options, "--no_python", "./worker")
        assert (done.returncode, done.stderr) == (0, "")
        assert ID.fullmatch(done.stdout)
        return done.stdout.strip()

    def runner(self, job: str) -> int:
        """The pid of what runs a job."""
        listed = json.loads(self.job("--json").stdout)["jobs"]
        return next(int(one["pid"]) for one in listed if one["job_id"] == job)

    def end(self) -> None:
        """Let the jobs end."""
        (self.folder / "end").touch()

    def names(self) -> list[str]:
        """The jobs of which something is kept."""
        return sorted(one.name for one in self.jobs.glob("*"))

    def output(self, job: str) -> str:
        """The output of a job once both ranks have printed something."""
        wait_for(lambda: self.job("logs", job).stdout.count("is up") == 2, "output")
        return self.job("logs", job).stdout


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """At its end no job of the test runs."""
    made = Site(tmp_path)
    yield made
    for job in made.names():
        made.job("kill", job, "--now")
