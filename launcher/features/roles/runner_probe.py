"""Checks when a role is ready, and at which addresses its nodes can be reached.

Once the workers of a role listen (`runner_port_checks`), nodes try to reach them
(`runner_inquiry`): one node of each role that waits for the role, or a node of the role itself if
no other role waits. After the loss of a node, or the move of a role, the nodes that ask or answer
change.
"""

from __future__ import annotations

import os
import re
from functools import partial

from ...common.records import NamedTuple
from ...common.text import plain
from ...head.run.events import RESULT, RankOutput
from ..watch.runner_lines import OutputLines, matches
from ..watch.runner_time_limit import TimeLimit, TooSlow
from .runner_inquiry import NONE, Inquiry, ReadyQuestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from ...common.loop import Timer
    from ...head.fleet.fleet import NodeFleet
    from ...head.fleet.node_connection import NodeConnection
    from ...head.run.events import Observer, RunEvent
    from ...specs.roles import RoleSpec
    from .runner_directory import Directory
    from .runner_port_checks import PortChecks
    from .runner_run import RoleNews

    Stop: TypeAlias = Callable[[], None]
    Whom: TypeAlias = tuple[tuple[str, ...], ReadyQuestion]

SEARCH = 0.2
"""Seconds of processor time for the search for a line in one block of output."""

UNPROVEN = 5.0
"""Seconds for finding an address that works if readiness needs none; then the first address of each
node is used."""


class LineWatch:
    """Searches the output of a role for a line.

    Attributes:
        found: whether a line has matched.
        on_found: called once a line matches.
    """

    def __init__(self, expression: str, warn: Callable[[str], None]) -> None:
        """Search for a regular expression; `warn` reports a search that takes too long."""
        self.found = False
        self.on_found: Callable[[], None] = lambda: None
        self._pattern = re.compile(expression.encode(), re.MULTILINE)
        self._lines, self._limit = OutputLines(), TimeLimit(SEARCH)
        self._warn = warn
        self._given_up = False

    def on_event(self, event: RunEvent) -> None:
        """Search new output."""
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


class _Step(NamedTuple):
    """A step of the readiness check that waits for answers of nodes.

    Attributes:
        whom: returns the nodes that should ask and answer now.
        asked: the value of `whom` when the step began.
        ask: asks, given such a value; returns a function that cancels the question.
        stop: the function that cancels the present question.
    """

    whom: Callable[[], Any]
    asked: object
    ask: Callable[[Any], Stop]
    stop: Stop


