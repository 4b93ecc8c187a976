"""Those who wait for the end of a job: each is told, and none of them holds anything up."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames, local
from dsrun.launcher.features.jobs.runner_waiters import MOST
from dsrun.launcher.head.report.ending import Ending

from ...support.asked_run import AskedRun
from ...support.leaks import open_files
from ...support.limits import wait_for
from ...support.local_control import ended, request
from ...support.reports import failure, report

if TYPE_CHECKING:
    from collections.abc import Callable

    AskedOf = Callable[..., AskedRun]

WAITS = [(frames.EVENT, {"event": "Waiting"})]


def wait(job: AskedRun, fd: int) -> tuple[socket.socket, list[tuple[int, Any]]]:
    """Wait for the end of a job, with this file; return the connection and the first answer."""
    line = job.call()
    socket.send_fds(line, [request(id=1, do="wait", fds=1)], [fd])
    return line, job.got(line)


def told(fd: int) -> Any:
    """What has been written for one that waits."""
    os.lseek(fd, 0, os.SEEK_SET)
    with open(fd, "rb") as file:
        return json.load(file)


def test_the_end_is_told_with_words_report_and_code(asked: AskedOf) -> None:
    job, fd = asked("n0"), os.memfd_create("report")
    line, got = wait(job, fd)
    assert got == WAITS
    ending = Ending("j", report(failures=(failure(),)))
    job.socket.tell(ending)
    assert job.got(line) == [(frames.ANSWER, {"ok": True, "code": 7, "id": 1})]
    assert ended(line)
    assert told(fd) == json.loads(json.dumps({"text": ending.text, "report": ending.data}))


def test_the_name_is_free_before_the_end_is_told(asked: AskedOf) -> None:
    """All others are gone by then, and one that waits can ask for nothing else."""
    job, fd = asked("n0"), os.memfd_create("report")
    other = job.call()
    job.ask(other, do="status")
    line, _ = wait(job, fd)
    job.socket.close()
    assert ended(other)
    local.listener(local.JOB, job.run.spec.job_id).close()
    ((_, answer),) = job.ask(line, do="stop", number=15)
    assert not answer["ok"]
    job.socket.tell(Ending("j", report()))
    assert job.got(line)[-1][1]["code"] == 0
    assert told(fd)["text"] == ""


def test_a_report_of_any_length_is_there_at_once(asked: AskedOf) -> None:
    job, fd = asked("n0"), os.memfd_create("report")
    line, _ = wait(job, fd)
    job.socket.tell(Ending("j", report(failures=(failure(stderr="x" * (8 << 20)),))))
    assert job.got(line)[-1][1]["code"] == 7
    assert len(told(fd)["report"]["failures"][0]["stderr"]) == 8 << 20


def test_one_that_is_gone_leaves_nothing(asked: AskedOf) -> None:
    job = asked("n0")
    job.ask(do="status")  # what serves is there
    before = open_files()
    for _ in range(3):
        fd = os.memfd_create("report")
        line, _ = wait(job, fd)
        line.close()
        os.close(fd)

        def is_forgotten() -> bool:
            job.fleet.step()
            return open_files() == before

        wait_for(is_forgotten, "the end of what it had opened")
    job.socket.tell(Ending("j", report()))


def test_one_that_cannot_be_told_is_left_out(asked: AskedOf) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    nothing, theirs = os.pipe()
    job, fd = asked("n0"), os.memfd_create("report")
    for wrong in (full, theirs):
        _, ((_, refused),) = wait(job, wrong)
        assert refused["error"] == "invalid request: expected a file for the report"
    assert "expected a file" in job.error(do="wait")
    read_only = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    line, _ = wait(job, read_only)
    other, _ = wait(job, fd)
    job.socket.tell(Ending("j", report()))
    assert ended(line)
    assert job.got(other)[-1][1]["code"] == 0
    for one in (full, nothing, theirs, read_only, fd):
        os.close(one)


def test_there_is_room_for_others_who_ask(asked: AskedOf) -> None:
    job, fd = asked("n0"), os.memfd_create("report")
    got = [wait(job, fd)[1] for _ in range(MOST + 1)]
    assert got[:-1] == [WAITS] * MOST
    assert got[-1][0][1]["error"] == "48 others already wait for its end; try again later"
    assert job.answer(do="status")["ok"]
    os.close(fd)


@pytest.mark.parametrize("asks", [True, False])
def test_nobody_need_wait(asked: AskedOf, *, asks: bool) -> None:
    job = asked("n0")
    if asks:
        job.ask(do="status")
    job.socket.close()
    job.socket.tell(Ending("j", report()))
