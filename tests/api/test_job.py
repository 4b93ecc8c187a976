"""A job as the program sees it; the test plays the process that runs it."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import api
from dsrun.launcher.api.errors import JobError, LaunchError, RankError
from dsrun.launcher.api.job import Job
from dsrun.launcher.control import frames
from dsrun.launcher.control.local_client import LocalClient
from dsrun.launcher.features.roles.runner_console import APART

from ..support.interrupting import when_interrupts_are_counted
from ..support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPORT = {
    "job_id": "j1",
    "exit_code": 0,
    "seconds": 1.5,
    "world_size": 1,
    "hosts": ["n0"],
    "cause": "none",
    "failures": [],
    "lost": [],
}
STARTED = {
    "event": "Started",
    "job_id": "j1",
    "world_size": 1,
    "hosts": ["n0"],
    "master": ["n0", 5],
}
EXIT = {
    "event": "Exit",
    "rank": 0,
    "host": "n0",
    "pid": 7,
    "code": 0,
    "stopped": False,
    "hint": "",
}


class FakeService:
    """The process behind a job, played by the test."""

    def __init__(self) -> None:
        ours, self.end = socket.socketpair()
        self.client = LocalClient(ours)
        self.pid = 4711
        self.closed = False
        self.decoder = frames.Decoder()
        self.number = self.client.send({"do": "launch"})
        assert self.asked() == [{"do": "launch", "id": self.number}]

    def close(self) -> None:
        self.closed = True
        self.client.close()

    def asked(self) -> list[dict[str, Any]]:
        """Return the requests that have come, at least one."""
        return [json.loads(body) for _, body in self.decoder.feed(self.end.recv(1 << 16))]

    def says(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.end.sendall(frames.pack_json(frames.EVENT, message))

    def prints(self, rank: int, stream: int, data: bytes) -> None:
        self.end.sendall(frames.pack(frames.CHUNK, frames.output_body(rank, stream, data)))

    def returns(self, rank: int, value: object) -> None:
        body = pickle.dumps(value)
        head = {"state": "returned", "words": "", "text": "", "size": len(body)}
        self.prints(rank, 3, json.dumps(head).encode() + b"\n" + body)

    def answers(self, text: str = "", number: int | None = None, **report: Any) -> None:
        answer = {"ok": True, "report": REPORT | report, "text": text}
        answer["id"] = self.number if number is None else number
        self.end.sendall(frames.pack_json(frames.ANSWER, answer))

    def refuses(self, error: str, code: int) -> None:
        answer = {"ok": False, "error": error, "code": code, "id": self.number}
        self.end.sendall(frames.pack_json(frames.ANSWER, answer))


@pytest.fixture
def service() -> Iterator[FakeService]:
    one = FakeService()
    yield one
    one.close()
    one.end.close()


@pytest.fixture
def job(service: FakeService) -> Job:
    return Job(service, service.number, "j1")


def test_a_job_that_ends_well(
    service: FakeService, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (job.id, job.pid, job.done(), job.report) == ("j1", 4711, False, None)
    assert repr(job) == "<Job j1, running>"
    service.says(STARTED, {"event": "Label", "rank": 0, "text": "n0:0| ", "streams": [1, 2]})
    service.prints(0, 1, b"hello\n")
    service.prints(0, 2, b"half")
    service.says({"event": "Log", "level": "info", "text": "well"})
    service.returns(0, {"loss": 1})
    service.says(EXIT, {"event": "JobEnded", "job_id": "j1", "code": 0}, {"event": "unknown"})
    service.answers()
    report = job.wait()
    assert (report.exit_code, report.seconds, report.hosts) == (0, 1.5, ("n0",))
    assert report == job.wait(0) == job.report
    assert job.results() == {0: {"loss": 1}}
    assert job.exceptions() == {}
    assert job.done()
    assert service.closed
    assert capsys.readouterr() == ("n0:0| hello\n", "dsrun: well\nn0:0| half\n")
    job.stop()
    job.signal(signal.SIGUSR1)
    assert repr(job) == "<Job j1, ended>"


def test_a_job_that_has_not_ended_in_time(service: FakeService, job: Job) -> None:
    with pytest.raises(TimeoutError, match=r"^job j1 has not ended within 0.01 s$"):
        job.wait(0.01)
    service.answers()
    assert job.results(HANG) == {0: None}


def test_a_job_that_cannot_start(service: FakeService, job: Job) -> None:
    service.refuses("n9: no such host", 69)
    for ask in (job.wait, job.results, job.exceptions, lambda: list(job.events())):
        with pytest.raises(LaunchError, match=r"^n9: no such host$") as caught:
            ask()
        assert caught.value.exit_code == 69
    assert job.report is None


@pytest.mark.parametrize("garbage", [b"", b"\xff" * 40, frames.pack(frames.HELLO, b"{}")])
def test_a_process_that_dies_or_is_none(garbage: bytes, service: FakeService, job: Job) -> None:
    service.says(STARTED)
    service.end.sendall(garbage)
    service.end.close()
    with pytest.raises(JobError, match=r"^(the process that ran )?job j1") as caught:
        job.wait()
    assert caught.value.exit_code == 75


def test_a_rank_fails(service: FakeService, job: Job) -> None:
    failure = {
        "rank": 0,
        "local_rank": 0,
        "host": "n0",
        "pid": 7,
        "code": 3,
        "signal": None,
        "exit_code": 3,
        "after_seconds": 0.1,
        "hint": "",
        "stderr": "",
        "stdout": "",
        "message": "",
        "traceback": "",
        "log": "",
        "evidence": [],
    }
    service.says(STARTED, {**EXIT, "code": 3})
    service.answers("dsrun: rank 0 failed", exit_code=3, cause="failure", failures=[failure])
    assert job.wait().failures[0].code == 3
    with pytest.raises(RankError, match=r"^rank 0 on n0 exited with code 3$"):
        job.results()


def test_events_come_in_order_and_those_before_as_well(service: FakeService, job: Job) -> None:
    service.says(STARTED)
    assert not job.done()
    service.prints(0, 1, b"unseen, as nobody asked\n")
    assert not job.done()
    seen = job.events()
    service.prints(0, 2, b"seen\n")
    service.says(EXIT, {"event": "Lost", "host": "n0", "reason": "r", "survived": False})
    service.says({"event": "Round", "number": 2, "restarts": 1, "world_size": 1, "hosts": []})
    service.answers()
    found = list(seen)
    assert found == [
        api.Started("j1", 1, ("n0",), ("n0", 5)),
        api.Output(0, 2, b"seen\n"),
        api.Exit(0, "n0", 7, 0, False, ""),
        api.Lost("n0", "r", False),
        api.Round(2, 1, 1, ()),
        api.Ended(job.wait()),
    ]
    assert [one.text for one in found if isinstance(one, api.Output)] == ["seen\n"]
    again = list(job.events())
    assert again == [one for one in found if not isinstance(one, api.Output)]


@pytest.mark.parametrize("output", [None, list], ids=["dropped", "collected"])
def test_output_may_go_elsewhere(
    output: Any, service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[api.Output] = []
    job = Job(service, service.number, "j1", seen.append if output else None)
    service.says({"event": "Label", "rank": 0, "text": "n0:0| ", "streams": [1, 2]})
    service.prints(0, 1, b"hello\n")
    service.says({"event": "Log", "level": "info", "text": "well"})
    service.answers("a report")
    job.wait()
    assert seen == ([api.Output(0, 1, b"hello\n")] if output else [])
    assert capsys.readouterr() == ("", "")


def test_a_function_for_output_that_raises_loses_nothing(service: FakeService) -> None:
    seen: list[bytes] = []

    def show(output: api.Output) -> None:
        seen.append(output.data)
        if output.data == b"bad\n":
            raise ValueError("no")

    job = Job(service, service.number, "j1", show)
    for data in (b"good\n", b"bad\n", b"more\n"):
        service.prints(0, 1, data)
    service.answers()
    with pytest.raises(ValueError, match="no"):
        job.wait()
    assert job.wait().exit_code == 0
    assert seen == [b"good\n", b"bad\n", b"more\n"]


def test_requests(service: FakeService, job: Job) -> None:
    job.stop()
    job.stop(2.5)
    job.signal(signal.SIGUSR1)
    assert [{**one, "id": 0} for one in service.asked()] == [
        {"do": "stop", "grace": None, "id": 0},
        {"do": "stop", "grace": 2.5, "id": 0},
        {"do": "signal", "number": 10, "id": 0},
    ]
    service.end.close()
    job.stop()


def test_stacks_wait_for_the_ranks_and_for_no_others(service: FakeService) -> None:
    """They are asked for at the socket of the job, which nobody serves here."""
    job = Job(service, service.number, "none-of-this-id", roles=["a", "b"])
    two = {**STARTED, "hosts": ["n0", "n1"], "world_size": 2}
    ranks = {"event": "RanksStarted", "ranks": [0]}

    def starts() -> None:
        service.says({**two, "role": "a"}, {**ranks, "host": "n0", "role": "a"})
        service.says({**STARTED, "role": "b"}, {**ranks, "host": "n0", "role": "b"})

    thread = threading.Thread(target=starts)
    thread.start()
    with pytest.raises(JobError, match="it is not running"):
        job.stacks(role="b")
    assert [getattr(one, "role", None) for one in job._history] == ["a", "b"]
    assert "a" not in job._begun
    thread.join()


@pytest.mark.parametrize(
    ("code", "expected"), [(2, LaunchError), (0, JobError)], ids=["refused", "over"]
)
def test_stacks_of_a_job_that_ends_before_its_ranks_run(
    code: int, expected: type[JobError], service: FakeService, job: Job
) -> None:
    if code:
        service.refuses("no such folder", code)
    else:
        service.answers()
    with pytest.raises(expected) as error:
        job.stacks()
    assert type(error.value) is expected


def test_leaving_the_block_stops_the_job(service: FakeService, job: Job) -> None:
    def serve() -> None:
        assert [one["do"] for one in service.asked()] == ["stop"]
        service.answers(exit_code=143, cause="signal")

    thread = threading.Thread(target=serve)
    with job:
        thread.start()
    thread.join()
    assert job.report is not None
    assert job.report.exit_code == 143


def played(service: FakeService, expected: int) -> Callable[[], None]:
    """Return a thread's work: interrupt this process as often, then end the job."""

    def play() -> None:
        for _ in range(expected):
            os.kill(os.getpid(), signal.SIGINT)
            assert [(one["do"], one["number"]) for one in service.asked()] == [("signal", 2)]
        service.answers(exit_code=130, cause="signal")

    return play


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("ask", ["wait", "events"])
def test_ctrl_c_stops_the_job_and_is_raised_at_its_end(
    ask: str, times: int, service: FakeService, job: Job
) -> None:
    thread = when_interrupts_are_counted(played(service, times))
    with pytest.raises(KeyboardInterrupt):
        job.wait(HANG) if ask == "wait" else next(job.events())
    thread.join()
    assert job.report is not None
    assert job.report.exit_code == 130


