"""`dsrun --detach` on this machine: real jobs, without the terminal that started them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .support import schemas
from .support.detached import PLAN, WORKER, Site, site
from .support.limits import HANG, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["site"]


def test_a_job_runs_on_ends_and_is_forgotten(site: Site) -> None:
    job = site.detach()
    assert "rank 1 is up" in site.output(job)
    assert os.getsid(site.runner(job)) == site.runner(job)
    told = site.job("report", job)
    assert told.stdout.startswith(f"dsrun: job {job} is running: 2 of 2 ranks on 1 host, ")
    assert site.job("list", "--ended").stdout == ""
    assert site.job("forget", job).stderr == f"dsrun: dsrun-job forget: {job} is running\n"
    with (
        site.start("dsrun-job", "wait", job) as waits,
        site.start("dsrun-job", "logs", "-f", job) as logs,
    ):
        site.end()
        out, words = waits.communicate(timeout=HANG)
        followed, _ = logs.communicate(timeout=HANG)
    assert (waits.returncode, out) == (3, "")
    assert re.fullmatch(
        r"dsrun: rank 0 \(localhost, local rank 0, pid \d+\) exited with code 3 after \d.*;"
        r" 1 other rank stopped\n  the end of its standard error:\n    rank 0 leaves\n",
        words,
    )
    assert sorted(set(followed.splitlines())) == [
        "localhost:0| rank 0 is up",
        "localhost:0| rank 0 leaves",
        "localhost:1| rank 1 is up",
        "localhost:1| rank 1 leaves",
    ]
    assert site.job("wait", job).stderr == site.job("report", job).stdout == words
    assert site.job("logs", "--rank", "1", job[-6:]).stdout.count("\n") == 2
    assert re.search(rf"{job} +exit code 3 +1 +2 ", site.job("list", "--ended").stdout)
    assert site.job("forget", "--all").stdout == "dsrun-job: 1 job forgotten\n"
    assert site.names() == []


def test_a_job_that_was_stopped_is_over_at_once(site: Site) -> None:
    job = site.detach()
    assert site.job("kill", job, "--now").stdout == f"dsrun-job: job {job}: has ended\n"
    assert site.job("forget", job).stdout == f"dsrun-job: job {job}: forgotten\n"


def test_json_has_its_form(site: Site) -> None:
    job = site.detach()
    running = json.loads(site.job("report", job, "--json").stdout)
    assert (running["state"], running["report"]["exit_code"]) == ("running", None)
    site.end()
    waited = json.loads(site.job("wait", job, "--json").stdout)
    ended = json.loads(site.job("report", job, "--json").stdout)
    assert waited == ended
    assert (ended["state"], ended["report"]["exit_code"]) == ("ended", 3)
    assert "exited with code 3" in ended["text"]
    listed = json.loads(site.job("list", "--ended", "--json").stdout)
    assert [one["exit_code"] for one in listed["ended"]] == [3]
    for form, told in (("report", running), ("report", ended), ("ended", listed)):
        assert schemas.faults("jobs", told, form) == []
    assert schemas.faults("report", ended["report"]) == []
    for line in site.job("logs", job, "--json").stdout.splitlines():
        assert schemas.faults("jobs", json.loads(line), "line") == []


@pytest.mark.tier("test")
def test_the_death_of_the_terminal_changes_nothing(site: Site) -> None:
    """Its whole process group is killed, it hangs up, and the runner itself gets SIGHUP."""
    ours, theirs = os.openpty()
    line = " ".join(site.argv("dsrun", "--detach", *PLAN, "--no_python", "./worker"))
    shell = ["setsid", "--ctty", "sh", "-c", f"{line} > id; kill -KILL 0"]
    with subprocess.Popen(shell, cwd=site.folder, env=site.environ, stdin=theirs, stderr=theirs):
        os.close(theirs)
    os.close(ours)
    job = (site.folder / "id").read_text().strip()
    runner = site.runner(job)
    os.kill(runner, signal.SIGHUP)
    site.output(job)
    assert site.runner(job) == runner
    assert {one for one in descriptors(runner) if "pts" in one} == set()
    site.end()
    assert site.job("wait", job).returncode == 3


def descriptors(pid: int) -> list[str]:
    """What a process has open."""
    found = []
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            found.append(str(one.readlink()))
    return found


def test_what_is_known_of_a_job_whose_runner_was_killed(site: Site) -> None:
    job = site.detach()
    before = site.output(job)
    with site.start("dsrun-job", "wait", job) as waits:
        os.kill(site.runner(job), signal.SIGKILL)
        _, words = waits.communicate(timeout=HANG)
    assert waits.returncode == 75
    assert re.search(rf"job {job}: its dsrun \(pid \d+ on \S+\) was killed", words)
    assert site.job("logs", job).stdout == before
    assert re.search(rf"{job} +killed ", site.job("list", "--ended").stdout)
    assert "was killed" in site.job("report", job).stdout
    picture = site.folder / "r.html"
    assert site.job("report", job, "--html", str(picture)).returncode == 0
    assert "rank 1 is up" in picture.read_text()
    site.end()


def test_a_job_outlives_a_full_disk(site: Site) -> None:
    """A limit on the size of its files stands for it; the end is smaller than that."""
    (site.folder / "worker").write_text(f"#!/bin/sh\nseq 9999\n{WORKER}")
    words = ["dsrun", "--detach", *PLAN, "--no_python", "./worker"]
    done = subprocess.run(
        ["prlimit", "--fsize=20000", "--", *site.argv(*words)],
        cwd=site.folder,
        env=site.environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG,
    )
    site.end()
    waited = site.job("wait", done.stdout.strip())
    assert waited.returncode == 3
    assert "dsrun: some of its output could not be saved: file too large\n" in waited.stderr


class Plain:
    """A job in a terminal, which ends once the test wants that."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.process = site.start("dsrun", *PLAN, "--no_python", "./worker")
        assert self.process.stdout is not None
        assert "is up" in self.process.stdout.readline()
        listed = json.loads(site.job("--json").stdout)["jobs"]
        self.id = next(one["job_id"] for one in listed if one["pid"] == self.process.pid)

    def waiting(self, *words: str) -> subprocess.Popen[str]:
        """Someone who waits for it, once the job knows that."""
        before = self._waiting()
        waits = self._site.start("dsrun-job", "wait", self.id, *words)
        try:
            wait_for(lambda: self._waiting() > before, "the file of one that waits")
        except TimeoutError:
            self.process.kill()  # so that whoever waits for it ends
            raise
        return waits

    def _waiting(self) -> int:
        return sum("memfd:report" in one for one in descriptors(self.process.pid))

    def ended(self) -> str:
        """Let it end; return its last words."""
        self._site.end()
        _, err = self.process.communicate(timeout=HANG)
        return err


