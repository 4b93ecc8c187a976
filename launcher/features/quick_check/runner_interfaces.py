"""The gate of network interfaces: finds nodes that others cannot reach at their usual address.

That is the address which gloo or NCCL would use. All nodes dial a few others at once, which takes
one round trip. Only if that fails are all addresses tried; the workers of a node that can be
reached only at another address get a variable that names it. Nodes that join an elastic job later
are dialled by some of the nodes that are there.
"""

from __future__ import annotations

from itertools import count

from ...common.records import NamedTuple
from ...control import frames, messages
from ...control.reach_messages import Dial, Reach, Reached
from . import runner_interface_choice as interface_choice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from ...common.loop import Timer
    from ...control.reach_messages import Network
    from ...head.run.gate import Done
    from ...head.run.run import Run
    from ...head.run.run_node import RunNode
    from .runner_interface_choice import AddressTrial

    Known: TypeAlias = Sequence[tuple[RunNode, Network]]

PATIENCE = 4.0
"""Seconds for an answer; a node takes 2 at most."""


class PendingRequest(NamedTuple):
    """A request that a node owes an answer to."""

    examination: Examination
    node: RunNode
    trials: Sequence[AddressTrial]


class Interfaces:
    """Examines the nodes of one run.

    Attributes:
        timers: runs its limits.
        warn: prints a warning for the user.
        handlers: the handler of the answers of nodes.
    """

    def __init__(self, run: Run) -> None:
        self.timers, self.warn = run.state.timers, run.state.warn
        self.handlers = {frames.REACHED: self.on_reached}
        self._run = run.state
        self._numbers = count(1)
        self._asked: dict[int, PendingRequest] = {}
        self._late: set[int] = set()
        self._of_start: Examination | None = None
        self._of: dict[RunNode, Examination] = {}

    def check(self, nodes: Sequence[RunNode], done: Done) -> None:
        """Examine nodes, refuse none, and go on once the variables for their workers are sent."""
        run = self._run
        if run.started:
            (node,) = nodes
            self._examine_newcomer(node, [one for one in run.nodes if not one.over], done)
        else:
            self._examine(nodes, done)

    def _examine(self, nodes: Sequence[RunNode], done: Done) -> None:
        if self._of_start is not None:
            self._of_start.close()
        self._of_start = Examination(self, _known(nodes), done)
        self._of_start.start(interface_choice.first_trials, interface_choice.more_trials)

    def _examine_newcomer(self, node: RunNode, others: Sequence[RunNode], done: Done) -> None:
        if node in self._of:
            self._of.pop(node).close()
        if not (own := _known([node])):
            done({}, ())
            return
        self._of[node] = one = Examination(self, [*own, *_known(others)], done, newcomer=True)
        one.start(interface_choice.newcomer_trials, interface_choice.more_newcomer_trials)

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
        asked.examination.answered(answer.id, zip(asked.trials, answer.verdicts, strict=True))

    def send(self, asked: PendingRequest, dials: Sequence[Dial]) -> int:
        """Tell a node to dial others; return the number of the request."""
        number = next(self._numbers)
        self._asked[number] = asked
        self._send(asked.node, Reach(number, tuple(dials), {}))
        return number

    def equip(self, node: RunNode, variables: dict[str, str]) -> None:
        """Set variables for the workers that a node starts from now on."""
        self._send(node, Reach(next(self._numbers), (), variables))

    def _send(self, node: RunNode, reach: Reach) -> None:
        self._run.send((node,), messages.pack(frames.REACH, reach))

    def ignore(self, numbers: set[int]) -> None:
        """Ignore the answers to these requests."""
        self._late |= numbers
        for number in numbers:
            del self._asked[number]

    def close(self) -> None:
        """End all examinations without a call; while the run is only being stopped, continue."""
        if not self._run.ending:
            return
        for one in (self._of_start, *self._of.values()):
            if one is not None:
                one.close()


def _known(nodes: Sequence[RunNode]) -> Known:
    return [(one, one.latest.network) for one in nodes if one.latest and one.latest.network]


class Examination:
    """One examination: of all nodes at the start, or of the first of these, which is new."""

    def __init__(self, of: Interfaces, known: Known, done: Done, *, newcomer: bool = False) -> None:
        self._of = of
        self._nodes = [node for node, _ in known]
        self._networks = [network for _, network in known]
        self._examined = self._networks[:1] if newcomer else self._networks
        self._done = done
        self._verdicts: dict[tuple[int, str], str] = {}
        self._owed: set[int] = set()
        self._timer: Timer | None = None
        self._next: Callable[[], None] = self._after_first

    def start(
        self,
        first: Callable[[Sequence[Network]], list[AddressTrial]],
        more: Callable[[Sequence[Network], set[int]], list[AddressTrial]],
    ) -> None:
        """Begin, given which trials are made at first, and which if nodes turn out to be bad."""
        self._more = more
        if len(self._nodes) > 1:
            self._ask(first(self._networks))
        else:
            self._done({}, ())

    def answered(self, number: int, verdicts: Iterable[tuple[AddressTrial, str]]) -> None:
        """Handle the answer to a request."""
        for trial, why in verdicts:
            at = trial.to, trial.address
            self._verdicts[at] = self._verdicts.get(at) or why
        self._owed.remove(number)
        if not self._owed:
            self._advance()

    def close(self) -> None:
        """Stop waiting for answers."""
        self._of.ignore(self._owed)
        self._owed = set()
        if self._timer is not None:
            self._timer.cancel()

    def _ask(self, trials: Sequence[AddressTrial]) -> None:
        own: dict[int, list[AddressTrial]] = {}
        for trial in trials:
            own.setdefault(trial.by, []).append(trial)
        for by, some in own.items():
            asked = PendingRequest(self, self._nodes[by], some)
            self._owed.add(self._of.send(asked, list(map(self._dial, some))))
        if self._owed:
            self._timer = self._of.timers.call_later(PATIENCE, self._advance)
        else:
            self._advance()

    def _dial(self, trial: AddressTrial) -> Dial:
        network = self._networks[trial.to]
        return Dial(trial.address, network.port, network.token)

    def _advance(self) -> None:
        """Continue with the answers so far."""
        self.close()
        self._next()

    def _after_first(self) -> None:
        bad = interface_choice.bad(self._examined, self._verdicts)
        if not bad:
            self._done({}, ())
            return
        self._next = self._after_more
        self._ask(self._more(self._networks, bad))

    def _after_more(self) -> None:
        found = interface_choice.choices(self._examined, self._verdicts)
        for one in found:
            if one.variables:
                self._of.equip(self._nodes[one.node], one.variables)
        for line in interface_choice.words([node.name for node in self._nodes], found):
            self._of.warn(line)
        self._done({}, ())
