"""Finds nodes that others do not reach at the address that gloo or NCCL would use.

All nodes dial a few others at once, which takes one round trip. Only if that fails all addresses
are tried, and the workers of nodes with another one that works get a variable that names it.
"""

from __future__ import annotations

from ...common.values import NamedTuple
from ...control import frames, messages
from ...control.reach_messages import Dial, Reach, Reached
from . import interface_choice
from .interface_choice import Trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop, Timer
    from ...control.reach_messages import Network
    from .run_node import RunNode

PATIENCE = 4.0
"""Seconds for an answer; a node takes 2 at most."""


class Asked(NamedTuple):
    """A request that a node owes an answer to."""

    node: RunNode
    trials: list[Trial]


class Interfaces:
    """Examines the nodes of one run."""

    def __init__(self, loop: Loop, warn: Callable[[str], None]) -> None:
        self._loop = loop
        self._warn = warn
        self._done: Callable[[], None] = lambda: None
        self._nodes: list[RunNode] = []
        self._networks: list[Network] = []
        self._verdicts: dict[tuple[int, str], str] = {}
        self._asked: dict[int, Asked] = {}
        self._late: set[int] = set()
        self._number = 0
        self._timer: Timer | None = None
        self._next = self._after_first

    def examine(self, nodes: Sequence[RunNode], done: Callable[[], None]) -> None:
        """Examine nodes that have sent HELLO, and call `done` once their variables are sent.

        Answers to an examination that has not ended are ignored.
        """
        self.close()
        self._done = done
        known = [(one, one.hello.network) for one in nodes if one.hello and one.hello.network]
        self._nodes = [node for node, _ in known]
        self._networks = [network for _, network in known]
        self._verdicts = {}
        self._next = self._after_first
        if len(known) > 1:
            self._ask(interface_choice.first_trials(self._networks))
        else:
            done()

    def on_reached(self, node: RunNode, body: bytes) -> None:
        """Handle REACHED.

        Raises:
            BadFrame: it is no answer to a REACH.
        """
        answer = messages.unpack(Reached, body)
        if answer.id in self._late:
            self._late.remove(answer.id)
            return
        asked = self._asked.get(answer.id)
        if asked is None or asked.node is not node:
            raise frames.BadFrame("REACHED without a REACH")
        if len(answer.verdicts) != len(asked.trials):
            raise frames.BadFrame(f"{len(answer.verdicts)} verdicts on {len(asked.trials)} dials")
        del self._asked[answer.id]
        for trial, why in zip(asked.trials, answer.verdicts, strict=True):
            at = trial.to, trial.address
            self._verdicts[at] = self._verdicts.get(at) or why
        if not self._asked:
            self._go_on()

    def close(self) -> None:
        """Wait for no answer any more."""
        self._late.update(self._asked)
        self._asked = {}
        if self._timer is not None:
            self._timer.cancel()

    def _ask(self, trials: Sequence[Trial]) -> None:
        own: dict[int, list[Trial]] = {}
        for trial in trials:
            own.setdefault(trial.by, []).append(trial)
        for by, some in own.items():
            self._number += 1
            self._asked[self._number] = Asked(self._nodes[by], some)
            self._send(self._nodes[by], Reach(self._number, tuple(map(self._dial, some)), {}))
        if self._asked:
            self._timer = self._loop.call_later(PATIENCE, self._go_on)
        else:
            self._go_on()

    def _dial(self, trial: Trial) -> Dial:
        network = self._networks[trial.to]
        return Dial(trial.address, network.port, network.token)

    def _send(self, node: RunNode, request: Reach) -> None:
        node.send(messages.pack(frames.REACH, request))

    def _go_on(self) -> None:
        """Continue with the answers that have come; a node without one is counted by others."""
        self.close()
        self._next()

    def _after_first(self) -> None:
        bad = interface_choice.bad(self._networks, self._verdicts)
        if not bad:
            self._done()
            return
        self._next = self._after_more
        self._ask(interface_choice.more_trials(self._networks, bad))

    def _after_more(self) -> None:
        found = interface_choice.choices(self._networks, self._verdicts)
        for one in found:
            if one.variables:
                self._number += 1
                self._send(self._nodes[one.node], Reach(self._number, (), one.variables))
        for line in interface_choice.words([node.name for node in self._nodes], found):
            self._warn(line)
        self._done()