def test_a_process_that_does_not_answer_interrupts_is_left(service: FakeService, job: Job) -> None:
    def play() -> None:
        for _ in range(4):
            os.kill(os.getpid(), signal.SIGINT)
            service.asked()

    thread = when_interrupts_are_counted(play)
    with pytest.raises(KeyboardInterrupt):
        job.wait()
    thread.join()
    assert service.closed
    with pytest.raises(JobError, match="left alone, as it did not end when interrupted"):
        job.wait()


def test_a_job_is_awaited_and_its_events_iterated_at_the_same_time(service: FakeService) -> None:
    job = Job(service, service.number, "j1", None)

    async def follow() -> tuple[int, list[api.Event], int]:
        found: list[api.Event] = []

        async def collect() -> None:
            async for event in job.events():
                found.append(event)

        async def tick() -> int:
            for _ in range(3):
                service.says(STARTED)
                await asyncio.sleep(0.01)
            service.answers()
            return 3

        report, _, ticks = await asyncio.gather(job, collect(), tick())
        return report.exit_code, found, ticks

    code, found, ticks = asyncio.run(follow())
    assert (code, ticks, len(found)) == (0, 3, 4)


def test_an_event_comes_at_once_and_not_with_the_next_one(service: FakeService) -> None:
    job = Job(service, service.number, "j1", None)

    async def follow() -> api.Event:
        asyncio.get_running_loop().call_later(0.01, service.says, STARTED)
        return await asyncio.wait_for(anext(job.events()), HANG)

    assert isinstance(asyncio.run(follow()), api.Started)