@pytest.fixture
def plain(site: Site) -> Iterator[Plain]:
    made = Plain(site)
    yield made
    made.process.kill()
    made.process.communicate(timeout=HANG)


def test_one_in_a_terminal_is_waited_for(site: Site, plain: Plain) -> None:
    assert "is running: " in site.job("report", plain.id).stdout
    picture = site.folder / "r.html"
    assert site.job("report", plain.id, "--html", str(picture)).returncode == 0
    assert "rank 0 is up" in picture.read_text()
    with plain.waiting() as waits, plain.waiting("--json") as other:
        said = plain.ended()
        _, words = waits.communicate(timeout=HANG)
        told, _ = other.communicate(timeout=HANG)
    assert (waits.returncode, other.returncode, plain.process.returncode) == (3, 3, 3)
    told = json.loads(told)
    assert schemas.faults("jobs", told, "report") == []
    assert (told["state"], told["report"]["exit_code"]) == ("ended", 3)
    assert words == f"{told['text']}\n"
    headline, _, rest = words.partition("\n")
    assert rest == "  the end of its standard error:\n    rank 0 leaves\n"
    assert said.endswith(f"{headline}\n  the end of its standard error is above\n")
    assert not (site.folder / "state").exists(), "it keeps nothing"


def test_one_that_waits_holds_nothing_up(plain: Plain) -> None:
    with plain.waiting() as stopped, plain.waiting() as killed, plain.waiting() as waits:
        stopped.send_signal(signal.SIGSTOP)
        killed.kill()
        killed.communicate(timeout=HANG)
        plain.ended()
        assert plain.process.returncode == 3
        waits.communicate(timeout=HANG)
        assert waits.returncode == 3
        stopped.send_signal(signal.SIGCONT)
        stopped.communicate(timeout=HANG)
        assert stopped.returncode == 3, "its end was there all the time"


def test_the_death_of_its_runner_is_told(site: Site, plain: Plain) -> None:
    with plain.waiting() as waits:
        plain.process.kill()
        _, words = waits.communicate(timeout=HANG)
    assert waits.returncode == 75
    assert re.fullmatch(
        rf"dsrun: job {plain.id}: the process that ran it \(pid {plain.process.pid} on \S+\)"
        r" was killed; .*\n",
        words,
    )
    site.end()
