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
        (("--launcher", "slurm", "./worker"), 2, "--launcher slurm: "),
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
        r"dsrun: --detach: cannot save the output of the job: \S+: is open to other users; run"
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


ROLES = """
[[role]]
name = "server"
hosts = ["localhost"]
slots = "0"
command = ["sh", "-c", "echo serves; exec sleep 1000"]
ready = "line:serves"
ends = "never"

[[role]]
name = "trainer"
hosts = ["localhost"]
slots = "1"
command = ["{command}"]
after = ["server"]
ends = "job"
"""


def test_a_job_of_roles_runs_on_once_all_of_them_run(site: Site) -> None:
    (site.folder / "roles.toml").write_text(ROLES.replace("{command}", "./worker"))
    done = site.run("dsrun", "--detach", *PLAN, "--roles", "roles.toml")
    assert (done.returncode, done.stderr) == (0, "dsrun: server is ready\n")
    job = done.stdout.strip()
    told = site.job("report", job).stdout
    assert "  server: ready, 1 of 1 rank\n  trainer: ready, 1 of 1 rank\n" in told
    assert site.job("logs", job, "--role", "server").stdout == "server/localhost:0| serves\n"
    site.end()
    waited = site.job("wait", job)
    assert waited.returncode == 3
    assert "dsrun: trainer: rank 0 (localhost, local rank 0, pid " in waited.stderr
    assert "other roles: server (1 rank stopped)" in waited.stderr
    assert waited.stderr == site.job("report", job).stdout
    assert "trainer/localhost:0| rank 0 leaves\n" in site.job("logs", job).stdout


def test_a_role_that_does_not_start_ends_a_detached_job(site: Site) -> None:
    (site.folder / "roles.toml").write_text(ROLES.replace("{command}", "./no-such"))
    done = site.run("dsrun", "--detach", *PLAN, "--roles", "roles.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no-such" in done.stderr
    assert site.names() == []


def test_no_role_of_a_detached_job_reads_the_terminal(site: Site) -> None:
    roles = ROLES.replace("{command}", "./worker").replace("ready =", 'stdin = "rank0"\nready =')
    (site.folder / "roles.toml").write_text(roles)
    done = site.run("dsrun", "--detach", *PLAN, "--roles", "roles.toml")
    says = "dsrun: roles.toml:7: stdin: not with --detach, as the job has no standard input\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", says)


def test_a_start_of_roles_ends_with_its_terminal(site: Site) -> None:
    roles = ROLES.replace("{command}", "./worker").replace("echo serves", "touch begun")
    (site.folder / "roles.toml").write_text(roles)
    with site.start("dsrun", "--detach", *PLAN, "--roles", "roles.toml") as parent:
        wait_for((site.folder / "begun").exists, "the start of the server")
        (job,) = site.names()
        parent.kill()
        parent.communicate(timeout=HANG)
    wait_for(lambda: site.job("list", "--json").stdout.count(job) == 0, "the end")