def test_a_cancelled_wait_leaves_the_job_to_the_block(service: FakeService) -> None:
    job = Job(service, service.number, "j1", None)

    async def follow() -> None:
        async with job:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(job, 0.01)
            service.answers(exit_code=143, cause="signal")

    asyncio.run(follow())
    assert job.report is not None


def test_async_errors(service: FakeService) -> None:
    job = Job(service, service.number, "j1", None)
    service.refuses("no", 2)

    async def follow() -> None:
        with pytest.raises(LaunchError, match="no"):
            await job
        with pytest.raises(LaunchError, match="no"):
            async for _ in job.events():
                pass

    asyncio.run(follow())


PIECES = [b"st", b"ep 1\nst", b"ep 2"]


@pytest.mark.parametrize(("lines", "seen"), [(True, [b"step 1\n", b"step 2"]), (False, PIECES)])
def test_output_comes_in_whole_lines_unless_pieces_are_wanted(
    service: FakeService, lines: bool, seen: list[bytes]
) -> None:
    found: list[bytes] = []
    job = Job(service, service.number, "j1", lambda one: found.append(one.data), lines=lines)
    for data in PIECES:
        service.prints(0, 1, data)
    service.answers()
    job.wait()
    assert found == seen


def test_what_a_rank_has_written_is_there_afterwards(service: FakeService) -> None:
    job = Job(service, service.number, "j1", None)
    for rank, stream, data in (
        (0, 1, b"one\ntw"),
        (0, 2, b"wrong"),
        (1, 1, b"also"),
        (0, 1, b"o"),
    ):
        service.prints(rank, stream, data)
    service.answers()
    job.wait()
    assert (job.stdout(), job.stderr(0), job.stdout(1)) == ("one\ntwo", "wrong", "also")


def test_ranks_of_roles_are_told_apart(
    service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(service, service.number, "j1", roles=("server", "trainer"))
    for role, size in (("server", 1), ("trainer", 2)):
        service.says({**STARTED, "world_size": size, "role": role})
    service.says({"event": "Label", "rank": APART + 1, "text": "trainer/n0:1| ", "streams": [1]})
    service.prints(0, 1, b"serves")
    service.prints(APART + 1, 1, b"hel")
    service.says({**STARTED, "role": "server"})  # again: its first line has no end
    service.prints(APART + 1, 1, b"lo\n")
    service.returns(APART + 1, 7)
    service.answers(roles={}, role=None)
    seen = [one for one in job.events() if isinstance(one, api.Output)]
    assert seen == [
        api.Output(0, 1, b"serves", "server"),
        api.Output(1, 1, b"hello\n", "trainer"),
    ]
    assert (job.stdout(1, "trainer"), job.stdout(0, "server")) == ("hello\n", "serves")
    assert capsys.readouterr().out == "trainer/n0:1| hello\n"
    with pytest.raises(KeyError, match="job j1: its roles are server, trainer"):
        job.stdout(0)
