"""What is made of py-spy, and of what stands in its place."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.features.stacks import node_py_spy as py_spy
from dsrun.launcher.features.stacks.messages import ThreadStack
from dsrun.launcher.features.stacks.node_family import Member
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec

from ...support.clock import Pauses
from ...support.limits import HANG, wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("adopting")

FOUND = """[{"thread_name": null, "os_thread_id": 5, "active": false, "owns_gil": true, "frames": [
  {"name": "pause", "filename": "", "module": "/lib/libc.so.6", "line": 0},
  {"name": "step", "filename": "/w/train.py", "module": null, "line": 7},
  {"name": "<shim>", "filename": "x", "module": null, "line": 0}]}]"""

THREAD = ThreadStack(5, "", True, True, ("pause (libc.so.6)", "step (/w/train.py:7)", "<shim> (x)"))


def member(pid: int, state: str = "S") -> Member:
    return Member(0, pid, 1, "python", state, "", python=True, tracer=0)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "py-spy"


def write(program: Path, text: str) -> bytes:
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return os.fsencode(program)


def read(program: bytes, *members: Member, until: float | None = None) -> dict[int, py_spy.Reading]:
    pairs = [(one, program) for one in members]
    found = py_spy.read(pairs, native=True, until=until or time.monotonic() + HANG)
    while True:
        try:
            os.waitpid(-1, 0)  # killed ones are left to the caller's end
        except ChildProcessError:
            return found


def test_threads_are_read(program: Path) -> None:
    script = f'[ "$*" = "dump --json --pid 5 --native" ] && cat <<E\n{FOUND}\nE'
    assert read(write(program, script), member(5)) == {5: py_spy.Reading((THREAD,), "py-spy")}


def test_a_process_in_d_state_is_never_stopped(program: Path) -> None:
    script = f'[ "$*" = "dump --json --pid 5 --nonblocking" ] && cat <<E\n{FOUND}\nE'
    assert read(write(program, script), member(5, "D"))[5].threads == (THREAD,)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo Error: no Python >&2; echo more >&2", "py-spy: no Python"),
        ("echo Permission Denied: try sudo >&2", "py-spy is not allowed to read it (ptrace)"),
        ("kill -9 $$", "py-spy: it was killed"),
        ("echo '[{}]'", "py-spy: it was killed"),
        ("echo 5", "py-spy: it was killed"),
    ],
)
def test_why_there_are_none(program: Path, script: str, problem: str) -> None:
    assert read(write(program, script), member(5))[5] == py_spy.Reading(problem=problem)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo Error: Failed to find python version from target process >&2", py_spy.NO_PYTHON),
        ("echo Permission Denied: try sudo >&2", "py-spy is not allowed to read it (ptrace)"),
        ("kill -9 $$", "py-spy: it was killed"),
    ],
)
def test_a_program_that_is_not_python_is_said_to_be_none(
    program: Path, script: str, problem: str
) -> None:
    shell = member(5)._replace(command="sh", python=False)
    assert read(write(program, script), shell)[5] == py_spy.Reading(problem=problem)


def test_a_program_that_cannot_be_started(program: Path) -> None:
    program.write_text("#!/none\n")
    found = read(os.fsencode(program), member(5))[5]
    assert found.problem.startswith("py-spy was not started: ")


def test_what_hangs_does_not_keep_the_others(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but those that hang are read; none of those that wait for a place is forgotten."""
    hangs = write(program, f'case "$4" in 5) cat <<E\n{FOUND}\nE\n;; *) exec sleep 600;; esac')
    many = [member(pid) for pid in (5, *range(100, 100 + py_spy.AT_ONCE + 1))]
    clock, run = Pauses(), py_spy._Running
    late = clock.now + HANG

    def running(one: Member, program: bytes, *, native: bool) -> py_spy._Running:
        """The last one that gets a place, that of the one that was read, uses up the time."""
        if one is many[-2]:
            clock.now = late
        return run(one, program, native=native)

    monkeypatch.setattr(system, "monotonic", clock.monotonic)
    monkeypatch.setattr(py_spy, "_Running", running)
    found = read(hangs, *many, until=late)
    assert found.keys() == {one.pid for one in many}
    assert found[5].threads
    problems = [found[one.pid].problem for one in many[1:]]
    assert problems[:-1] == ["py-spy did not answer in time"] * py_spy.AT_ONCE
    assert problems[-1] == "no time was left for it"


def test_a_process_that_was_being_read_goes_on(program: Path) -> None:
    """To read native frames py-spy stops it; the time is over before it has let it go on."""
    stops = write(program, 'kill -STOP "$4"; exec sleep 600')
    with subprocess.Popen(["sleep", "600"]) as target:
        one = member(target.pid)._replace(parent=os.getpid())
        found = py_spy.read([(one, stops)], native=True, until=time.monotonic() + 0.3)
        assert found[target.pid].problem == "py-spy did not answer in time"
        wait_for(lambda: processes.stat(target.pid)[0] == "S", "the process to go on")
        target.kill()


def test_it_is_found_on_our_path_or_beside_a_python_that_dsrun_chose(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not beside another program of a worker's, nor on a worker's PATH: it may be another's."""

    def found(argv: str, path: str = "/none", python: str = "") -> bytes:
        env = {b"PATH": path.encode()}
        spec = WorkerSpec(0, [argv.encode()], env, os.fsencode(tmp_path), python=python.encode())
        return py_spy.find(Process(spec, 5, -1, -1, -1))

    here, elsewhere = write(program, ""), tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/none::.:")
    monkeypatch.setattr(sys, "executable", "/none/python3")
    assert found(f"{tmp_path}/run.sh") == b""
    assert found("run.sh", f"{tmp_path}:") == b""
    assert found(f"{tmp_path}/python3", python=f"{tmp_path}/python3") == here
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/python3")
    assert found("/none/run.sh") == here
    monkeypatch.setenv("PATH", f"/none:{elsewhere}")
    assert found("/none/run.sh") == here
    on_path = write(elsewhere / "py-spy", "")
    assert found("/none/run.sh") == on_path
