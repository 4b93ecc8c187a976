"""Finds out when a role is ready, and at which addresses its nodes can be reached.

A server is tried from a node of each role that waits for it (`inquiry`), or from its own if none
does.
"""

from __future__ import annotations

import os
import re
from functools import partial

from ...common.text import plain
from ..run.events import RESULT, RankOutput
from ..watch.lines import Lines, matches
from ..watch.time_limit import TimeLimit, TooSlow
from .inquiry import Inquiry, Question
from .role_events import NotReadyYet, RoleReady

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Timer
    from ...specs.roles import Role
    from ..fleet.fleet import Fleet
    from ..run.events import Observer, RunEvent
    from .directory import Directory
    from .role_events import RoleEvent

SEARCH = 0.2
"""Seconds of processor time for the search for a line in one block of output."""

UNPROVEN = 5.0
"""Seconds for a node to be reached of which only the address is wanted; then the first one of its
addresses is taken."""


class LineWatch:
    """Observes the output of a role until a line of it matches.

    Attributes:
        found: whether one has.
    """

    def __init__(self, expression: str, warn: Callable[[str], None]) -> None:
        """Look for a regular expression."""
        self.found = False
        self.on_found: Callable[[], None] = lambda: None
        self._pattern = re.compile(expression.encode(), re.MULTILINE)
        self._lines, self._limit = Lines(), TimeLimit(SEARCH)
        self._warn = warn
        self._given_up = False

    def on_event(self, event: RunEvent) -> None:
        """Look at output as it comes."""
        if self.found or self._given_up or type(event) is not RankOutput or event.stream == RESULT:
            return
        lines = self._lines.add(event.rank, event.stream, event.data)
        try:
            self.found = bool(lines) and self._limit.call(partial(self._search, lines))
        except TooSlow:
            self._given_up = True
            shown = plain(self._pattern.pattern.decode(errors="replace"))
            self._warn(f"the search for its line '{shown}' takes too long: it cannot become ready")
        if self.found:
            self.on_found()

    def _search(self, lines: bytes) -> bool:
        return bool(matches(self._pattern, lines))


class RoleReadiness:
    """Finds out when one role is ready, anew for each of its runs."""

    def __init__(
        self,
        role: Role,
        users: Sequence[str],
        fleet: Fleet,
        directory: Directory,
        tell: Callable[[RoleEvent], None],
    ) -> None:
        """Prepare.

        Args:
            role: the role.
            users: names of the roles that wait for it.
            fleet: has the nodes of all.
            directory: knows their places, and is told which addresses have answered.
            tell: called from the loop once the role is ready, and with why it is not yet.
        """
        self._role, self._users = role, users
        self._fleet, self._directory, self._tell = fleet, directory, tell
        self._line: LineWatch | None = None
        self._inquiries: list[Inquiry] = []
        self._timer: Timer | None = None
        self._reached = self._met = False

    def watch_output(
        self, observe: Callable[[Observer], None], warn: Callable[[str], None]
    ) -> None:
        """Look at the output of a run that has not begun, if that tells when it is ready."""
        if self._role.ready.kind == "line":
            self._line = LineWatch(self._role.ready.what, warn)
            observe(self._line.on_event)

    def starting(self) -> None:
        """Find out how its nodes can be reached, while its workers start."""
        self.stop()
        self._met = False
        self._reached = self._asks_servers or not self._others_need_addresses
        if not self._reached:
            self._timer = self._fleet.loop.call_later(UNPROVEN, self._on_reached)
            self._ask("reach", "", self._askers, self._on_reached)

    @property
    def _asks_servers(self) -> bool:
        return self._role.ready.kind in {"port", "http"}

    @property
    def _others_need_addresses(self) -> bool:
        places = self._directory.places.get(self._role.name, ())
        return bool(self._users) and any(len(place.candidates) > 1 for place in places)

    @property
    def _askers(self) -> list[str]:
        """The hosts from which its nodes are tried: of each user one that has no server."""
        own = [place.host for place in self._directory.places.get(self._role.name, ())]
        found = []
        for user in self._users:
            hosts = [place.host for place in self._directory.places.get(user, ())]
            found += [host for host in hosts if host not in own][:1] or hosts[:1]
        return list(dict.fromkeys(found)) or own[:1]

    def begin(self) -> None:
        """Find out when it is ready: its workers run."""
        ready = self._role.ready
        if self._asks_servers:
            self._ask(ready.kind, ready.what, self._askers, self._on_met)
        elif ready.kind == "file":
            path = os.path.join(self._role.job.workdir, ready.what)
            own = [place.host for place in self._directory.places.get(self._role.name, ())]
            self._ask("file", path, own[:1], self._on_met)
        elif self._line is not None and not self._line.found:
            self._line.on_found = self._on_met
        else:
            self._on_met()

    def stop(self) -> None:
        """Ask no more: its workers are being stopped, or have ended."""
        for one in self._inquiries:
            one.stop()
        self._inquiries.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _ask(self, kind: str, path: str, hosts: Sequence[str], then: Callable[[], None]) -> None:
        name, ports = self._role.name, self._role.ports
        places = () if kind == "file" else self._directory.places.get(name, ())
        port = ports.index(self._role.ready.port) if kind in {"port", "http"} else 0

        def done(answered: dict[str, list[int]]) -> None:
            self._directory.prove(name, answered)
            then()

        def why(text: str) -> None:
            if kind != "reach":
                self._tell(NotReadyYet(name, text))

        question = Question(kind, path, places, port)
        self._inquiries.append(Inquiry(self._fleet, hosts, question, done, why))

    def _on_reached(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._reached = True
        self._look()

    def _on_met(self) -> None:
        self._met = True
        self._look()

    def _look(self) -> None:
        if self._met and self._reached:
            self._tell(RoleReady(self._role.name))
