"""What a history says, in the form in which the rules ask for it.

Processes are known by host and pid, and have a life from one event to another: a pid may be used
again. A host that loses power ends its processes: the world writes `ended` for each of them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from . import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..history import Event

OWN = ("runner", "guard", "launcher", "logs", "lane", "agent", "engine")
"""Roles of dsrun's own processes."""

STOP_SIGNALS = (1, 2, 3, 15)
"""HUP, INT, QUIT and TERM: what asks a worker to end."""

KILL = 9


class Problem(NamedTuple):
    """A rule that a history breaks.

    Attributes:
        rule: its name.
        text: what is wrong.
        time, at: of the event that shows it; `at` is its index in the history.
        host, rank: what it is about, "" and -1 for the whole job.
    """

    rule: str
    text: str
    time: float
    at: int
    host: str = ""
    rank: int = -1


class Finding(NamedTuple):
    """What a rule has found: the index of an event (-1: the end), what it is about, and words."""

    at: int
    text: str
    host: str = ""
    rank: int = -1


class Signalled(NamedTuple):
    """A signal to a process, by one of dsrun's own processes or (`own` is false) by another."""

    at: int
    time: float
    number: int
    own: bool


class Process:
    """One process of the history.

    Attributes:
        born, died: indexes of its events; `died` is the end of the history if it did not end.
        status: its wait status, None if it did not end.
        rank: of the worker that it is, -1 for any other process; `since` is when it became one.
    """

    def __init__(self, event: Event, index: int, end: int) -> None:
        self.host = event.host
        self.pid: int = event.fields["pid"]
        self.role: str = event.fields["role"]
        self.born, self.died, self.ended_at = index, end, float("inf")
        self.status: int | None = None
        self.rank, self.round, self.world, self.since = -1, -1, 0, -1
        self.signals: list[Signalled] = []

    @property
    def code(self) -> int | None:
        """Its exit code, or minus the number of the signal that killed it."""
        if self.status is None:
            return None
        number = self.status & 0x7F
        return -number if number else self.status >> 8

    def lives_at(self, index: int) -> bool:
        """Return whether it lives at an event of the history."""
        return self.born <= index < self.died

    def sent(self, numbers: Sequence[int]) -> list[Signalled]:
        """Return those of these signals that dsrun has sent it while it lived."""
        return [one for one in self.signals if one.own and one.number in numbers]

    def __str__(self) -> str:
        """Return it as text."""
        what = f"rank {self.rank} of round {self.round}" if self.rank >= 0 else self.role
        return f"{what} ({self.host}, pid {self.pid})"


class Facts:
    """A history, sorted by what its events are about.

    Attributes:
        strays: events about processes that do not exist, or that exist already.
        taken_twice: `worker` events of processes that were workers already.
    """

    def __init__(self, history: Sequence[Event]) -> None:
        self.history = history
        self.processes: list[Process] = []
        self.workers: list[Process] = []
        self.strays: list[int] = []
        self.taken_twice: list[int] = []
        self.stranger_signals: list[tuple[int, Process]] = []
        self._live: dict[tuple[str, int], Process] = {}
        self._known: set[tuple[str, int]] = set()
        self._by_kind: dict[str, list[tuple[int, Event]]] = {}
        sorters = {
            "spawned": self._spawned,
            "worker": self._worker,
            "role": self._role,
            "signalled": self._signalled,
            "ended": self._ended,
        }
        for index, event in enumerate(history):
            self._by_kind.setdefault(event.kind, []).append((index, event))
            if event.kind in sorters:
                sorters[event.kind](index, event)

    # -- events of processes ----------------------------------------------------------------

    def _spawned(self, index: int, event: Event) -> None:
        place = event.host, event.fields["pid"]
        if place in self._live:
            self.strays.append(index)
        self._live[place] = process = Process(event, index, len(self.history))
        self._known.add(place)
        self.processes.append(process)

    def _worker(self, index: int, event: Event) -> None:
        process = self._live.get((event.host, event.fields["pid"]))
        if process is None:
            self.strays.append(index)
            return
        if process.rank >= 0:
            self.taken_twice.append(index)
            return
        process.rank, process.since = event.fields["rank"], index
        process.round, process.world = event.fields["round"], event.fields["world"]
        self.workers.append(process)

    def _role(self, index: int, event: Event) -> None:
        """A process has become something else, by what it executes."""
        process = self._live.get((event.host, event.fields["pid"]))
        if process is None:
            self.strays.append(index)
        else:
            process.role = event.fields["role"]

    def _signalled(self, index: int, event: Event) -> None:
        place = event.host, event.fields["pid"]
        process = self._live.get(place)
        if process is None:  # a process that has ended, and was not reaped yet, takes any signal
            self.strays += [] if place in self._known else [index]
            return
        by = self._live.get((event.host, event.fields["by"]))
        own = by is not None and by.role in OWN
        process.signals.append(Signalled(index, event.time, event.fields["number"], own))
        if own and process.role == "stranger" and event.fields["number"]:
            self.stranger_signals.append((index, process))

    def _ended(self, index: int, event: Event) -> None:
        process = self._live.pop((event.host, event.fields["pid"]), None)
        if process is None:
            self.strays.append(index)
            return
        process.died, process.ended_at = index, event.time
        process.status = event.fields["status"]

    # -- questions --------------------------------------------------------------------------

    def of_kind(self, *kinds: str) -> Iterator[tuple[int, Event]]:
        """Return the events of these kinds, with their indexes, in their order."""
        lists = [self._by_kind[kind] for kind in kinds if kind in self._by_kind]
        yield from lists[0] if len(lists) == 1 else sorted(one for some in lists for one in some)

    def first(self, kind: str) -> Event | None:
        """Return the first event of a kind."""
        return next((one for _, one in self.of_kind(kind)), None)

    def asked(self, name: str, default: Any = None) -> Any:
        """Return a field of the event `job`."""
        job = self.first("job")
        return default if job is None else job.fields.get(name, default)

    @cached_property
    def output(self) -> list[Problem]:
        """What is wrong with the output."""
        return list(output.problems(self))

    @cached_property
    def report(self) -> dict[str, Any]:
        """The report, empty if there is none."""
        event = self.first("report")
        found: dict[str, Any] = {} if event is None else event.fields["report"]
        return found

    @property
    def exit_code(self) -> int | None:
        """The exit code of the runner, None if it has not ended by itself."""
        event = self.first("exit")
        code: int | None = None if event is None else event.fields["code"]
        return code

    @cached_property
    def over(self) -> tuple[int, float]:
        """Index and time of the report, which ends the job; of the last event without one."""
        for index, event in self.of_kind("report", "exit"):
            return index, event.time
        last = len(self.history) - 1
        return last, self.history[last].time if self.history else 0.0

    @property
    def last_round(self) -> int:
        """Number of the last round that had workers before the report, -1 for none."""
        end = self.over[0]
        return max((one.round for one in self.workers if one.since < end), default=-1)

    def live_worker(self, rank: int, index: int) -> Process | None:
        """Return the worker that has a rank at an event of the history."""
        live = (one for one in self.workers if one.rank == rank and one.lives_at(index))
        return next(live, None)

    def problem(self, rule: str, text: str, index: int, host: str = "", rank: int = -1) -> Problem:
        """Return a problem that an event shows; an index of -1 is the end of the history."""
        at = index if index >= 0 else len(self.history) - 1
        time = self.history[min(at, len(self.history) - 1)].time if self.history else 0.0
        return Problem(rule, text, time, at, host, rank)
