"""The stacks of workers, read in a child of the node launcher: reading may block."""

from __future__ import annotations

import json
import os
import time

from ...common import system
from ...common.records import NamedTuple
from ...node.workers import error_file
from . import node_faults as faults
from . import node_file_locks as file_locks
from . import node_flight as flight
from . import node_network as network
from . import node_py_spy as py_spy
from .messages import ProcessState, StacksAnswer, ThreadStack
from .node_family import families
from .node_py_spy import Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ...node.workers.spawn import Process
    from .messages import NetworkUse, ProcessState, StacksAnswer, StacksAsk, ThreadStack
    from .node_family import Member


def answer(ask: StacksAsk, workers: Sequence[Process], seconds: float) -> StacksAnswer:
    """Return the stacks of these workers that can be read within this number of seconds."""
    until = system.monotonic() + seconds
    for _ in range(3):  # nothing is open here, and no pipe must be a standard stream
        system.open_fd(os.devnull, os.O_RDWR)
    members = families([(one.spec.rank, one.pid) for one in workers], children=ask.children)
    halted = {one.pid for one in members if one.state in HALTED}
    able = [one for one in workers if one.pid not in halted]
    asked = flight.ask(able) if ask.collectives else {}
    uses = _network(workers, members)
    readings, holders = _read(ask, workers, members, until), file_locks.holders()
    records = flight.records(workers, asked, until) if ask.collectives else {}
    readings |= _told(workers, members, readings, flight.main_threads(records))
    stacks = StacksAnswer(
        processes=tuple(
            _state(one, readings[one.pid])._replace(holder=holders.get(one.pid, 0))
            for one in members
        ),
        threads=tuple(thread for one in members for thread in readings[one.pid].threads),
        collectives=flight.collectives(records),
        network=uses,
    )
    if ask.save:
        stacks = stacks._replace(saved=save(stacks, workers))
    return fitting(stacks)


def states(workers: Sequence[Process], problem: str) -> StacksAnswer:
    """Return the states of the workers alone, and why there is nothing more."""
    members = families([(one.spec.rank, one.pid) for one in workers], children=False)
    rows = tuple(_state(one, Reading(problem=problem)) for one in members)
    return StacksAnswer(rows, (), ())


def _state(member: Member, reading: Reading) -> ProcessState:
    return ProcessState(*member[:6], source=reading.source, problem=reading.problem)


def _network(workers: Sequence[Process], members: Sequence[Member]) -> tuple[NetworkUse, ...]:
    """Return the network use of those processes that run Python."""
    known = network.sockets()
    ports = {one.spec.rank: one.spec.env.get(b"MASTER_PORT", b"") for one in workers}
    stores = {rank: int(port) if port.isdigit() else 0 for rank, port in ports.items()}
    pids = {one.pid for one in workers}
    able = [one for one in members if not _obstacle(one, pids)]
    return tuple(network.use(one.rank, one.pid, known, stores[one.rank]) for one in able)


def _read(
    ask: StacksAsk, workers: Sequence[Process], members: Sequence[Member], until: float
) -> dict[int, Reading]:
    programs = {one.spec.rank: py_spy.find(one) for one in workers}
    pids = {one.pid for one in workers}
    readings = {one.pid: Reading(problem=_obstacle(one, pids)) for one in members}
    free = [one for one in members if not readings[one.pid].problem]
    readings |= {one.pid: MISSING for one in free}
    if not ask.native:  # native code only py-spy can read
        readings |= _written((one for one in free if faults.goes_first(one.pid)), until)
    able = [one for one in free if programs[one.rank] and readings[one.pid].problem]
    readings |= py_spy.read(
        [(one, programs[one.rank]) for one in able], native=ask.native, until=until
    )
    return readings | _written((one for one in free if readings[one.pid].problem), until)


def _written(members: Iterable[Member], until: float) -> dict[int, Reading]:
    """Return the stacks that some of these processes can write themselves."""
    able = [one for one in members if one.state in ANSWERS]
    return {
        pid: Reading(threads, "faulthandler") for pid, threads in faults.read(able, until).items()
    }


def _told(
    workers: Sequence[Process],
    members: Sequence[Member],
    readings: Mapping[int, Reading],
    frames: Mapping[int, tuple[str, ...]],
) -> dict[int, Reading]:
    """Return the main threads' stacks reported by workers, where no reader succeeded.

    Without py-spy, this covers running processes, such as those waiting for a CUDA kernel.
    """
    pids = {one.pid for one in workers}
    able = [one for one in members if one.pid in pids and not _obstacle(one, pids)]
    return {
        one.pid: Reading((_main_thread(one, frames[one.rank]),), "worker")
        for one in able
        if one.rank in frames and readings[one.pid].problem
    }


