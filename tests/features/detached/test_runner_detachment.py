"""Detached jobs on a hold, which runs them without their clients."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ...support.detached import Site, site
from ...support.limits import HANG, wait_for
from ...support.local_control import new_name

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["site"]


@pytest.fixture
def name() -> str:
    """A name for a hold."""
    return new_name()


@contextmanager
def held(site: Site, name: str) -> Iterator[subprocess.Popen[str]]:
    """A hold of this machine."""
    words = ("--name", name, "--host", "localhost:2", "--grace", "1")
    with site.start("dsrun-hold", *words, stdout=subprocess.DEVNULL) as hold:
        assert hold.stderr is not None
        assert "holding" in hold.stderr.readline()
        yield hold
        site.run("dsrun-hold", "--release", name)
        hold.communicate(timeout=HANG)


def on(site: Site, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return site.run("dsrun", "--on", name, "--detach", *words, "--no_python", "./worker")


def test_a_job_on_a_hold_runs_on_without_its_client(site: Site, name: str) -> None:
    with held(site, name) as hold:
        done = on(site, name)
        assert (done.returncode, done.stderr) == (0, "")
        job = done.stdout.strip()
        assert "rank 1 is up" in site.output(job)
        assert site.runner(job) == hold.pid
        refused = on(site, name, "--on_busy=refuse")
        assert (refused.returncode, refused.stdout) == (69, "")
        assert site.names() == [job], "of the other one nothing stays"
        site.end()
        waited = site.job("wait", job)
        assert waited.returncode == 3
        assert "exited with code 3" in waited.stderr
        wrong = on(site, name, "--requeue_on", "75")
        assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


def test_a_hold_that_is_killed_ends_its_detached_jobs(site: Site, name: str) -> None:
    with held(site, name) as hold:
        job = on(site, name).stdout.strip()
        site.output(job)
        hold.kill()
        hold.wait(HANG)
        waited = site.job("wait", job)
        assert waited.returncode == 75
        assert f"job {job}: the hold {name} (pid {hold.pid}" in waited.stderr


def test_a_job_on_a_hold_that_waits_ends_with_its_client(site: Site, name: str) -> None:
    with held(site, name):
        first = on(site, name).stdout.strip()
        with site.start("dsrun", "--on", name, "--detach", "--no_python", "./worker") as second:
            assert second.stderr is not None
            assert f"waiting for job {first}" in second.stderr.readline()
            second.kill()
            second.communicate(timeout=HANG)
        wait_for(lambda: site.names() == [first], "the end of the other one")
        site.job("kill", first)
        assert site.job("wait", first).returncode == 143
