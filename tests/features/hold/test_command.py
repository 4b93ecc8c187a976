"""dsrun-hold on this machine, as a user types it: real processes."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common import entry
from dsrun.launcher.common.errors import LOST
from dsrun.launcher.control import local
from dsrun.launcher.control.local_client import connect, running
from dsrun.launcher.features.hold import command as hold

from ...cluster.command import own_lines
from ...support.checkout import CHECKOUT
from ...support.limits import HANG, wait_for
from ...support.local_control import new_name

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = str(CHECKOUT / "bin" / "dsrun-hold")


def error_of(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """Return the line that is printed for words that are not valid."""
    assert entry.main(hold.run, words) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    return printed.err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["train.py"], "dsrun-hold: takes no program, such as 'train.py'; run programs"),
        (["release", "last"], "dsrun-hold release: write dsrun-hold --release last"),
        (["stop"], "dsrun-hold stop: write dsrun-hold --release NAME"),
        (["--max_restarts", "3"], "--max_restarts: an option of dsrun"),
        (["--no_ssh"], "--no_ssh: an option of dsrun"),
        (
            ["--launcher", "slurm", "--launcher_path", "/nowhere/srun"],
            "--launcher slurm: this is not a Slurm job (no SLURM_JOB_ID), and there is no salloc in"
            " /nowhere",
        ),
        (["--launcher", "slurm", "--name", "last"], "--name last: is reserved for the newest hold"),
        (["--list"], "dsrun-hold --list: dsrun-job lists your jobs and holds"),
        (["--name", "last"], "--name last: is reserved for the newest hold; choose another name"),
        (["--name", "a/b"], "--name 'a/b': expected letters and digits"),
        (["--idle_timeout=-1"], "--idle_timeout: expected a duration"),
        (
            ["--release", "nobody-has-this"],
            "--release nobody-has-this: no such hold on this machine",
        ),
    ],
)
def test_what_is_not_valid_is_one_line(
    words: list[str],
    line: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert error_of(words, capfd).startswith(f"dsrun: {line}")


def test_only_one_hold_is_released_at_a_time(capfd: pytest.CaptureFixture[str]) -> None:
    noted, refused = error_of(["--release", "a-b", "--release", "no-hold"], capfd).splitlines()
    assert noted == "dsrun: --release is given 2 times; only the last one counts"
    assert refused.startswith("dsrun: --release no-hold: no such hold")


def test_the_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert entry.main(hold.run, ["-h"]) == 0
    assert "dsrun-hold" in capfd.readouterr().out


@pytest.fixture
def name() -> Iterator[str]:
    """A name for a hold, which is released at the end."""
    made = new_name()
    yield made
    client = connect(local.HOLD, made)
    if client is not None:
        with client:
            client.ask({"do": "release"})
            for _ in client.frames(HANG):
                pass


def start(name: str, *words: str) -> subprocess.Popen[str]:
    argv = [COMMAND, "--name", name, "--num_gpus", "2", "--launcher", "local", *words]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)


def ready(held: subprocess.Popen[str]) -> str:
    """Return the first line that the command itself says."""
    assert held.stderr is not None
    return next(filter(own_lines, held.stderr), "")


def launchers(pid: int) -> list[int]:
    """Return the children of a process."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:  # noqa: PTH123
        return [int(word) for word in file.read().split()]


def await_end(*pids: int) -> None:
    """Wait until these processes are gone."""
    left = [Path(f"/proc/{pid}") for pid in pids]
    wait_for(lambda: not any(map(Path.exists, left)), "the end of the node launchers")


@pytest.mark.parametrize(
    "words",
    [["dsrun-hold", "--release"], ["dsrun-exec", "true", "--on"], ["dsrun-check", "--on"]],
    ids=lambda words: words[0],
)
def test_a_hold_that_does_not_answer_is_waited_for_aloud(words: list[str]) -> None:
    name = new_name()
    tool, *options = words
    argv = [str(CHECKOUT / "bin" / tool), *options[-1:], name, *options[:-1]]
    with socket.socket(fileno=local.listener(local.HOLD, name).detach()) as unheard:
        command = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        with command:
            assert command.stderr is not None
            said = command.stderr.readline()
            assert said == "dsrun: waiting for the hold to answer; it is starting or stopped\n"
            hang_up(unheard, command.pid)
            assert command.wait(HANG) == LOST


def hang_up(listener: socket.socket, pid: int) -> None:
    """Close the connection of a process; other tests may ask all holds how they do."""
    caller = 0
    while caller != pid:
        with listener.accept()[0] as line:
            size = struct.calcsize("3i")
            told = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            caller = struct.unpack("3i", told)[0]


def test_a_hold_from_its_line_to_its_release(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with start(name) as held:
        assert ready(held) == (
            f"dsrun: holding 1 node with 2 slots as {name}; use: dsrun --on={name} SCRIPT;"
            f" release: dsrun-hold --release {name}\n"
        )
        assert held.stderr is not None
        assert held.stderr.readline() == "dsrun: Ctrl-C releases the nodes\n"
        assert name in running(local.HOLD)
        for where in (["--host", "localhost:1"], ["--launcher", "slurm"]):
            taken = error_of(["--name", name, *where], capfd)
            assert taken.startswith(f"dsrun: --name {name}: another hold on this machine has this")
        nodes = launchers(held.pid)
        assert nodes
        assert hold.run(["--release", name]) == 0
        assert held.wait(HANG) == 0
        await_end(*nodes)
    assert name not in running(local.HOLD)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)]
)
def test_a_hold_that_is_ended_leaves_nothing(name: str, number: int, code: int) -> None:
    with start(name) as held:
        ready(held)
        nodes = launchers(held.pid)
        held.send_signal(number)
        assert held.wait(HANG) == code
        await_end(*nodes)


def test_a_signal_for_workers_does_not_end_it(name: str) -> None:
    with start(name) as held:
        ready(held)
        held.send_signal(signal.SIGUSR1)
        client = connect(local.HOLD, name)
        assert client is not None
        with client:
            assert client.ask({"do": "status"}, seconds=HANG)["state"] == "serving"
        held.send_signal(signal.SIGTERM)
        assert held.wait(HANG) == 143


def test_a_hold_in_the_background_outlives_its_command(name: str) -> None:
    """Its line is the command's; when its nodes are killed, it starts them anew."""
    held = start(name, "--detach")
    _, errors = held.communicate(timeout=HANG)
    (line,) = own_lines(errors)
    assert held.returncode == 0
    client = connect(local.HOLD, name)
    assert client is not None
    with client:
        state: dict[str, Any] = client.ask({"do": "status"}, seconds=HANG)
        assert state["state"] == "serving"
        logged = "".join(f"dsrun: {one}\n" for one in client.ask({"do": "logs"})["lines"])
        assert own_lines(logged) == [line]


def test_a_hold_that_cannot_start_in_the_background(name: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    python.chmod(0o755)
    held = start(name, "--detach", "--python", str(python))
    _, errors = held.communicate(timeout=HANG)
    assert held.returncode == 2
    assert "broken" in errors
    assert name not in running(local.HOLD)
