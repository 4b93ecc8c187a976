"""From the first connection to START: all say HELLO, the facts agree, the master answers."""

from __future__ import annotations

import re
from collections import Counter, deque

from ...common import loop as loops
from ...common.errors import NodeError
from ...control import frames, messages
from ...resources.ranges import runs_of, spell
from ...specs.plan import settle
from . import checks
from .node_connection import seated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...planning.batch_plan import BatchPlan
    from ...specs.plan import Plan
    from ..output.console import Console
    from .node_connection import Peer

SHOW_AFTER = 0.5
"""Seconds until a terminal shows who is waited for."""

SAY_AFTER = 3.0
"""Seconds until a line says so where there is no terminal; then every fifth time as long."""

NAMED = 5
"""Hosts, or runs of them, named in one line; the rest are counted."""

HELD = 8
"""Lines of an engine's own that are kept until somebody has to wait."""


class Gathering:
    """Waits for all nodes, holds their facts together, settles the plan and finds the master."""

    def __init__(
        self,
        plan: Plan,
        peers: Sequence[Peer],
        loop: loops.Loop,
        console: Console,
        *,
        connect_timeout: float,
        start_timeout: float,
        batches: BatchPlan | None,
        least: int | None,
        leave: Callable[[Mapping[Peer, str]], None],
        ready: Callable[[Plan, str, int], None],
        refuse: Callable[[NodeError], None],
    ) -> None:
        """Begin to wait; `ready` is given the settled plan and the master's address and port.

        Where `least` nodes are enough, `leave` is given those that cannot take part, and why.
        """
        self._plan = plan
        self._peers = list(peers)
        self._least = least
        self._leave = leave
        self._loop = loop
        self._console = console
        self._patience = connect_timeout
        self._batches = batches
        self._ready = ready
        self._refuse = refuse
        self._closed = False
        self._candidates: tuple[str, ...] = ()
        self._probes: Counter[Peer] = Counter()
        self._last = loop.after(start_timeout, self._out_of_time)
        self._hurried = False
        self._ticks = 0
        self._held: deque[str] | None = deque(maxlen=HELD)
        loop.after(SHOW_AFTER, self._tick)

    def close(self) -> None:
        """Wait for nobody any more."""
        self._closed = True
        self._last.cancel()
        self._console.status("")

    def fail(self, peer: Peer, cause: str) -> None:
        """Note that a host cannot be used; the others are given as long as a connection takes."""
        if self._closed or peer.settled:
            return
        peer.failed = cause
        self._hurry()
        self._look()

    def abandon(self) -> bool:
        """Give up now if some host cannot be used: the others were let go because of it."""
        failed = self._failed()
        if failed and not self._closed:
            self.give_up(failed)
        return bool(failed)

    def said(self, text: str) -> None:
        """Take in a line of the engine's own: it is shown from the first line on that says wait."""
        if self._closed or self._held is None or self._console.shows("debug"):
            self._console.say(text, "debug" if self._closed else "info")
        else:
            self._held.append(text)

    @property
    def words(self) -> str:
        """How far it has come, e.g. "61/64 hosts, waiting for node7, node9, node41"."""
        return waiting_line(len(self._peers), self._waiting())

    def hello(self, peer: Peer, body: bytes) -> None:
        """Take a node's HELLO.

        Raises:
            BadFrame: it is none, or the second one.
        """
        if peer.hello is not None:
            raise frames.BadFrame("a second HELLO")
        peer.hello = messages.unpack(messages.Hello, body)
        peer.saw_clock(peer.hello.clock, self._loop.clock())
        if peer.hello.problems:
            self._hurry()
        self._look()

    def _hurry(self) -> None:
        """Wait for the others only as long as a connection takes: there will be no start."""
        if not self._hurried:
            self._hurried = True
            self._loop.after(self._patience, self._out_of_time)

    def probed(self, peer: Peer, body: bytes) -> None:
        """Take a node's word on which addresses of the master it reaches.

        Raises:
            BadFrame: it is none, or the node was not asked.
        """
        verdicts = messages.unpack(messages.Probed, body).verdicts
        if not self._probes[peer]:
            raise frames.BadFrame("an answer to a question that was not asked")
        self._probes[peer] -= 1
        if self._probes[peer] or self._closed:
            return  # its nodes have changed since
        if len(verdicts) != len(self._candidates):
            raise frames.BadFrame(f"{len(verdicts)} answers to {len(self._candidates)} questions")
        peer.verdicts = verdicts
        if not any(self._probes[one] for one in self._peers[1:]):
            self._choose_master()

    def _look(self) -> None:
        if self._closed or not all(peer.settled for peer in self._peers):
            return
        self._spare_failed()
        failed = self._failed()
        if not failed:
            hellos = {p.node.rank: p.hello for p in self._peers if p.hello}
            failed = checks.problems([p.node for p in self._peers], hellos)
        if failed:
            self.give_up(failed)
        else:
            self._settle()

    def _spare_failed(self) -> None:
        """Go on without those that cannot take part, if the others are enough."""
        unfit = {peer: cause for peer in self._peers if (cause := _unfit(peer))}
        rest = [peer for peer in self._peers if peer not in unfit]
        if self._least is None or not unfit or len(rest) < self._least:
            return
        self._leave(unfit)
        self._peers = rest
        self._plan = seated(self._plan, rest)

    def _failed(self) -> list[str]:
        return listed({peer.name: peer.failed for peer in self._peers if peer.failed})

    def _settle(self) -> None:
        unknown = [p for p in self._peers if p.node.slots is None]
        counts = {p.node.rank: p.hello.slots for p in unknown if p.hello}
        if counts:
            self._plan = settle(self._plan, counts)
        misfit = checks.misfit(self._plan.world_size or 0, self._batches)
        if misfit:
            self.give_up([misfit])
            return
        first = self._peers[0]
        assert first.hello is not None
        self._port = first.hello.port or self._plan.master_port or 0
        alone = len(self._peers) == 1 and len(self._plan.nodes) == 1
        self._candidates = checks.master_candidates(
            first.node, first.hello, self._plan.master_addr, alone
        )
        if len(self._peers) == 1 or first.hello.port is None:
            self._finish(self._candidates[0])
            return
        probe = messages.pack(frames.PROBE, messages.Probe(self._candidates, self._port))
        for peer in self._peers[1:]:
            self._probes[peer] += 1
            peer.send(probe)

    def _choose_master(self) -> None:
        verdicts = {peer.name: peer.verdicts for peer in self._peers[1:]}
        address, reasons = checks.choose_master(self._candidates, verdicts, self._port)
        if address:
            self._finish(address)
        else:
            given, first = self._plan.master_addr, self._peers[0].name
            asked = (
                [f"--master_addr {given}: is it an address of node 0, {first}?"] if given else []
            )
            self.give_up([*reasons, *asked])

    def _finish(self, address: str) -> None:
        self.close()
        self._ready(self._plan, address, self._port)

    def give_up(self, reasons: Sequence[str]) -> None:
        """Start nothing, for these reasons."""
        self.close()
        listed = "\n".join(f"  {reason}" for reason in reasons)
        self._refuse(NodeError(f"the job cannot start, nothing was left running:\n{listed}"))

    def _out_of_time(self) -> None:
        for peer in self._peers:
            if not peer.settled:
                peer.failed = "no answer in time (--connect_timeout, --start_timeout)"
        self._look()

    def _waiting(self) -> list[str]:
        return [peer.name for peer in self._peers if not peer.settled]

    def _tick(self) -> None:
        if self._closed or not self._waiting():
            return
        self._ticks += 1
        text = self.words
        self._console.status(f"dsrun: {text}")
        seconds = self._ticks * SHOW_AFTER
        if seconds == SAY_AFTER or seconds % (5 * SAY_AFTER) == 0:
            self._console.say("\n".join([text, *(self._held or ())]))
            self._held = None
        self._loop.after(SHOW_AFTER, self._tick)


