"""Services of a run on a node, each opened once the run needs it."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext, suppress
from enum import Enum
from functools import partial
from itertools import chain

from ..common.entry import load
from ..common.records import NamedTuple
from ..common.unexpected import unexpected
from ..control.frames import BadFrame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, TypeVar

    from ..common.loop import Loop, Timer
    from ..control.messages import NodeJob, Start
    from .workers.group import WorkerGroup
    from .workers.prepare import NodeSetup
    from .workers.spawn import Process, WorkerSpec
    from .workers.worker_specs import WorkerSpecs

    T = TypeVar("T")


class OpeningTime(Enum):
    """The time at which a service is opened, unless its first frame arrives earlier."""

    HELLO = "before HELLO"
    START = "before the first start of workers"
    STARTED = "after the first start of workers"
    EACH_START = "after each start of workers, in place of the former one"
    FRAME = "with its first frame"


class ServiceContext(NamedTuple):
    """The part of a run that its services may use.

    Attributes:
        loop: the loop of this node launcher.
        setup: the task on this node.
        specs: makes the specs of the workers.
        send: sends a frame to the runner.
        note: shows the user a line.
        stop: stops the workers, for a reason that is shown to the user.
    """

    loop: Loop
    setup: NodeSetup
    specs: WorkerSpecs
    send: Callable[[bytes], None]
    note: Callable[[str], None]
    stop: Callable[[str], None]


class NodeService:
    """The base of all services; a subclass overrides the methods for events that concern it.

    Attributes:
        context: its access to the run.
    """

    def __init__(self, context: ServiceContext) -> None:
        self.context = context

    @property
    def pids(self) -> Collection[int]:
        """Its children, which are not workers."""
        return ()

    def hello_fields(self) -> Mapping[str, Any]:
        """Return its fields of HELLO by name."""
        return {}

    def store_opened(self) -> None:
        """Handle the release of the master port to the store of rank 0."""

    def outfit(
        self, specs: Sequence[WorkerSpec], _start: Start, /
    ) -> AbstractContextManager[Sequence[WorkerSpec]]:
        """Return a context of new specs, in which workers start."""
        return nullcontext(specs)

    def started(self, start: Start, group: WorkerGroup, /) -> None:
        """Handle the start of workers."""

    def exited(self, process: Process, /) -> None:
        """Handle the end of a worker."""

    def evidence(self, _process: Process, _code: int, /) -> tuple[str, str]:
        """Return the cause of a worker's end in a few words, and the evidence in lines.

        Each is "" if unknown; the code is minus the number of a signal.
        """
        return "", ""

    def receive(self, body: bytes) -> None:
        """Handle a frame of its kind.

        Raises:
            BadFrame: the frame is invalid in this run.
        """

    def abandoned(self) -> None:
        """Handle the loss of the runner."""

    def close(self) -> None:
        """Close all that is open; a second call does nothing."""


class ServiceDoor(NamedTuple):
    """One service of a run, as a row of `node.doors`.

    Attributes:
        name: the module, relative to `features/`, and the name of a subclass of `NodeService`.
        time: the time at which it is opened, if it applies.
        applies: returns whether a job has it.
        frame: the kind of frames that it receives, if any; the first one opens it in any job.
        delay: returns the seconds from a start of workers until it is opened.
    """

    name: str
    time: OpeningTime
    applies: Callable[[NodeJob], bool] = lambda _: True
    frame: int | None = None
    delay: Callable[[NodeJob], float] = lambda _: 0.0

    def open(self, context: ServiceContext) -> NodeService:
        """Open the service."""
        service: NodeService = load(self.name)(context)
        return service


class NodeServices:
    """The services of one run, which get each event in the order of their rows."""

    def __init__(self, context: ServiceContext, rows: Sequence[ServiceDoor]) -> None:
        self._context, self._rows = context, rows
        self._task = context.setup.task
        self._opened: dict[str, NodeService] = {}
        self._timers: dict[str, Timer] = {}

    def _tell(self, row: ServiceDoor, call: Callable[[NodeService], T]) -> list[T]:
        """Call a function with a service; return its result, or [] after closing one that fails.

        This is a boundary: if a service fails, its run goes on without it.

        Raises:
            BadFrame: the service has refused a frame.
        """
        try:
            return [call(self._open(row))]
        except BadFrame:
            raise
        except Exception as error:
            with suppress(Exception):
                self._close(row.name)
            why = unexpected(error)
            self._context.note(f"this is a bug in dsrun: going on without {row.name}: {why}")
            return []

    def _each(self, call: Callable[[NodeService], T]) -> list[T]:
        """Call a function with each open service in turn; return the results."""
        opened = [row for row in self._rows if row.name in self._opened]
        return [one for row in opened for one in self._tell(row, call)]

    @property
    def pids(self) -> set[int]:
        """Their children."""
        return {pid for pids in self._each(lambda one: one.pids) for pid in pids}

    def hello_fields(self) -> dict[str, Any]:
        """Return their fields of HELLO by name."""
        self._open_all(OpeningTime.HELLO)
        return dict(chain.from_iterable(self._each(lambda one: one.hello_fields().items())))

    def store_opened(self) -> None:
        """Tell them that the master port was released to the store of rank 0."""
        self._each(lambda one: one.store_opened())

    @contextmanager
    def outfitted(
        self, specs: Sequence[WorkerSpec], start: Start
    ) -> Iterator[Sequence[WorkerSpec]]:
        """Return a context of the specs of workers with the changes of all services.

        Raises:
            OSError: there are too few descriptors.
        """
        self._open_all(OpeningTime.START)
        with ExitStack() as stack:
            for one in self._each(lambda one: one):
                specs = stack.enter_context(one.outfit(specs, start))
            yield specs

    def started(self, start: Start, group: WorkerGroup) -> None:
        """Tell them of workers that have been started, and open those that are due then."""
        for row in self._rows:
            if row.time is OpeningTime.EACH_START:
                self._close(row.name)
            begin: Callable[[], Any] = partial(
                self._tell, row, lambda one: one.started(start, group)
            )
            due = row.time in {OpeningTime.STARTED, OpeningTime.EACH_START}
            if due and row.applies(self._task):
                if seconds := row.delay(self._task):
                    self._timers[row.name] = self._context.loop.call_later(seconds, begin)
                else:
                    begin()
            elif row.name in self._opened:
                begin()

    def exited(self, process: Process) -> None:
        """Tell them of the end of a worker."""
        self._each(lambda one: one.exited(process))

    def evidence(self, process: Process, code: int) -> tuple[str, str]:
        """Return the first cause of a worker's end that they know, and all evidence."""
        found = self._each(lambda one: one.evidence(process, code))
        causes = (cause for cause, _ in found if cause)
        return next(causes, ""), "\n".join(lines for _, lines in found if lines)

    def receive(self, kind: int, body: bytes) -> None:
        """Pass a frame on to its service; ignore one that belongs to none.

        Raises:
            BadFrame: the frame is invalid in this run.
        """
        for row in self._rows:
            if row.frame == kind:
                self._tell(row, lambda one: one.receive(body))

    def abandoned(self) -> None:
        """Tell them that the runner is lost."""
        self._each(lambda one: one.abandoned())

    def close(self) -> None:
        """Close them all."""
        for row in self._rows:
            self._close(row.name)

    def _open_all(self, time: OpeningTime) -> None:
        for row in self._rows:
            if row.time is time and row.applies(self._task):
                self._tell(row, lambda one: one)

    def _open(self, row: ServiceDoor) -> NodeService:
        if row.name not in self._opened:
            self._opened[row.name] = row.open(self._context)
        return self._opened[row.name]

    def _close(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()
        if service := self._opened.pop(name, None):
            service.close()
