"""What the hosts' shells do with what they are sent, in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.exec.runner_events import HostCommand
from dsrun.launcher.features.exec.runner_remote_shell import (
    BOOT,
    GRACE,
    PIECE,
    pieces,
    remote_line,
    script,
)

from ...support.limits import HANG, wait_for

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = [name for name in ("dash", "bash") if shutil.which(name)]
ODD = ("a\nb", "it's", "$HOME `x` \\n", "!x", "", "-n", "*", "\udcff")


def ran(
    command: HostCommand,
    *pieces: bytes,
    shell: str = "sh",
    line: str = BOOT,
    reads: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a host does; our end stays open until it has ended."""
    process = subprocess.Popen(
        [shell, "-c", line],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdin.write(script(command, "mark", reads=reads) + b"".join(pieces))
    process.stdin.flush()
    out, err = process.stdout.read(), process.stderr.read()
    code = process.wait(10)
    process.stdin.close()
    process.stdout.close(), process.stderr.close()
    assert out.startswith(b"mark\n") == err.startswith(b"mark\n")
    out, err = (text.removeprefix(b"mark\n") for text in (out, err))
    return subprocess.CompletedProcess([], code, out, err)


@pytest.mark.parametrize("shell", SHELLS)
def test_arguments_arrive_as_they_are(shell: str) -> None:
    done = ran(HostCommand(("printf", "%s|", *ODD)), shell=shell)
    assert done.stdout.decode("utf-8", "surrogateescape") == "".join(f"{word}|" for word in ODD)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("reads", [False, True])
def test_exit_codes_are_kept(shell: str, reads: bool) -> None:
    for argv, code in (
        (("true",), 0),
        (("sh", "-c", "exit 255"), 255),
        (("sh", "-c", "kill -9 $$"), 137),
        (("/nowhere/program",), 127),
        (("/",), 126),
    ):
        assert ran(HostCommand(argv), shell=shell, reads=reads).returncode == code


@pytest.mark.parametrize("shell", SHELLS)
def test_input_arrives_in_pieces_and_ends(shell: str) -> None:
    data = bytes(range(256)) * 100
    done = ran(
        HostCommand(("cat",)),
        *pieces(data),
        *pieces(b"\n7\n"),
        *pieces(b""),
        shell=shell,
        reads=True,
    )
    assert done.stdout == data + b"\n7\n"
    assert done.returncode == 0


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_may_end_without_reading_its_input(shell: str) -> None:
    done = ran(
        HostCommand(("true",)), *pieces(b"x" * 40_000), *pieces(b""), shell=shell, reads=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_input_is_cut_into_pieces_of_which_only_the_last_is_empty() -> None:
    assert pieces(b"") == [b"0\n"]
    assert pieces(b"abc") == [b"3\nabc"]
    first, second = pieces(b"x" * (PIECE + 1))
    assert (len(first), second) == (PIECE + 8, b"1\nx")


def test_without_input_it_reads_nothing() -> None:
    assert ran(HostCommand(("cat",))).stdout == b""


def test_the_folder_is_the_one_given(tmp_path: Path) -> None:
    folder = tmp_path / "it's\nodd"
    folder.mkdir()
    assert ran(HostCommand(("pwd", "-P"), str(folder))).stdout.decode() == f"{folder}\n"
    missing = ran(HostCommand(("touch", str(tmp_path / "ran")), str(tmp_path / "no")))
    assert missing.returncode != 0
    assert b"no" in missing.stderr
    assert not (tmp_path / "ran").exists()


def hung_up(line: str, shell: str, *, reads: bool = False) -> tuple[bytes, float]:
    """Run a line until it is up, and end the session; return its output, and how long that took."""
    process = subprocess.Popen(
        [shell, "-c", BOOT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(script(HostCommand(("sh", "-c", line)), "mark", reads=reads))
    process.stdin.flush()
    assert process.stdout.readline() == b"mark\n"
    assert process.stdout.readline() == b"up\n"
    began = time.monotonic()
    process.stdin.close()
    rest = process.stdout.read()  # ends once nobody is left who could write
    process.stdout.close()
    process.wait(HANG)
    return rest, time.monotonic() - began


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("reads", [False, True])
def test_the_end_of_the_session_ends_the_command_and_its_children(shell: str, reads: bool) -> None:
    line = "trap 'echo asked; exit' TERM; sleep 600 & echo up; wait"
    assert hung_up(line, shell, reads=reads)[0] == b"asked\n"


def test_what_does_not_end_is_killed() -> None:
    line = "trap 'echo asked' TERM; echo up; while :; do sleep 600 & wait; done"
    rest, seconds = hung_up(line, "sh")
    assert rest == b"asked\n"
    assert seconds > GRACE - 0.5, "it had time to clean up"


@pytest.mark.parametrize("reads", [False, True])
def test_what_the_command_leaves_is_killed_as_well(reads: bool) -> None:
    line = """sh -c 'trap "" TERM; echo up; sleep 600' & wait"""
    rest, seconds = hung_up(line, "sh", reads=reads)
    assert rest == b""
    assert seconds > GRACE - 0.5


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_command_that_ends_at_once_leaves_nobody() -> None:
    process = subprocess.Popen(
        [*("sh", "-c"), BOOT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(script(HostCommand(("sh", "-c", "exit 3")), "mark", reads=False))
    process.stdin.flush()
    assert process.wait(HANG) == 3
    wait_for(lambda: not alive(process.pid), "its process group to be empty")
    process.stdin.close()
    process.stdout.close()


@pytest.mark.parametrize("login", ["bash", "dash", "fish", "zsh", "tcsh", "ksh"])
def test_every_login_shell_passes_the_command_on(login: str) -> None:
    if not shutil.which(login):
        pytest.skip(f"no {login} here")
    done = ran(HostCommand(("printf", "%s|", *ODD)), shell=login, line=remote_line())
    assert done.stdout.decode("utf-8", "surrogateescape") == "".join(f"{word}|" for word in ODD)


def test_the_line_for_the_login_shell_has_nothing_that_a_shell_would_change() -> None:
    assert remote_line() == "exec sh -c 'read -r c; eval \"$c\"'"
