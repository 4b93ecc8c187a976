"""The start of a detached job: what ends it, and what it leaves then."""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ...support.detached import PLAN, Site, site
from ...support.limits import HANG, wait_for

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence

__all__ = ["site"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("./no-such",), 2, "no-such"),
        (("--launcher", "slurm", "./worker"), 2, "--detach: not with --launcher slurm outside"),
        (("--stdin", "rank0", "./worker"), 2, "--stdin rank0: not with --detach"),
        (("--report_file", "/dev/stdout", "./worker"), 2, "--report_file /dev/stdout: not with"),
        (("--health_command", "false", "./worker"), 69, "health"),
    ],
)
def test_a_job_that_does_not_run_says_why_and_leaves_nothing(
    site: Site, words: Sequence[str], code: int, says: str
) -> None:
    done = site.run("dsrun", "--detach", *PLAN, "--no_python", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert site.names() == []


def test_without_a_folder_it_does_not_start(site: Site) -> None:
    site.jobs.mkdir(parents=True)
    site.jobs.chmod(0o755)
    done = site.run("dsrun", "--detach", *PLAN, "--no_python", "./worker")
    assert (done.returncode, done.stdout) == (74, "")
    assert re.fullmatch(
        r"dsrun: --detach: cannot keep the output of the job: \S+: is open to other users; run"
        r" chmod 700; XDG_STATE_HOME names another folder\n",
        done.stderr,
    )


@contextmanager
def starting(site: Site) -> Iterator[subprocess.Popen[str]]:
    """A detached job whose start does not end by itself."""
    block = "touch begun; exec sleep 1000"
    words = ("--health_command", block, "--health_timeout", f"{2 * HANG:g}")
    with site.start("dsrun", "--detach", *PLAN, *words, "--no_python", "./worker") as parent:
        wait_for((site.folder / "begun").exists, "the start")
        yield parent


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_start_ends_it(site: Site, number: int) -> None:
    with starting(site) as parent:
        parent.send_signal(number)
        out, _ = parent.communicate(timeout=HANG)
    assert (parent.returncode, out) == (128 + number, "")
    assert site.names() == []


def test_a_start_ends_with_its_terminal(site: Site) -> None:
    """The readers of its output see their end: nothing of it is left."""
    with starting(site) as parent:
        parent.kill()
        parent.communicate(timeout=HANG)
    assert site.names() == []