def _main_thread(member: Member, frames: tuple[str, ...]) -> ThreadStack:
    return ThreadStack(member.pid, "MainThread", True, member.state == "R", frames)


HALTED = frozenset("TtZX")
"""States in which no thread of a process runs, or could answer."""

ANSWERS = frozenset("RS")
"""States in which a process can handle a signal."""

MISSING = Reading(problem="py-spy is not installed on this node (pip install py-spy)")


def _obstacle(member: Member, workers: set[int]) -> str:
    """Return why the stacks of a process must not be read, "" if they may be."""
    if member.tracer:
        return f"pid {member.tracer}, such as a debugger, traces it"
    if member.state in "ZX":
        return "it has ended"
    if not member.python and member.pid not in workers:
        return py_spy.NO_PYTHON
    return ""


LARGEST = 900_000
"""Bytes of an answer, at most."""


class Limits(NamedTuple):
    """Most frames of a thread, and most threads of a process."""

    frames: int
    threads: int


STEPS = (Limits(150, 300), Limits(80, 60), Limits(40, 20), Limits(20, 6), Limits(10, 1))
"""The limits, in order: the first that makes an answer small enough is used, else the last."""


def fitting(stacks: StacksAnswer) -> StacksAnswer:
    """Return stacks small enough to be sent; omissions are marked."""
    for limits in STEPS:
        cut = _cut(stacks, limits)
        if len(json.dumps(cut)) <= LARGEST:
            return cut
    workers = {row.rank: row.pid for row in reversed(cut.processes)}  # these come first
    return cut._replace(
        processes=tuple(row for row in cut.processes if row.pid == workers[row.rank]),
        threads=tuple(one for one in cut.threads if one.pid in workers.values()),
        network=tuple(one for one in cut.network if one.pid in workers.values()),
    )


def _cut(stacks: StacksAnswer, limits: Limits) -> StacksAnswer:
    by_pid: dict[int, list[ThreadStack]] = {}
    for one in sorted(stacks.threads, key=lambda one: not one.main):
        by_pid.setdefault(one.pid, []).append(_shortened(one, limits.frames))
    left_out = {pid: len(rows) - limits.threads for pid, rows in by_pid.items()}
    return stacks._replace(
        processes=tuple(
            row._replace(problem=f"{left_out[row.pid]} more threads omitted")
            if left_out.get(row.pid, 0) > 0
            else row
            for row in stacks.processes
        ),
        threads=tuple(one for rows in by_pid.values() for one in rows[: limits.threads]),
    )


def _shortened(thread: ThreadStack, most: int) -> ThreadStack:
    """Leave out frames in the middle: the innermost and the outermost ones matter."""
    surplus = len(thread.frames) - most
    if surplus <= 0:
        return thread
    ends = most // 4
    marker = f"... ({surplus} frames omitted)"
    return thread._replace(
        frames=(*thread.frames[: most - ends], marker, *thread.frames[len(thread.frames) - ends :])
    )


_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_VARIABLE = error_file.VARIABLE.encode()


def save(stacks: StacksAnswer, workers: Sequence[Process]) -> str:
    """Add the stacks of each rank to its file; return the folder of the files.

    It is "" if the job has no log folder here, or if they cannot be written.
    """
    folder = ""
    for worker in workers:
        path = path_of(os.fsdecode(worker.spec.env.get(_VARIABLE, b"")))
        if not path:
            return ""
        try:
            fd = system.open_fd(path, _FLAGS, 0o600)
            with system.open_file(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(f"{line}\n" for line in lines(stacks, worker.spec.rank))
        except OSError:
            return ""
        folder = folder or os.path.dirname(path)
    return folder


def path_of(errors: str) -> str:
    """Return the file for stacks next to that for errors; "" if errors are in memory."""
    folder, name = os.path.split(errors)
    if not folder or folder.startswith("/proc/"):
        return ""
    rank = name.removesuffix(".json")
    return os.path.join(folder, "stacks.log" if rank == "error" else f"{rank}.stacks")


def lines(stacks: StacksAnswer, rank: int) -> Iterator[str]:
    """Yield the lines about a rank, with the time of day first."""
    yield time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(system.time()))
    for row in stacks.processes:
        if row.rank == rank:
            yield from _of_process(stacks, row)


def _of_process(stacks: StacksAnswer, row: ProcessState) -> Iterator[str]:
    waits = f", waits in {row.waits_in}" if row.waits_in else ""
    yield f"pid {row.pid} (state {row.state}{waits}): {row.command}"
    if row.problem:
        yield f"  {row.problem}"
    for thread in stacks.threads:
        if thread.pid == row.pid:
            active = " (active)" if thread.active else ""
            yield f"  thread {thread.name or '?'}{active}"
            yield from (f"    {frame}" for frame in thread.frames)
