"""Histories of a session whose checks wait for a file; a FIFO that nobody writes to is one."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.features.sync.node_folder import SyncFolder
from dsrun.launcher.node.checks import preflight
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.session.preparation import LIMIT, SILENT
from dsrun.launcher.specs.program import Program

from ...support.fake_runner import FakeRunner, prepared, ran, stopped
from ...support.frozen import silent as silent_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_runner import Steps

pytestmark = pytest.mark.usefixtures("adopting")


@pytest.fixture
def silent(tmp_path: Path) -> str:
    """The path of a file that blocks whoever opens it."""
    path = tmp_path / "silent"
    os.mkfifo(path)
    return str(path)


def waiting(r: FakeRunner, silent: str) -> Steps:
    """A JOB has been sent whose checks wait for that file."""
    r.job("exit 0", synced=(silent, "digest"))
    yield lambda: silent.encode() in r.session._checks._said


def problems(r: FakeRunner) -> list[list[str]]:
    """The problems in each HELLO."""
    return [one["problems"] for one in r.all(frames.HELLO)]


def gone() -> Callable[[], bool]:
    """Return whether only the guard is left of all children, to be asked again and again."""
    return lambda: len(processes.children()) == 1


def test_the_loop_goes_on_while_a_file_does_not_answer(runner: FakeRunner, silent: str) -> None:
    """A line says which one, once, and HELLO comes when it has answered."""

    def history(r: FakeRunner) -> Steps:
        yield from waiting(r, silent)
        yield r.skip(SILENT)
        yield r.got(frames.WAITS)
        yield r.skip(2 * SILENT)
        assert r.names() == ["WAITS"]
        with suppress(BrokenPipeError):  # whoever has opened it may have left
            Path(silent).write_text("digest")
        yield r.got(frames.HELLO)
        yield from ran(r, "exit 3")
        r.end()

    assert runner.play(history) == 0
    (said,) = runner.all(frames.WAITS)
    assert said["text"].startswith(f"no answer from {silent} for 5 s: the start waits up to")
    assert runner.exits() == [(0, 3, False)]


@pytest.mark.parametrize(
    "task",
    [
        {"workdir": "{point}"},
        {"log_dir": "{point}/logs"},
        {"venv_script": "{point}/activate"},
        {"program": Program("{point}/w.py")},
        {"program": Program("{point}/run", no_python=True)},
        {"program": Program("w.py", python="{point}/python")},
        {"program": Program("w.py", python="python"), "base": {"PATH": "{point}"}},
        {"env": {"DSRUN_ACCELERATOR": "cpu", "TMPDIR": "{point}"}, "facts": True},
    ],
)
def test_no_path_that_a_user_names_is_touched_on_the_loop(
    runner: FakeRunner, tmp_path_factory: pytest.TempPathFactory, task: dict[str, object]
) -> None:
    """Else this test would not end, as the file system answers nothing."""
    with silent_server(tmp_path_factory.mktemp("server")) as point:
        fields = json.loads(json.dumps(task).replace("{point}", str(point)))

        def history(r: FakeRunner) -> Steps:
            r.job("exit 0", **fields)
            yield lambda: str(point).encode() in r.session._checks._said
            yield r.skip(LIMIT)
            yield r.got(frames.HELLO)
            yield gone()
            r.end()

        assert runner.play(history) == 0
    ((why,),) = problems(runner)
    assert why.startswith("no answer from ")
    assert str(point) in why


def test_a_synced_folder_is_kept_as_it_is_and_the_loop_does_not_touch_it(
    runner: FakeRunner, tmp_path: Path
) -> None:
    folder = SyncFolder(str(tmp_path), "proj")
    folder.label("digest")
    folder.close()

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 3", synced=(folder.lock, "digest"))
        assert folder.lock not in {os.path.realpath(f"/proc/self/fd/{fd}") for fd in range(99)}
        assert not SyncFolder(str(tmp_path), "proj").claimed
        r.start()
        yield r.got(frames.DONE)
        yield gone()
        assert SyncFolder(str(tmp_path), "proj").claimed
        r.end()

    assert runner.play(history) == 0
    assert problems(runner) == [[]]
    assert runner.exits() == [(0, 3, False)]


def test_a_file_that_never_answers_is_a_problem(runner: FakeRunner, silent: str) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from waiting(r, silent)
        yield r.skip(LIMIT)
        yield r.got(frames.HELLO)
        yield gone()
        yield from ran(r, "exit 3")
        r.end()

    assert runner.play(history) == 0
    assert runner.names()[:2] == ["WAITS", "HELLO"]
    ((why,), none) = problems(runner)
    assert why.startswith(f"no answer from {silent} for 240 s: repair its file system")
    assert none == []


def test_a_stop_does_not_wait_for_the_file(runner: FakeRunner, silent: str) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from waiting(r, silent)
        yield from stopped(r)
        yield gone()
        r.end()

    assert runner.play(history) == 0
    assert runner.names() == ["HELLO", "DONE"]
    assert problems(runner) == [["the pre-start checks were abandoned"]]


def test_every_job_has_its_hello(runner: FakeRunner, silent: str) -> None:
    """Also one whose checks another JOB has cut short: the runner counts them."""

    def history(r: FakeRunner) -> Steps:
        yield from waiting(r, silent)
        r.job("exit 0")
        yield r.got(frames.HELLO, 2)
        r.end()

    assert runner.play(history) == 0
    assert problems(runner) == [["the pre-start checks were abandoned"], []]


@pytest.mark.parametrize("how", ["end", "leaves"])
def test_the_end_does_not_wait_for_the_file(runner: FakeRunner, silent: str, how: str) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from waiting(r, silent)
        getattr(r, how)()

    assert runner.play(history) == (0 if how == "end" else 75)
    assert runner.names() == []


def test_checks_that_are_killed_are_a_problem(runner: FakeRunner, silent: str) -> None:
    def history(r: FakeRunner) -> Steps:
        yield from waiting(r, silent)
        (child,) = r.session._checks.pids
        os.kill(child, signal.SIGKILL)
        yield r.got(frames.HELLO)
        r.end()

    assert runner.play(history) == 0
    assert problems(runner) == [[f"pre-start checks were killed while checking {silent}"]]


def test_no_room_for_their_process_is_a_problem(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", none)

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 0")
        r.end()

    assert runner.play(history) == 0
    ((why,),) = problems(runner)
    assert why.startswith("cannot start a process for the pre-start checks: ")


def test_what_no_check_has_foreseen_ends_the_session(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the traceback of the child, as any other fault of dsrun."""

    def broken(workdir: bytes) -> str:
        raise ZeroDivisionError(workdir)

    monkeypatch.setattr(preflight, "folder_problem", broken)

    def history(r: FakeRunner) -> Steps:
        yield from prepared(r, "exit 0")

    with pytest.raises(RuntimeError, match=r"in broken\n.*\nZeroDivisionError"):
        runner.play(history)
