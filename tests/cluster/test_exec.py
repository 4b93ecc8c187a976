"""dsrun-exec on hosts: over ssh, on a hold, and in a Slurm job."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from .command import CHECKOUT, Running
from .held import Held
from .reaching import OTHER_SESSION, known, ssh_file

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from .hosts import Cluster
    from .slurm import Slurm

COMMAND = (sys.executable, str(CHECKOUT / "bin" / "dsrun-exec"))
ALL = ("--host", "n[1-4]")


class Exec:
    """`dsrun-exec` at the login of a cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self._started: list[Running] = []

    def start(self, *words: str, **more: Any) -> Running:
        login = self.cluster.login
        process = login.popen([*COMMAND, *words], cwd=self.folder, text=False, **more)
        self._started.append(Running(process))
        return self._started[-1]

    def __call__(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.start(*words, **more).wait()

    def running(self, word: str) -> list[str]:
        """Return the hosts on which a process has this argument."""
        return sorted(one.host for one in self.cluster.processes() if word in one.argv)

    def kill(self, word: str) -> None:
        """Kill the processes with this argument."""
        for one in self.cluster.processes():
            if word in one.argv:
                with suppress(ProcessLookupError):  # its session has ended it
                    os.kill(one.pid, signal.SIGKILL)

    def close(self) -> None:
        for running in self._started:
            running.kill()


@pytest.fixture
def execute(cluster: Cluster, tmp_path: Path) -> Iterator[Exec]:
    with closing(Exec(cluster, tmp_path)) as execute:
        yield execute


def odd_files(folder: Path) -> bytes:
    """Make a folder `d` with files that are easily lost; return what the large one contains."""
    data = os.urandom(3_000_001)
    (folder / "d" / "it's").mkdir(parents=True)
    (folder / "d" / "it's" / "-a\nb \udcff").write_bytes(data)
    (folder / "d" / "link").symlink_to("it's/-a\nb \udcff")
    (folder / "d" / "blocks").write_bytes(bytes(1024))
    (folder / "d" / "empty").touch()
    return data


def copy_and_fetch(execute: Exec, *where: str) -> None:
    """Copy files to hosts, look at them there, and fetch them again."""
    data = odd_files(execute.folder)
    done = execute(*where, "--copy", "d", "--to", "/tmp/exec/to")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "dsrun: copied 3 files to 4 hosts\n"
    done = execute(*where, "--fetch", "/tmp/exec/to/d", "--to", "back")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "dsrun: fetched 16 files from 4 hosts into back/, one folder per host\n"
    back = execute.folder / "back"
    assert {path.name for path in back.iterdir()} == {"n1", "n2", "n3", "n4"}
    for host in back.iterdir():
        for name in ("it's/-a\nb \udcff", "link"):
            assert (host / "d" / name).read_bytes() == data
        assert (host / "d" / "blocks").read_bytes() == bytes(1024)
        assert (host / "d" / "empty").read_bytes() == b""
    assert execute(*where, "rm", "-r", "/tmp/exec").returncode == 0


@pytest.mark.tier("test")
def test_commands_and_files_over_ssh(execute: Exec, cluster: Cluster) -> None:
    done = execute(*ALL, "--shell", "echo $((6 * 7)); [ $(hostname) != n3 ]")
    assert (done.returncode, done.stdout) == (1, "n[1-4]: 42\n")
    assert done.stderr == "dsrun: n3: exit code 1\n"
    copy_and_fetch(execute, *ALL)
    with ssh_file(cluster, "known_hosts", known(cluster, "login n1 n3 n4")):
        options = ("--connect_timeout", "15", "--host", "n1,n2,blackhole")
        done = execute(*options, "hostname")
    assert (done.returncode, done.stdout) == (69, "n1: n1\n")
    assert re.search("dsrun: n2: unknown host key", done.stderr)
    assert re.search("dsrun: blackhole: no answer", done.stderr)
    with ssh_file(cluster, "config", OTHER_SESSION):
        done = execute("--host", "n1,n2", "echo", "here")
    assert (done.returncode, done.stdout) == (0, "n1, n2: here\n")
    running = execute.start(*ALL, "--no_fold", "--shell", "echo up; exec sleep 4711")
    for host in ("n1", "n2", "n3", "n4"):
        running.wait_for_output(rf"{host}\| up")
    running.process.send_signal(signal.SIGINT)
    done = running.wait()
    assert (done.returncode, done.stderr) == (130, "dsrun: n[1-4]: stopped by SIGINT\n")
    assert execute.running("4711") == []


def test_a_death_of_the_command_ends_it_everywhere(execute: Exec) -> None:
    running = execute.start(*ALL, "--no_fold", "--shell", "echo up; exec sleep 4711")
    for host in ("n1", "n2", "n3", "n4"):
        running.wait_for_output(rf"{host}\| up")
    running.process.kill()
    wait_for(lambda: execute.running("4711") == [], "the commands to end")


def test_a_host_that_is_cut_off_is_lost_and_the_others_are_not(
    execute: Exec, cluster: Cluster
) -> None:
    options = ("--host", "n[1-2]", "--launcher_args", "-o ServerAliveInterval=1")
    line = "echo up; if [ $(hostname) = n2 ]; then exec sleep 4711; fi"
    running = execute.start(*options, "--no_fold", "--shell", line)
    running.wait_for_output(r"n2\| up")
    with cluster.host("n2").unplugged():
        done = running.wait()
    assert done.returncode == 75
    assert re.search("dsrun: n2: the connection was lost: Timeout", done.stderr)
    execute.kill("4711")


def test_commands_and_files_on_a_hold(execute: Exec, cluster: Cluster, tmp_path: Path) -> None:
    with Held(cluster, tmp_path, "n1,n2,n3,n4", "--heartbeat_timeout", "10") as held:
        on = ("--on", held.name)
        done = execute(*on, "--shell", "echo $((6 * 7)); [ $(hostname) != n3 ]")
        assert (done.returncode, done.stdout) == (1, "n[1-4]: 42\n")
        assert done.stderr == "dsrun: n3: exit code 1\n"
        copy_and_fetch(execute, *on)
        done = execute(*on, "--include", "n2", "no-such-program")
        assert done.returncode == 127
        assert "no-such-program: not found" in done.stderr
        running = execute.start(*on, "--no_fold", "--shell", "echo up; exec sleep 4711")
        for host in ("n1", "n2", "n3", "n4"):
            running.wait_for_output(rf"{host}\| up")
        running.process.kill()
        wait_for(lambda: execute.running("4711") == [], "the commands to end")
        with cluster.host("n4").powered_off():
            held.running.wait_for_output("lost n4|n4: .*lost")
            done = execute(*on, "hostname")
            assert (done.returncode, done.stdout) == (69, "n1: n1\nn2: n2\nn3: n3\n")


def test_a_command_in_a_slurm_job(slurm: Slurm, tmp_path: Path) -> None:
    with (
        slurm.nothing_left(),
        slurm.allocation("n1", "n2") as job,
        closing(Exec(slurm.cluster, tmp_path)) as execute,
    ):
        env = {"SLURM_JOB_ID": str(job), "SLURM_JOB_NODELIST": "n[1-2]"}
        done = execute("--shell", "echo $SLURM_JOB_ID; hostname >&2; exit 4", env=env)
        assert done.returncode == 4
        assert done.stdout == f"n1, n2: {job}\n"
        assert "n1: n1\nn2: n2\n" in done.stderr
