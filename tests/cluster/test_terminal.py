"""dsrun at a terminal, in a pipe and without either: Ctrl-C, Ctrl-Z, hang-ups and broken pipes."""

from __future__ import annotations

import os
import pty
import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ..support.limits import NEVER, wait_for
from .command import COMMAND, Running
from .jobs import (
    AT_ONCE,
    DEAF,
    EVERYWHERE,
    LOST,
    OBEDIENT,
    PATIENT,
    Job,
    everywhere,
    here_and_there,
    place,
    state,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .hosts import Cluster

CTRL_C, CTRL_Z, CTRL_BACKSLASH = b"\x03", b"\x1a", b"\x1c"

SHELL = ("sh", "-c", '"$@"; echo the shell goes on', "sh")
"""A script that has dsrun in its foreground, in its own process group."""

LEASE = 6.0
PAUSE = 1.1 * LEASE
LEASED = ("--heartbeat_timeout", f"{LEASE}")

COUNT = """
say("is up")
for number in range(10**6):
    say("count", number)
    if os.path.exists(f"{folder}/go"):
        break
    time.sleep(0.02)
say("counted", number)
"""


class Terminal:
    """A terminal; what `started` describes gets it as its own, and as standard input.

    Attributes:
        keyboard: where keys are typed; closing it hangs up.
    """

    def __init__(self) -> None:
        self.keyboard, self._line = pty.openpty()
        self.before = ("setsid", "--ctty")

    def popen(self) -> dict[str, int]:
        """What to give to Popen."""
        return {"stdin": self._line}

    def type(self, keys: bytes) -> None:
        """Press these keys."""
        os.write(self.keyboard, keys)

    def hang_up(self) -> None:
        """Close it, as when its window is closed or its connection breaks."""
        os.close(self._line)
        os.close(self.keyboard)
        self.keyboard = -1


@contextmanager
def terminal() -> Iterator[Terminal]:
    """A terminal that is hung up at the end of the block."""
    one = Terminal()
    try:
        yield one
    finally:
        if one.keyboard >= 0:
            one.hang_up()


@pytest.mark.parametrize(
    ("launcher", "key", "name", "before"),
    [
        *((launcher, CTRL_C, "SIGINT", ()) for launcher in EVERYWHERE),
        ("ssh", CTRL_C, "SIGINT", SHELL),
        ("local", CTRL_C, "SIGINT", SHELL),
        ("ssh", CTRL_BACKSLASH, "SIGQUIT", ()),
    ],
)
def test_a_key_that_stops_is_heard_once_by_every_worker_and_one_that_shows_by_none(
    cluster: Cluster, tmp_path: Path, launcher: str, key: bytes, name: str, before: tuple[str, ...]
) -> None:
    ends = ("--signals_to_handle", "SIGQUIT") if key == CTRL_BACKSLASH else ()
    with terminal() as at, Job(
        cluster, tmp_path, PATIENT, *ends,
        launcher=launcher, before=at.before + before, **at.popen(),
    ) as job:  # fmt: skip
        if not ends and not before:
            at.type(CTRL_BACKSLASH)
            shown = (
                rf"running: {job.size} of {job.size} ranks\n(dsrun:   .*: ranks .*, up for .*\n)+"
            )
            job.running.wait_for_output(shown)
        at.type(key)
        returncode, errors = job.wait()
        job.clean()
    assert returncode in {128 + getattr(signal, name), -getattr(signal, name)}
    assert [job.heard(rank) for rank in range(job.size)] == [[name]] * job.size
    assert f"dsrun: stopped by {name}" in errors


@here_and_there
def test_ctrl_c_twice_kills_and_thrice_is_no_worse(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    with terminal() as at, Job(
        cluster, tmp_path, DEAF,
        launcher=launcher, before=at.before, **at.popen(),
    ) as job:  # fmt: skip
        at.type(CTRL_C)
        for rank in range(job.size):
            job.said(rank, "hears SIGINT")
        at.type(CTRL_C)
        at.type(CTRL_C)
        assert job.wait()[0] == 130
        job.clean()


@here_and_there
def test_a_terminal_that_is_closed_hangs_up_the_job(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    with (
        terminal() as at,
        Job(cluster, tmp_path, PATIENT, launcher=launcher, before=at.before, **at.popen()) as job,
    ):
        at.hang_up()
        assert job.wait()[0] == 129
        job.clean()
    assert [job.heard(rank) for rank in range(job.size)] == [["SIGHUP"]] * job.size


@here_and_there
def test_the_death_of_the_shell_hangs_up_the_job(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    with (
        terminal() as at,
        Job(
            cluster, tmp_path, PATIENT, launcher=launcher, before=at.before + SHELL, **at.popen()
        ) as job,
    ):
        os.kill(job.running.pid, signal.SIGKILL)
        job.clean()
    assert [job.heard(rank) for rank in range(job.size)] == [["SIGHUP"]] * job.size


@here_and_there
def test_nohup_keeps_a_job(cluster: Cluster, tmp_path: Path, launcher: str) -> None:
    worker = "hear('SIGUSR1', 'SIGHUP'); wait_to_go()"
    with Job(cluster, tmp_path, worker, launcher=launcher, before=["nohup"]) as job:
        job.running.process.send_signal(signal.SIGHUP)
        job.running.process.send_signal(signal.SIGUSR1)
        for rank in range(job.size):
            job.said(rank, "hears SIGUSR1")
        job.go()
        assert job.wait()[0] == 0
    assert [job.heard(rank) for rank in range(job.size)] == [["SIGUSR1"]] * job.size


@here_and_there
@pytest.mark.parametrize("streams", ["<&-", "</dev/null", "<&- 2>&-"])
def test_no_standard_input_stops_nothing(
    cluster: Cluster, tmp_path: Path, launcher: str, streams: str
) -> None:
    before = ["sh", "-c", f'exec "$@" {streams}', "sh"]
    with Job(
        cluster, tmp_path, "wait_to_go(); say('goes')", launcher=launcher, before=before
    ) as job:
        job.go()
        assert job.wait()[0] == 0
    assert [job.words(rank)[1:] for rank in range(job.size)] == [["goes"]] * job.size
    assert len(re.findall("goes", job.running.stdout)) == job.size


@here_and_there
def test_without_any_stream_a_job_runs_and_tells_its_code(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    (tmp_path / "end.py").write_text("import os; print('to nobody', flush=True); os._exit(7)")
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    words = [*COMMAND, *place(launcher, 1, ("n1", "n2")), "--no_local_rank", "end.py"]
    assert cluster.login.run([*shell, *words], cwd=tmp_path).returncode == 7


def counted(job: Job) -> int:
    """How far rank 0 has counted by now."""
    return len(job.words(0))


def pass_time(job: Job) -> None:
    """Return when rank 0 has counted on for longer than the lease."""
    until = counted(job) + int(PAUSE / 0.02)
    wait_for(lambda: counted(job) >= until, "rank 0 to count on")


def complete(job: Job) -> bool:
    """Whether all that every rank has said was shown, in order."""
    shown = job.running.stdout.splitlines()
    return all(
        [line.split("| ", 1)[1] for line in shown if re.match(rf"\w+:{rank}\|", line)]
        == job.words(rank)
        for rank in range(job.size)
    )


@everywhere
def test_ctrl_z_for_longer_than_the_lease_loses_nothing(
    site: Cluster, tmp_path: Path, launcher: str
) -> None:
    """Twice, for the second time is not the first."""
    with (
        terminal() as at,
        Job(
            site, tmp_path, COUNT, *LEASED, launcher=launcher, before=at.before, **at.popen()
        ) as job,
    ):
        for _ in range(2):
            at.type(CTRL_Z)
            wait_for(lambda: state(job.running.pid) == "T", "a stopped dsrun")
            pass_time(job)
            job.running.process.send_signal(signal.SIGCONT)
            job.said(0, f"count {counted(job)}")
        job.go()
        returncode, errors = job.wait()
    assert (returncode, "lost" in errors) == (0, False), job.running
    assert complete(job)


@here_and_there
def test_a_job_can_be_ended_while_dsrun_is_stopped(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    with Job(cluster, tmp_path, OBEDIENT, *LEASED, launcher=launcher) as job:
        job.running.process.send_signal(signal.SIGTSTP)
        wait_for(lambda: state(job.running.pid) == "T", "a stopped dsrun")
        job.running.process.send_signal(signal.SIGTERM)
        job.running.process.send_signal(signal.SIGCONT)
        assert job.wait()[0] == 143
    assert [job.heard(rank) for rank in range(job.size)] == [["SIGTERM"]] * job.size


@here_and_there
def test_kill_while_dsrun_is_stopped_leaves_nothing(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    with Job(cluster, tmp_path, OBEDIENT, *LEASED, launcher=launcher) as job:
        job.running.process.send_signal(signal.SIGTSTP)
        wait_for(lambda: state(job.running.pid) == "T", "a stopped dsrun")
        os.kill(job.running.pid, signal.SIGKILL)
        job.clean()


@here_and_there
@pytest.mark.parametrize(("lease", "code"), [(NEVER, 0), (LEASE, LOST)])
def test_a_stop_without_notice_lasts_as_long_as_the_lease(
    cluster: Cluster, tmp_path: Path, launcher: str, lease: float, code: int
) -> None:
    """SIGSTOP cannot be caught: dsrun has no way to tell the nodes of it."""
    with Job(cluster, tmp_path, COUNT, "--heartbeat_timeout", f"{lease}", launcher=launcher) as job:
        job.running.process.send_signal(signal.SIGSTOP)
        if code:
            wait_for(lambda: not job.pids(), "the nodes to give up")
        else:
            pass_time(job)
        job.running.process.send_signal(signal.SIGCONT)
        job.go()
        returncode, errors = job.wait()
        job.clean()
    assert returncode == code, job.running
    assert ("dsrun: lost" in errors) == bool(code)


@everywhere
def test_a_reader_that_leaves_ends_the_job(site: Cluster, tmp_path: Path, launcher: str) -> None:
    (tmp_path / "count.py").write_text(
        "import time\nfor number in range(10**6):\n    print('count', number, flush=True)\n"
        "    time.sleep(0.01)\n"
    )
    shell = '"$@" count.py | head -1; echo ${PIPESTATUS[0]}'
    words = [*COMMAND, *place(launcher, 2, ("n1", "n2")), "--no_local_rank", *AT_ONCE]
    done = Running(
        site.login.popen(["bash", "-c", shell, "bash", *words], cwd=tmp_path, text=False)
    ).wait()
    assert re.fullmatch(r"\w+:\d\| count \d+\n141\n", done.stdout), done
    assert "Traceback" not in done.stderr