def _unfit(peer: Peer) -> str:
    return peer.failed or "; ".join(peer.hello.problems if peer.hello else ())


def listed(causes: Mapping[str, str]) -> list[str]:
    """Return a line for every cause, given by host; hosts that share one share the line.

    Causes that differ by the host's own name or address alone are one: they stand as HOST and
    ADDRESS in the line of several.
    """
    hosts: dict[str, list[str]] = {}
    for host, cause in causes.items():
        hosts.setdefault(_nameless(cause, host), []).append(host)
    return [
        f"{_some(names)}: {cause if len(names) > 1 else causes[names[0]]}"
        for cause, names in hosts.items()
    ]


def _nameless(cause: str, host: str) -> str:
    # Not a pattern for each host: of thousands that would take seconds.
    named, *rest = cause.split(host)
    for part in rest:
        inside = re.match(r"[\w.-]", named[-1:]) or re.match(r"[\w-]", part)
        named += f"{host if inside else 'HOST'}{part}"
    return re.sub(r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b", "ADDRESS", named)


def _some(names: Sequence[str]) -> str:
    runs = runs_of(names)
    rest = sum(len(run) for run in runs[NAMED:])
    told = ", ".join(spell(run) for run in runs[:NAMED])
    return f"{told} and {rest} more" if rest else told


def waiting_line(total: int, waiting: Sequence[str]) -> str:
    """Return e.g. "61/64 hosts, waiting for node7, node9, node41"."""
    whom = f", waiting for {_some(waiting)}" if waiting else " are ready"
    return f"{total - len(waiting)}/{total} hosts{whom}"
