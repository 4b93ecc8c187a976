"""Workers that call a function: what they are given, and what is left open here."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from dsrun.launcher.node.workers import calls
from dsrun.launcher.node.workers.spawn import StartingWorkers, WorkerSpec
from dsrun.launcher.specs.program import Program

from ...support.leaks import open_files
from ...support.tasks import program_task

PAYLOAD = base64.b64encode(b"what to call").decode()
SPECS = [WorkerSpec(rank, [b"python", b"call.py"], {}, b"/", fds=(9,)) for rank in (4, 5)]


def starting(payload: str, ours: list[int]) -> StartingWorkers:
    return StartingWorkers(program_task(payload=payload), kept=lambda: ours)


def test_each_worker_has_the_payload_and_a_pipe_of_its_own() -> None:
    before = open_files()
    ours: list[int] = []
    with calls.outfit(SPECS, starting(PAYLOAD, ours)) as given:
        for old, spec in zip(SPECS, given, strict=True):
            source, sink = map(int, spec.argv[2:])
            assert spec.fds == (9, source, sink)
            assert spec.argv[:2] == old.argv
            assert not os.get_inheritable(source), "only to the workers that are given it"
            assert os.pread(source, 100, 0) == b"what to call"
            with pytest.raises(PermissionError):
                os.pwrite(source, b"x", 0)
            os.write(sink, b"%d" % spec.rank)
            ours.append(spec.report)
            assert not os.get_blocking(spec.report)
    assert [os.read(fd, 10) for fd in ours] == [b"4", b"5"]
    assert [os.read(fd, 10) for fd in ours] == [b"", b""]
    for fd in ours:
        os.close(fd)
    assert open_files() == before


def test_after_a_failed_start_nothing_stays_open() -> None:
    before = open_files()
    ours: list[int] = []

    def fail() -> None:
        with calls.outfit(SPECS, starting(PAYLOAD, ours)) as given:
            ours.append(given[0].report)
            raise OSError("no")

    with pytest.raises(OSError, match="no"):
        fail()
    os.close(ours[0])
    assert open_files() == before


def test_a_payload_that_is_none() -> None:
    before = open_files()
    with (
        pytest.raises(ValueError, match="the payload is not base64: "),
        calls.outfit(SPECS, starting("Zm9v*", [])),
    ):
        pass
    assert open_files() == before


def test_every_node_runs_its_own_program() -> None:
    sent = Program("/elsewhere/call.py", ("x",), python="python3.11", folder_first=True)
    program = calls.program(sent)
    assert Path(program.script).samefile(calls.CALL)
    assert program.argv("python3.11", 0) == ["python3.11", "-u", calls.CALL]
    assert program.folder_first
