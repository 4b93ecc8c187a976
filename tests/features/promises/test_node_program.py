"""The node's half of `dsrun-check --promises`: its folder, and what it sees of a job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.promises.messages import WORKER, LookAsk
from dsrun.launcher.features.promises.node_program import asked, look, main, make_folder
from dsrun.launcher.node.machine.leftovers import identity
from dsrun.launcher.node.programs import command_line

from ...support.launcher_name import NAME
from ...support.limits import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

JOB = f"20260101-000000-{os.getpid():x}"
"""One of this process: other tests may play the same at the same time."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def process(stack: ExitStack, **environ: str) -> subprocess.Popen[bytes]:
    """A process with these variables, which is there until the test ends."""
    one = subprocess.Popen(["sleep", "600"], env={**os.environ, **environ})
    stack.callback(one.wait)
    stack.callback(one.kill)
    # The kernel gives it the name and the variables only after `Popen` has seen the exec.
    wait_for(Path(f"/proc/{one.pid}/environ").read_bytes, "the variables of a new process")
    return one


def test_it_sees_processes_by_their_job_and_by_no_name(stack: ExitStack) -> None:
    ours = process(stack, DSRUN_JOB_ID=JOB)
    process(stack, DSRUN_JOB_ID=f"{JOB}x")
    process(stack, LIKE_DSRUN_JOB_ID=JOB)
    process(stack)
    assert look(LookAsk(JOB)) == [f"pid {ours.pid} (sleep)"]


def test_it_sees_node_launchers_by_pid_and_start(stack: ExitStack) -> None:
    one = process(stack)
    owners = identity(one.pid)
    assert look(LookAsk(JOB, (f"1:1,{owners}",))) == [f"pid {one.pid} (sleep)"]
    assert look(LookAsk(JOB, (f"{one.pid}:1", "", "x:y"))) == []


def test_it_waits_until_nothing_is_left(stack: ExitStack) -> None:
    one = subprocess.Popen(
        [sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE,
        env={**os.environ, "DSRUN_JOB_ID": JOB},
    )
    stack.callback(one.wait)
    assert one.stdin is not None
    assert look(LookAsk(JOB))
    one.stdin.close()
    assert look(LookAsk(JOB, seconds=200.0)) == []


def test_what_breaks_a_promise_is_killed_and_told(stack: ExitStack) -> None:
    like = process(stack, **{"DSRUN_JOB_ID": f"{JOB}x", NAME: "1:1"})
    one = process(stack, **{"DSRUN_JOB_ID": JOB, NAME: "1:1"})
    assert look(LookAsk(JOB, end=True)) == [f"pid {one.pid} (sleep)"]
    assert one.wait() == -9
    assert like.poll() is None


def test_it_makes_a_folder_and_removes_it(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    program = subprocess.Popen(
        [*command_line("promises"), str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stdout.readline() == b"{}\n"
    assert [path.name for path in folder.iterdir()] == [WORKER]
    program.stdin.write(json.dumps(LookAsk(JOB)._asdict()).encode() + b"\n")
    program.stdin.flush()
    assert json.loads(program.stdout.readline()) == {"left": []}
    assert program.communicate()[0] == b""
    assert program.returncode == 0
    assert not folder.exists()


def test_nodes_may_share_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    make_folder(str(folder))
    make_folder(str(folder))
    assert [path.name for path in folder.iterdir()] == [WORKER]


@pytest.mark.parametrize("kind", ["file", "link", "open"])
def test_what_somebody_else_has_made_is_not_used(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "made"
    (tmp_path / "other").mkdir(0o700)
    if kind == "file":
        folder.write_text("")
    elif kind == "link":
        folder.symlink_to(tmp_path / "other")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main([str(folder)]) == 1
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().err == f"dsrun: {folder}: file exists\n"
    assert folder.exists()
    assert [*(tmp_path / "other").iterdir()] == []


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b'{"job": 1, "owners": 2}', b"\xff"])
def test_a_question_is_checked(line: bytes) -> None:
    with pytest.raises(UsageError):
        asked(line)


def test_a_folder_must_be_given() -> None:
    with pytest.raises(UsageError):
        main(["made"])
