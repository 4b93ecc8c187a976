"""When a run opens its services, what they are told, and that all of it reaches one of a test."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.node.run import run
from dsrun.launcher.node.service import NodeService, NodeServices, OpeningTime, ServiceDoor
from dsrun.launcher.node.workers.spawn import Process
from dsrun.launcher.specs.program import Program

from ..support.clock import Clock
from ..support.played_run import Played
from ..support.services import START, group, service_context
from ..support.specs import shell
from ..support.tasks import program_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dsrun.launcher.control.messages import Start
    from dsrun.launcher.node.workers.group import WorkerGroup
    from dsrun.launcher.node.workers.spawn import WorkerSpec

HEARD: list[Any] = []
"""What services of this test have heard."""


@pytest.fixture(autouse=True)
def heard() -> list[Any]:
    HEARD.clear()
    return HEARD


class Recorder(NodeService):
    """A service that takes part in everything."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        HEARD.append("open")

    @property
    def pids(self) -> list[int]:
        return [4711]

    def hello_fields(self) -> dict[str, str]:
        HEARD.append("hello")
        return {"hostname": "recorded"}

    def store_opened(self) -> None:
        HEARD.append("store_opened")

    @contextmanager
    def outfit(
        self, specs: Sequence[WorkerSpec], start: Start, /
    ) -> Iterator[Sequence[WorkerSpec]]:
        HEARD.append(("outfit", start.generation))
        yield [one._replace(env={**one.env, b"RECORDED": b"yes"}) for one in specs]
        HEARD.append("outfitted")

    def started(self, start: Start, group: WorkerGroup, /) -> None:
        HEARD.append(("started", start.first_rank, len(group.processes)))

    def exited(self, process: Process, /) -> None:
        HEARD.append(("exited", process.spec.rank))

    def evidence(self, _process: Process, _code: int, /) -> tuple[str, str]:
        return "because", "seen here"

    def receive(self, body: bytes) -> None:
        HEARD.append(("receive", body))

    def abandoned(self) -> None:
        HEARD.append("abandoned")

    def close(self) -> None:
        HEARD.append("close")


class Second(Recorder):
    """Another one that knows of causes."""

    def evidence(self, _process: Process, _code: int, /) -> tuple[str, str]:
        return "no, because", "and there"


class Broken(NodeService):
    """One that fails in all that it is told."""

    @property
    def pids(self) -> list[int]:
        return [self.fail()]

    def fail(self, *_told: Any) -> Any:
        HEARD.append("failed")
        raise KeyError("x")

    hello_fields = store_opened = started = exited = evidence = abandoned = close = fail

    def receive(self, body: bytes) -> None:
        self.fail(body)


class Silent(NodeService):
    """One that nothing concerns."""


def row(
    time: OpeningTime, name: str = "Recorder", frame: int | None = None, **more: Any
) -> ServiceDoor:
    return ServiceDoor(f"{__name__}:{name}", time, frame=frame, **more)


def services(*rows: ServiceDoor, clock: Clock | None = None) -> NodeServices:
    return NodeServices(service_context(clock.loop if clock else None), rows)


WORKER = Process(shell("", 3), 1, -1, -1, -1)