class RoleReadiness:
    """The readiness check of one role, which each run of the role repeats."""

    def __init__(
        self,
        role: RoleSpec,
        users: Sequence[str],
        nodes: Callable[[], Sequence[NodeConnection]],
        ports: PortChecks,
        fleet: NodeFleet,
        directory: Directory,
        news: RoleNews,
    ) -> None:
        """Prepare the check.

        Args:
            role: the role.
            users: the names of the roles that wait for the role.
            nodes: returns the connections to the nodes of the present run.
            ports: asks nodes who listens on the ports of the role.
            fleet: has the nodes of all roles.
            directory: has the addresses of all roles, and records those that answered.
            news: receives the success of the check, and the reason for each delay.
        """
        self._role, self._users, self._nodes, self._ports = role, users, nodes, ports
        self._fleet, self._directory, self._news = fleet, directory, news
        self._line: LineWatch | None = None
        self._steps: dict[str, _Step] = {}
        self._timer: Timer | None = None
        self._reached = self._met = False

    def watch_output(
        self, observe: Callable[[Observer], None], warn: Callable[[str], None]
    ) -> None:
        """Search the output of a run that has not begun, if the check is for a line."""
        if self._role.ready.kind == "line":
            self._line = LineWatch(self._role.ready.what, warn)
            observe(self._line.on_event)

    def starting(self) -> None:
        """Look for addresses that work while the workers start."""
        self.stop()
        self._met = False
        self._reached = self._asks_servers or not self._others_need_addresses
        if not self._reached:
            self._timer = self._fleet.loop.call_later(UNPROVEN, self._on_reached)
            self._inquire("reach", self._on_reached)

    @property
    def _asks_servers(self) -> bool:
        return self._role.ready.kind in {"port", "http"}

    @property
    def _others_need_addresses(self) -> bool:
        places = self._directory.places.get(self._role.name, ())
        return bool(self._users) and any(len(place.candidates) > 1 for place in places)

    def start(self) -> None:
        """Start the check: the workers run."""
        name, ready = self._role.name, self._role.ready
        if self._asks_servers:
            self._news.lacks(name, f"its workers do not listen on port {ready.port}")
            self._check_ports((ready.port,), lambda: self._inquire(ready.kind, self._on_met))
        elif ready.kind == "file":
            self._inquire("file", self._on_met)
        elif self._line is not None and not self._line.found:
            self._line.on_found = self._on_met
        else:
            self._on_met()

    def stop(self) -> None:
        """Cancel the check: the workers are being stopped, or have ended."""
        while self._steps:
            self._steps.popitem()[1].stop()
        if self._timer is not None:
            self._timer.cancel()

    # -- who asks whom ----------------------------------------------------------------------

    def follow(self) -> None:
        """Ask again where other nodes must ask or answer now: nodes were lost, or roles moved."""
        for name, step in tuple(self._steps.items()):
            if step.whom() != step.asked:
                self._start_step(name, step.whom, step.ask)

    def _start_step(self, name: str, whom: Callable[[], Any], ask: Callable[[Any], Stop]) -> None:
        """Start a step, in place of any other with this name."""
        if name in self._steps:
            self._steps.pop(name).stop()
        asked = whom()
        self._steps[name] = _Step(whom, asked, ask, ask(asked))

    def _finish_step(self, name: str, then: Callable[[], None]) -> None:
        del self._steps[name]
        then()

    def _whom(self, kind: str) -> Whom:
        """Return the hosts that ask, and their question."""
        places = tuple(self._directory.places.get(self._role.name, ()))
        own, ready = [place.host for place in places], self._role.ready
        if kind == "file":
            path = os.path.join(self._role.job.workdir, ready.what)
            return tuple(own[:1]), ReadyQuestion(kind, path, ())
        path = "" if kind == "reach" else ready.what
        # A role's own port may be another user's until its workers listen there.
        port = NONE if kind == "reach" else self._role.ports.index(ready.port)
        return self._askers(own), ReadyQuestion(kind, path, places, port)

    def _askers(self, own: Sequence[str]) -> tuple[str, ...]:
        """Return one connected host per user to ask from, preferably without a server."""
        connected = {one.name for one in self._fleet.nodes.values() if one.connected}
        found: list[str] = []
        for user in self._users:
            places = self._directory.places.get(user, ())
            hosts = [place.host for place in places if place.host in connected]
            found += [host for host in hosts if host not in own][:1] or hosts[:1]
        return tuple(dict.fromkeys(found or own[:1]))

    # -- steps ------------------------------------------------------------------------------

    def _check_ports(self, wanted: Sequence[str], then: Callable[[], None]) -> None:
        """Call `then` once workers listen on the wanted ports, and no other user on any port."""
        if not self._role.ports:
            then()
            return

        def ask(nodes: tuple[NodeConnection, ...]) -> Stop:
            return self._ports.ask(nodes, wanted, partial(self._finish_step, "ports", then))

        self._start_step("ports", lambda: tuple(self._nodes()), ask)

    def _inquire(self, kind: str, then: Callable[[], None]) -> None:
        """Call `then` once the servers have answered, or the file exists."""
        name = self._role.name

        def done(answered: dict[str, list[int]]) -> None:
            self._directory.prove(name, answered)
            self._finish_step(kind, then)

        def why(text: str) -> None:
            if kind != "reach":
                self._news.lacks(name, text)

        def ask(whom: Whom) -> Stop:
            return Inquiry(self._fleet, *whom, done, why, again).stop

        def again() -> None:
            self._start_step(kind, whom, ask)

        whom = partial(self._whom, kind)
        again()

    def _on_reached(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._reached = True
        self._check_ready()

    def _on_met(self) -> None:
        self._met = True
        self._check_ready()

    def _check_ready(self) -> None:
        if self._met and self._reached:
            self._check_ports((), lambda: self._news.ready(self._role.name))
