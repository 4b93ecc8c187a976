"""STACKS_ASK through a session: real workers, read by the real py-spy."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.stack_messages import Stacks, StacksAsk, restored
from dsrun.launcher.node import processes
from dsrun.launcher.node.stacks import questions
from dsrun.launcher.specs.program import Program

from ...support.fake_runner import prepared, running, stopped

if TYPE_CHECKING:
    from pathlib import Path

    from ...support.fake_runner import FakeRunner, Steps

pytestmark = pytest.mark.usefixtures("adopting")

WORKER = """
import os, signal, sys
def wait_here():
    os.write(1, b"ready")
    signal.pause()
def load():
    wait_here()
if os.fork() == 0:
    load()
wait_here()
"""


def started(r: FakeRunner, folder: Path, **fields: object) -> Steps:
    """A run of a worker with one child, which both wait in `wait_here`."""
    script = folder / "train.py"
    script.write_text(WORKER)
    program = Program(str(script), python=sys.executable, local_rank=False)
    yield from prepared(r, program=program, **fields)
    r.start()
    yield lambda: r.output().count("ready") == 2


def asked(r: FakeRunner, number: int = 7, **fields: object) -> Steps:
    """Ask, and wait for the answer."""
    times = r.names().count("STACKS") + 1
    children = len(processes.children())
    r.says(frames.STACKS_ASK, StacksAsk(number, **fields))  # type: ignore[arg-type]
    yield r.got(frames.STACKS, times)
    yield lambda: len(processes.children()) <= children  # the one that has read is reaped


def answers(r: FakeRunner) -> list[Stacks]:
    bodies = [body for kind, body in r.received if kind == frames.STACKS]
    return [restored(messages.unpack(Stacks, body)) for body in bodies]


def functions(stacks: Stacks, pid: int) -> list[list[str]]:
    """The names of the functions in which the threads of a process are."""
    found = [one.frames for one in stacks.threads if one.pid == pid]
    return [[frame.partition(" ")[0] for frame in frames] for frames in found]


def test_a_worker_and_its_child(runner: FakeRunner, tmp_path: Path) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from started(r, tmp_path, log_dir=str(tmp_path / "logs"))
        yield from asked(r, save=True)
        (found,) = answers(r)
        worker, child = found.processes
        assert (found.number, worker.pid) == (7, r.all(frames.STARTED)[0]["pids"][0])
        assert (child.rank, child.parent, child.state) == (0, worker.pid, "S")
        assert worker.command.endswith("train.py")
        assert {row.source: row.problem for row in found.processes} == {"py-spy": ""}
        assert functions(found, worker.pid) == [["wait_here", "<module>"]]
        assert functions(found, child.pid) == [["wait_here", "load", "<module>"]]
        assert found.threads[0].frames[0] == f"wait_here ({tmp_path}/train.py:5)"
        assert found.threads[0].main
        assert found.saved == str(tmp_path / "logs" / "j")
        text = (tmp_path / "logs" / "j" / "rank-0000.stacks").read_text()
        assert text.count(f"    wait_here ({tmp_path}/train.py:5)\n") == 2
        yield from asked(r, children=False, ranks=(0,), native=True)
        (only,) = answers(r)[1].processes
        assert only.pid == worker.pid
        assert len(functions(answers(r)[1], worker.pid)[0]) > 2, "the frames of C code, too"
        yield from asked(r, ranks=(1,))
        assert answers(r)[2].processes == ()
        yield from stopped(r)
        yield from asked(r)
        assert answers(r)[3].processes == ()
        r.end()

    assert runner.play(history) == 0


def test_a_stopped_worker_is_read_and_stays_stopped(runner: FakeRunner, tmp_path: Path) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from started(r, tmp_path)
        pid = r.all(frames.STARTED)[0]["pids"][0]
        os.kill(pid, signal.SIGSTOP)
        yield lambda: processes.stat(pid)[0] == "T"
        yield from asked(r, native=True)
        assert answers(r)[0].processes[0].state == "T"
        assert functions(answers(r)[0], pid) == [["wait_here", "<module>"]]
        assert processes.stat(pid)[0] == "T"
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0


def test_without_py_spy_there_are_states_and_the_reason(
    runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", "/bin")

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "echo ready; read forever", keep_stdin=True)
        r.start()
        yield r.prints("ready")
        yield from asked(r)
        (row,) = answers(r)[0].processes
        assert (row.state, row.source) == ("S", "")
        assert row.problem == "there is no py-spy on this node (pip install py-spy)"
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked hangs."""
    monkeypatch.setattr(questions, "answer", lambda *_: signal.pause())


@pytest.mark.usefixtures("stuck")
def test_what_hangs_is_answered_by_states_in_time(runner: FakeRunner) -> None:
    """The child that reads is not taken for a process of the workers."""

    def history(r: FakeRunner) -> Steps:
        yield from running(r)
        for number in range(questions.AT_ONCE + 1):
            r.says(frames.STACKS_ASK, StacksAsk(number))
        yield r.got(frames.STACKS)
        assert answers(r)[0].number == questions.AT_ONCE
        assert answers(r)[0].processes[0].problem == "too many questions at a time"
        yield r.skip(questions.SECONDS + questions.MARGIN)
        yield r.got(frames.STACKS, questions.AT_ONCE + 1)
        assert {one.processes[0].state for one in answers(r)} == {"S"}
        assert answers(r)[1].processes[0].problem == "nothing was read in time"
        yield lambda: len(processes.children()) == 2  # the guard's stand-in, and the worker
        r.says(frames.STACKS_ASK, StacksAsk(9))
        yield from stopped(r)
        assert r.all(frames.DONE)[0]["left"] == []
        yield r.skip(questions.SECONDS + questions.MARGIN)
        yield lambda: len(processes.children()) == 1
        r.end()

    assert runner.play(history) == 0


def test_an_invalid_question_ends_the_line(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        r.sends(frames.STACKS_ASK, b'{"number":-1}')
        yield lambda: r.closed

    assert runner.play(history) == 75
