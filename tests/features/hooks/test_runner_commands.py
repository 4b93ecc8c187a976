"""A command for every event: in order, beside the job, and never longer than it may."""

from __future__ import annotations

import json
import os
import resource
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.poll import ready
from dsrun.launcher.features.hooks import runner_commands as commands
from dsrun.launcher.features.hooks.runner_commands import CommandQueue, EventCommands
from dsrun.launcher.head.report.ending import Ending
from dsrun.launcher.head.run.events import JobEnded
from dsrun.launcher.node.machine import processes
from dsrun.launcher.specs.policies import HookPolicy

from ...support.limits import HANG, wait_for
from ...support.reports import report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

WAIT = HANG


def queue(command: str, folder: Path) -> tuple[CommandQueue, list[str]]:
    problems: list[str] = []
    environ = {"PATH": os.environ["PATH"], "FOLDER": str(folder)}
    policy = HookPolicy(on_event=command, folder=str(folder))
    return CommandQueue(policy, environ, lambda text, _level: problems.append(text)), problems


def told(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "all").read_text().splitlines()]


def test_each_value_comes_on_standard_input_one_after_another(tmp_path: Path) -> None:
    one, problems = queue('cat >> "$FOLDER/all"; echo "$DSRUN_EVENT" >> "$FOLDER/names"', tmp_path)
    for number in range(3):
        one.put({"event": f"e{number}", "text": "x" * 200_000})
    one.close(WAIT)
    assert [value["event"] for value in told(tmp_path)] == ["e0", "e1", "e2"]
    assert (tmp_path / "names").read_text() == "e0\ne1\ne2\n"
    assert all(value["time"] > 1e9 and value["left_out"] == 0 for value in told(tmp_path))
    assert problems == []


def test_it_runs_in_the_folder_of_the_command_that_was_given(tmp_path: Path) -> None:
    one, problems = queue("cat > ./all", tmp_path)
    one.put({"event": "start"})
    one.close(WAIT)
    assert [value["event"] for value in told(tmp_path)] == ["start"]
    assert problems == []


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    one, problems = queue("true", tmp_path / "none")
    one.put({"event": "start"})
    one.close(WAIT)
    (problem,) = problems
    assert "no such file" in problem.lower()
    assert "none" in problem


def test_a_command_that_fails_is_named_once_and_the_next_is_run(tmp_path: Path) -> None:
    one, problems = queue('cat >> "$FOLDER/all"; echo no >&2; echo such >&2; exit 3', tmp_path)
    one.put({"event": "start"})
    one.put({"event": "end"})
    one.close(WAIT)
    assert problems == ["--on_event for start: exit code 3: such"]
    assert len(told(tmp_path)) == 2


def test_a_command_that_reads_nothing_and_prints_much_does_not_wait(tmp_path: Path) -> None:
    one, problems = queue("head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero", tmp_path)
    one.put({"event": "start", "text": "x" * 300_000})
    one.close(WAIT)
    assert problems == []


def test_no_room_for_temporary_files_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    one, problems = queue('cat >> "$FOLDER/all"; echo no >&2; exit 3', tmp_path)
    one.put({"event": "start"})
    one.put({"event": "end"})
    one.close(WAIT)
    assert problems == ["--on_event for start: exit code 3: no"]
    assert [value["event"] for value in told(tmp_path)] == ["start", "end"]


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Let this process open only so many more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(int(link.name) for link in Path("/proc/self/fd").iterdir())
    held = [os.open(os.devnull, os.O_RDONLY)]
    while held[-1] < most:
        held.append(os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(held[-1], most) + 1 + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in held:
            os.close(fd)


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_without_descriptors_it_fails_in_one_line_and_the_next_is_tried(
    count: int, tmp_path: Path
) -> None:
    one, problems = queue('cat >> "$FOLDER/all"', tmp_path)
    with descriptors_left(count):
        one.put({"event": "start"})
        wait_for(lambda: problems, "the first to fail")
    one.put({"event": "end"})
    one.close(WAIT)
    assert problems == [f"--on_event for start: cannot start sh in {tmp_path}: too many open files"]
    assert [value["event"] for value in told(tmp_path)] == ["end"]


def test_what_nobody_has_foreseen_is_one_line_too(
    tmp_path: Path, unexpected_faults: list[Exception]
) -> None:
    one, problems = queue('cat >> "$FOLDER/all"', tmp_path)
    one.put({"event": "start\0"})
    one.put({"event": "end"})
    one.close(WAIT)
    traceback, line = problems
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert line == "--on_event for start\0: ValueError: embedded null byte"
    assert [value["event"] for value in told(tmp_path)] == ["end"]
    unexpected_faults.clear()


def test_a_command_that_hangs_is_killed_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / "start", tmp_path / "end"]
    limits: list[float] = []

    def late(fds: list[int], seconds: float) -> list[int]:
        """Let the time be over once the command has said what it has started."""
        file = files[len(limits)]
        wait_for(lambda: file.exists() and file.read_text().endswith("\n"), "its child", WAIT)
        limits.append(seconds)
        return ready(fds, 0.0)

    monkeypatch.setattr(commands, "ready", late)
    one, problems = queue('sleep 600 & echo $! > "$FOLDER/$DSRUN_EVENT"; wait', tmp_path)
    one.put({"event": "start"})
    one.put({"event": "end"})
    one.close(WAIT)
    assert problems == ["--on_event for start: was killed after 30 s"]
    assert limits == [commands.LIMIT] * 2
    pids = [int(file.read_text()) for file in files]
    wait_for(lambda: not any(map(processes.started, pids)), "its children to be gone", WAIT)


def test_the_end_of_the_job_waits_only_a_moment(tmp_path: Path) -> None:
    one, problems = queue('echo > "$FOLDER/began"; sleep 600', tmp_path)
    one.put({"event": "start"})
    one.put({"event": "end"})
    wait_for((tmp_path / "began").exists, "the first to begin", WAIT)
    one.close(0.1)
    assert not one._thread.is_alive()
    assert "some seconds after the job ended, and was killed" in problems[0]


def test_of_too_many_values_the_oldest_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "MOST", 2)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    one, _ = queue('cat >> "$FOLDER/all"; echo > "$FOLDER/began"; cat "$FOLDER/gate"', tmp_path)
    one.put({"event": "0"})
    wait_for((tmp_path / "began").exists, "the first to begin", WAIT)
    for number in range(1, 6):
        one.put({"event": str(number)})
    fd = os.open(gate, os.O_WRONLY)  # it waits for the reader
    gate.unlink()  # before that one goes on, as the next would open it too
    gate.write_text("")
    os.close(fd)
    one.close(WAIT)
    assert [(value["event"], value["left_out"]) for value in told(tmp_path)] == [
        *(("0", 0), ("4", 3), ("5", 0)),
    ]


def test_a_run_has_the_command_run_from_start_to_end(fleet_of: FleetOf, tmp_path: Path) -> None:
    job = fleet_of("n0")
    path = tmp_path / "all"
    run = job.prepare(hooks=HookPolicy(None, f"cat >> {path}"))
    one = EventCommands(run.spec, run.loop, run.log, lambda: run.state.record.began)
    run.observe(one.on_event)
    run.start()
    job.step()
    job.ready(run)
    one.on_event(JobEnded(Ending("job", report())))
    one.close()
    assert [value["event"] for value in told(tmp_path)] == ["start", "end"]