def test_a_service_takes_part_in_a_whole_run(
    heard: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (row(OpeningTime.HELLO, frame=frames.PROBE), row(OpeningTime.START, "Silent"))
    monkeypatch.setattr(run, "SERVICES", rows)
    script = 'echo "$RECORDED"; read -r line; exit 3'
    program = Program("/bin/sh", ("-c", script), no_python=True, local_rank=False)
    played = Played(program_task(program, stdin=True))
    assert played.run.hello().hostname == "recorded"
    played.run.receive(frames.PROBE, b"who?")
    played.run.receive(frames.REACH, b"nobody")
    played.run.open_to_store()
    played.run.start(START._replace(generation=2))
    played.prints("yes")
    played.run.receive(frames.INPUT, b"on\n")
    played.done()
    signal.set_wakeup_fd(-1)
    (ended,) = played.all(frames.EXIT)
    assert (ended["hint"], ended["evidence"]) == ("because", "seen here")
    assert heard == [
        *("open", "hello", ("receive", b"who?"), "store_opened"),
        *(("outfit", 2), "outfitted", ("started", 0, 1), ("exited", 0), "close"),
    ]


@pytest.mark.parametrize("time", OpeningTime)
def test_a_service_is_opened_when_it_is_due(heard: list[Any], time: OpeningTime) -> None:
    one = services(row(time), row(time, "Second", applies=lambda _: False))
    opened = []
    one.hello_fields()
    opened.append("open" in heard)
    one.store_opened()
    for _ in range(2):
        with one.outfitted([], START):
            opened.append("open" in heard)
        one.started(START, group())
        opened.append("open" in heard)
    assert (
        opened
        == {
            OpeningTime.HELLO: [True, True, True, True, True],
            OpeningTime.START: [False, True, True, True, True],
            OpeningTime.STARTED: [False, False, True, True, True],
            OpeningTime.EACH_START: [False, False, True, True, True],
            OpeningTime.FRAME: [False] * 5,
        }[time]
    )
    assert heard.count("open") == {OpeningTime.EACH_START: 2, OpeningTime.FRAME: 0}.get(time, 1)
    assert heard.count(("started", 0, 0)) == 2 * (time is not OpeningTime.FRAME)
    assert one.pids == ({4711} if heard else set())


def test_another_start_closes_the_former_service_before(heard: list[Any]) -> None:
    one = services(row(OpeningTime.EACH_START))
    one.started(START, group())
    one.started(START._replace(first_rank=1), group())
    one.close()
    one.close()
    assert heard == ["open", ("started", 0, 0), "close", "open", ("started", 1, 0), "close"]


def test_a_service_may_wait_after_a_start(heard: list[Any]) -> None:
    clock = Clock()
    one = services(row(OpeningTime.EACH_START, delay=lambda _: 5.0), clock=clock)
    one.started(START, group())
    clock.go(4.0)
    one.started(START._replace(first_rank=1), group())
    clock.go(4.0)
    assert heard == []
    clock.go(1.0)
    assert heard == ["open", ("started", 1, 0)]
    one.started(START, group())
    one.close()
    clock.go(9.0)
    assert heard == ["open", ("started", 1, 0), "close"]


@pytest.mark.parametrize("time", OpeningTime)
def test_a_frame_opens_its_service_in_any_job(heard: list[Any], time: OpeningTime) -> None:
    one = services(row(time, applies=lambda _: False, frame=frames.REACH))
    for kind in (frames.PROBE, frames.REACH, frames.REACH):
        one.receive(kind, b"x")
    assert heard == ["open", ("receive", b"x"), ("receive", b"x")]


def test_the_first_cause_is_believed_and_all_evidence_is_kept() -> None:
    start = OpeningTime.START
    one = services(row(start, "Silent"), row(start), row(start, "Second"))
    assert one.evidence(WORKER, 1) == ("", "")
    with one.outfitted([], START):
        pass
    assert one.evidence(WORKER, 1) == ("because", "seen here\nand there")


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (lambda one: one.hello_fields(), {"hostname": "recorded"}),
        (lambda one: one.pids, {4711}),
        (lambda one: one.store_opened(), None),
        (lambda one: one.started(START, group()), None),
        (lambda one: one.exited(WORKER), None),
        (lambda one: one.evidence(WORKER, 1), ("because", "seen here")),
        (lambda one: one.receive(frames.PROBE, b""), None),
        (lambda one: one.abandoned(), None),
    ],
)
def test_the_others_go_on_without_a_service_that_fails(
    event: Callable[[NodeServices], object], told: object, unexpected_faults: list[Exception]
) -> None:
    notes: list[str] = []
    start = OpeningTime.START
    rows = row(start, "Broken", frames.PROBE), row(start, frame=frames.PROBE)
    one = NodeServices(service_context(note=notes.append), rows)
    with one.outfitted([], START):
        pass
    assert event(one) == told
    assert one.evidence(WORKER, 1) == ("because", "seen here")
    assert notes == [f"this is a bug in dsrun: going on without {__name__}:Broken: KeyError: 'x'"]
    unexpected_faults.clear()


def test_the_loss_of_the_runner_is_told(heard: list[Any]) -> None:
    one = services(row(OpeningTime.HELLO))
    one.hello_fields()
    one.abandoned()
    assert heard == ["open", "hello", "abandoned"]


def test_a_service_that_nothing_concerns_changes_nothing() -> None:
    one = services(row(OpeningTime.HELLO, "Silent", frame=frames.PROBE))
    assert one.hello_fields() == {}
    with one.outfitted([shell("exit 0", 3)], START) as specs:
        assert specs == [shell("exit 0", 3)]
    one.receive(frames.PROBE, b"")
    one.started(START, group())
    one.store_opened()
    one.abandoned()
    assert (one.evidence(WORKER, 0), one.pids) == (("", ""), set())
    one.close()
