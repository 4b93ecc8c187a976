"""Asks nodes whether servers answer them, by the program `features/quick_check/node_ready`.

The program runs outside the loop of the node launcher, and bypasses proxies.
"""

from __future__ import annotations

import json
from functools import partial

from ...common.errors import LOST
from ...common.records import NamedTuple
from ...common.text import plain, read_json
from ..exec.runner_fleet_programs import FleetPrograms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Timer
    from ...head.fleet.fleet import NodeFleet
    from ..exec.runner_programs import RunningProgram
    from .runner_directory import RoleNode

AGAIN = 0.5
"""Seconds before the program is started again if it ends too early."""

ANY_PORT = 1
"""The port to try on a host without ports: a refused connection is an answer, too."""


NONE = -1
"""Stands for no port: `ANY_PORT` is tried."""


class ReadyQuestion(NamedTuple):
    """A question for the program `ready`.

    Attributes:
        kind: `port`, `http`, `file`, or `reach`.
        path: the path for `http` or `file`.
        places: the nodes that should answer.
        port: the index of the port in the list of each node; `NONE` for no port.
    """

    kind: str
    path: str
    places: tuple[RoleNode, ...]
    port: int = 0

    @property
    def line(self) -> bytes:
        """The line that the program reads."""
        servers = [[one.candidates, (*one.ports, ANY_PORT)[self.port]] for one in self.places]
        asked = {"kind": self.kind, "path": self.path, "servers": servers}
        return json.dumps(asked).encode() + b"\n"


class Inquiry:
    """Asks some hosts until each of them has reported on every server."""

    def __init__(
        self,
        fleet: NodeFleet,
        hosts: Sequence[str],
        question: ReadyQuestion,
        on_done: Callable[[dict[str, list[int]]], None],
        on_why: Callable[[str], None],
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        """Start asking.

        Args:
            fleet: has the nodes.
            hosts: the hosts that ask.
            question: the question.
            on_done: called from the loop at the end, with the numbers of the addresses that
                answered every host, by the host of the server; if no address did, with the
                numbers of those that answered some host.
            on_why: called with the reason for each delay.
            on_lost: called some time after the loss of the only host that asks; None to ask from
                that host again.
        """
        self._fleet, self._question = fleet, question
        self._on_done, self._on_why, self._on_lost = on_done, on_why, on_lost
        self._told: dict[str, dict[int, list[int]]] = {host: {} for host in hosts}
        self._running: dict[str, RunningProgram] = {}
        self._timers: list[Timer] = []
        self._over = False
        for host in hosts:
            self._start(host)

    def _answered(self) -> dict[str, list[int]]:
        found = {}
        for number, place in enumerate(self._question.places):
            sets = [{*told.get(number, ())} for told in self._told.values()]
            common = set.intersection(*sets) if sets else set()
            found[place.host] = sorted(common or set[int]().union(*sets))
        return found

    def _start(self, host: str) -> None:
        nodes = [node for node in self._fleet.nodes.values() if node.name == host]
        if self._over:
            return
        programs = FleetPrograms(self._fleet, nodes)
        running = programs.start("ready", {host: []}, self._on_line, self._on_end)
        self._running[host] = running
        running.send(host, self._question.line)

    def _on_line(self, host: str, line: bytes) -> None:
        try:
            told = read_json(line)
        except ValueError:
            return
        match told:  # a program on a node printed it: not trusted
            case {"server": int(number), "answered": list(answered)}:
                if host in self._told and self._is_asked(number):
                    self._told[host][number] = self._valid(number, answered)
            case {"why": str(why)}:
                self._on_why(f"from {host}: {plain(why)[:200]}")
        self._finish_if_told()

    def _is_asked(self, number: int) -> bool:
        """Return whether a number belongs to a server; the file has the number 0."""
        return number in range(max(1, len(self._question.places)))

    def _valid(self, number: int, answered: Sequence[object]) -> list[int]:
        places = self._question.places
        known = range(len(places[number].candidates)) if places else range(0)
        return [one for one in answered if type(one) is int and one in known]

    def _on_end(self, host: str, code: int, why: str) -> None:
        """Start the program again if it was killed; leave out a host that is lost."""
        del self._running[host]
        if self._over or self._has_told(host):
            return
        if code == LOST and len(self._told) > 1:
            del self._told[host]
            self._finish_if_told()
        else:
            self._on_why(f"from {host}: {why}")
            again = self._on_lost if code == LOST else None
            again = again or partial(self._start, host)
            self._timers.append(self._fleet.loop.call_later(AGAIN, again))

    def _has_told(self, host: str) -> bool:
        return len(self._told[host]) >= max(
            len(self._question.places), self._question.kind == "file"
        )

    def _finish_if_told(self) -> None:
        if not self._over and all(map(self._has_told, self._told)):
            self._over = True
            self._on_done(self._answered())

    def stop(self) -> None:
        """Stop asking."""
        self._over = True
        for timer in self._timers:
            timer.cancel()
        for running in self._running.values():
            running.stop()
