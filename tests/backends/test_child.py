"""A program that a backend runs: its streams, its exit, its errors."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.backends.child import KEPT, Child, spawn
from dsrun.launcher.common.loop import Loop

from ..support.leaks import open_files
from ..support.limits import HANG
from .commands import go_on

if TYPE_CHECKING:
    from pathlib import Path


def ended(text: str, *, on_errors: list[bytes] | None = None) -> tuple[int, str]:
    """Return the exit code of a shell script, and what is kept of its standard error."""
    loop, found = Loop(), list[tuple[int, str]]()

    def on_end(code: int, errors: str) -> None:
        found.append((code, errors))
        loop.stop()

    heard = on_errors.append if on_errors is not None else None
    child = Child(spawn(["/bin/sh", "-c", text], {"A": "b"}), loop, on_end, heard)
    loop.call_later(HANG, loop.stop)
    loop.run()
    os.close(child.stdin)
    os.close(child.stdout)
    return found[0]


@pytest.mark.parametrize(
    ("text", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -signal.SIGKILL)]
)
def test_how_it_has_ended(text: str, code: int) -> None:
    assert ended(text) == (code, "")


def test_standard_error_is_kept_to_its_end_and_passed_on_as_it_comes() -> None:
    heard: list[bytes] = []
    many = (
        f"i=0; while [ $i -lt {KEPT // 8} ]; do echo 0123456789 >&2; i=$((i+1)); done; echo z >&2"
    )
    _, errors = ended(many, on_errors=heard)
    assert len(errors) == KEPT
    assert errors.endswith("0123456789\nz\n")
    assert len(b"".join(heard)) == KEPT // 8 * 11 + 2


def test_whoever_holds_its_standard_error_does_not_hold_up_its_end() -> None:
    code, errors = ended("sleep 1200 2>&2 >&- <&- & echo $! >&2; exit 3")
    os.kill(int(errors), signal.SIGKILL)
    assert code == 3


def test_it_has_the_environment_it_is_given_alone_and_a_session_of_its_own() -> None:
    code, errors = ended('echo "$A$HOME" >&2; [ $(cut -d" " -f6 /proc/$$/stat) = $$ ]')
    assert (code, errors) == (0, "b\n")


@pytest.mark.parametrize("silent", [False, True])
def test_whoever_has_waited_for_its_end_may_let_the_loop_go_on(*, silent: bool) -> None:
    """It is reaped once and told once, and nothing of it stays open."""
    loop, found = Loop(), list[tuple[int, str]]()
    started = spawn(["/bin/sh", "-c", "exec 2>&-; read go; exit 7"], {})
    child = Child(started, loop, lambda code, errors: found.append((code, errors)))
    if silent:
        go_on(loop, lambda: not loop.has_reader(started.stderr))
    os.close(started.stdin)
    assert child.wait(HANG)
    assert child.wait(0.0)
    go_on(loop)
    assert (child.code, found) == (7, [(7, "")])
    os.close(started.stdout)


def test_what_cannot_be_started_leaves_no_descriptor_behind() -> None:
    before = open_files()
    with pytest.raises(FileNotFoundError):
        spawn(["/no/such/program"], {})
    assert open_files() == before


def test_a_program_of_the_current_folder_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be anybody's: a client such as `ssh` is searched in whole folders of PATH alone."""
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ":.")
    with pytest.raises(FileNotFoundError):
        spawn(["tool"], {})
