"""The rank that others wait for, in one sentence. Pure.

Each rule looks for one cause; the first that finds something speaks. No rule guesses: where ranks
do not differ, the sentence says so.
"""

from __future__ import annotations

from enum import Enum

from ...common.records import NamedTuple
from ...common.wording import counted
from . import runner_flight as flight
from .runner_rank_words import (
    FOR_CHILDREN,
    STATES,
    at_places,
    culprit_child,
    grouped,
    ranks_of,
    state_or_place,
    who,
)
from .runner_wait_kinds import FOR_OTHERS, PERHAPS_FOR_OTHERS, Kind, operation, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .runner_flight import Behind
    from .runner_view import RankView
    from .runner_wait_kinds import Place


class Reason(Enum):
    """Why ranks are odd.

    Attributes:
        STOPPED: a process is stopped, by a signal or a debugger.
        BLOCKED: it is in an uninterruptible wait in the kernel (state D).
        SILENT: their node has not answered.
        MISMATCH: they call another collective than the others, or with other sizes or types.
            Without odd ranks: the calls are evenly divided.
        BEHIND: they have not reached a collective in which the others wait, by torch's records.
        CHILD: a process that they started and wait for has ended or is stopped.
        OUTSIDE: the others wait for ranks, by their stacks, and these do not.
        UNKNOWN: the others wait for ranks, and the stacks of these could not be read.
        DIFFERENT: they wait for ranks elsewhere than most, or for a lock while all others wait for
            a signal.
        NOBODY: no rank differs from the others, or none waits for another.
    """

    STOPPED = "stopped"
    BLOCKED = "blocked"
    SILENT = "silent"
    MISMATCH = "mismatch"
    BEHIND = "behind"
    CHILD = "child"
    OUTSIDE = "outside"
    UNKNOWN = "unknown"
    DIFFERENT = "different"
    NOBODY = "nobody"


LOCKS = {Kind.LOCK, Kind.NATIVE}
"""Waits that nothing can end if the process that waits holds the lock itself."""


class WaitExplanation(NamedTuple):
    """The explanation of waits between ranks.

    Attributes:
        sentence: one sentence without a full stop; it may contain text of workers, and must go
            through `common/text.plain` before it is printed.
        reason: why these ranks are odd.
        odd: the ranks that others wait for; () if none can be named.
        waiting: the ranks that wait for other ranks, by their stacks or collectives.
        sure: whether the odd ranks follow from the evidence; otherwise they are only likely.
        doubt: another explanation than a hang, in words, or "".
    """

    sentence: str
    reason: Reason
    odd: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    sure: bool = False
    doubt: str = ""


class JobSnapshot(NamedTuple):
    """All ranks at one moment.

    Attributes:
        waiting: the ranks that wait for others, by their stacks.
        perhaps: ranks whose stacks are inconclusive.
    """

    views: Mapping[int, RankView]
    places: Mapping[int, Place]
    waiting: tuple[int, ...]
    perhaps: tuple[int, ...]

    @property
    def silent(self) -> list[int]:
        """The ranks of nodes that did not answer."""
        return [rank for rank, view in sorted(self.views.items()) if view.problem]

    @property
    def outside(self) -> list[int]:
        """The ranks that do not wait for others, by their stacks."""
        return [
            rank
            for rank, place in self.places.items()
            if place.known and place.kind not in FOR_OTHERS | PERHAPS_FOR_OTHERS
        ]

    @property
    def waiters(self) -> tuple[int, ...]:
        """The ranks that wait for others or, if no stack shows any, those that may do so."""
        return self.waiting or self.perhaps

    def others(self, some: Sequence[int]) -> str:
        """Return the places of the waiting ranks, as the first part of a sentence about `some`."""
        rest = [rank for rank in self.waiters if rank not in some]
        return f"{at_places(rest, self.places)}; " if rest else ""

    def named(
        self, reason: Reason, odd: Sequence[int], words: str, *, sure: bool
    ) -> WaitExplanation:
        """Return an explanation: where the others wait, and words about the odd ranks."""
        waiting = tuple(rank for rank in self.waiters if rank not in odd)
        return WaitExplanation(f"{self.others(odd)}{words}", reason, tuple(odd), waiting, sure)


def explain(views: Mapping[int, RankView]) -> WaitExplanation:
    """Return the explanation of the waits among the ranks of a job."""
    snapshot = _snapshot(views)
    found = next(one for rule in RULES if (one := rule(snapshot)) is not None)
    if found.reason is Reason.SILENT or not snapshot.silent:
        return found
    return found._replace(sentence=f"{found.sentence}; {_silence(snapshot)}")


def _snapshot(views: Mapping[int, RankView]) -> JobSnapshot:
    places = {rank: place_of(view) for rank, view in sorted(views.items())}
    waiting = (rank for rank, place in places.items() if place.kind in FOR_OTHERS)
    perhaps = (
        rank
        for rank, place in places.items()
        if place.kind in PERHAPS_FOR_OTHERS and not place.active
    )
    return JobSnapshot(views, places, tuple(waiting), tuple(perhaps))


def _in_state(snapshot: JobSnapshot, states: str) -> list[int]:
    """Return the ranks whose worker is in one of these states of processes."""
    workers = {rank: view.worker for rank, view in snapshot.views.items()}
    return [rank for rank, one in sorted(workers.items()) if one and one.state in states]


def _stopped(snapshot: JobSnapshot) -> WaitExplanation | None:
    odd = _in_state(snapshot, "Tt")
    words = _state_words(snapshot, odd)
    return snapshot.named(Reason.STOPPED, odd, words, sure=True) if odd else None


def _state_words(snapshot: JobSnapshot, ranks: Sequence[int]) -> str:
    """Return the state of the workers of these ranks, with details of the first one."""
    if not ranks:
        return ""
    view = snapshot.views[ranks[0]]
    assert view.worker is not None
    if len(ranks) == 1:
        words = state_or_place(view, view.worker)
        return f"{who(ranks, snapshot.views)}, pid {view.pid}, {words}"
    return f"{who(ranks, snapshot.views)} {STATES[view.worker.state].replace('is', 'are', 1)}"


def _silent(snapshot: JobSnapshot) -> WaitExplanation | None:
    if not snapshot.silent or (snapshot.outside and snapshot.waiting):
        return None
    return snapshot.named(Reason.SILENT, snapshot.silent, _silence(snapshot), sure=False)


def _silence(snapshot: JobSnapshot) -> str:
    return f"{who(snapshot.silent, snapshot.views)}: {snapshot.views[snapshot.silent[0]].problem}"


def _mismatch(snapshot: JobSnapshot) -> WaitExplanation | None:
    found = flight.mismatch(snapshot.views)
    if found is None:
        return None
    (_, most), *rest = found.calls
    odd = [rank for _, some in rest for rank in some]
    clear = len(odd) < len(most)
    calls = " and ".join(f"{call} in {ranks_of(some)}" for call, some in found.calls)
    known = snapshot._replace(waiting=most if clear else (), perhaps=())
    words = at_places(odd if clear else [*most, *odd], snapshot.places, snapshot.views)
    words = f"{words}; collective {found.number} of {found.group} is {calls}"
    return known.named(Reason.MISMATCH, odd if clear else (), words, sure=clear)


def _behind(snapshot: JobSnapshot) -> WaitExplanation | None:
    """Find ranks that have not reached a collective and wait for nobody, or else the fewest."""
    found = [*flight.behind(snapshot.views)]
    for one in found:
        free = [rank for rank in one.missing if rank not in snapshot.waiting]
        if free:
            return _missing(snapshot, one, free)
    clearest = max(found, key=lambda one: abs(_more_wait(one)), default=None)
    if clearest is None:
        return None
    if _more_wait(clearest) > 0:
        return _missing(snapshot, clearest, clearest.missing)
    return _opposed(snapshot, clearest)


def _more_wait(found: Behind) -> int:
    """Return the number of ranks that wait in a collective, minus those that are missing there."""
    return len(found.waiting) - len(found.missing)


def _missing(snapshot: JobSnapshot, found: Behind, odd: Sequence[int]) -> WaitExplanation:
    stuck = [rank for rank in found.missing if rank not in odd]
    known, one = snapshot._replace(waiting=(*found.waiting, *stuck)), found.one
    words = at_places(odd, snapshot.places, snapshot.views)
    words = f"{words}, before collective {one.sequence} of {one.group} ({operation(one)})"
    return known.named(Reason.BEHIND, odd, words, sure=True)


def _opposed(snapshot: JobSnapshot, found: Behind) -> WaitExplanation:
    """Blame the few ranks in a collective that most do not reach, as these wait for others too."""
    odd = found.waiting if _more_wait(found) < 0 else ()
    known = snapshot._replace(waiting=found.missing if odd else (), perhaps=())
    ranks = odd or sorted((*found.waiting, *found.missing))
    words = at_places(ranks, snapshot.places, snapshot.views)
    return known.named(Reason.MISMATCH, odd, words, sure=bool(odd))


def _locked(snapshot: JobSnapshot) -> WaitExplanation | None:
    """Find the few ranks that wait for a lock while all others wait for a signal.

    These wait as their program wants it, so nothing shows that they keep the former waiting.
    """
    kinds = {rank: place.kind for rank, place in snapshot.places.items() if not place.active}
    odd = [rank for rank, kind in kinds.items() if kind in LOCKS]
    patient = tuple(rank for rank, kind in kinds.items() if kind is Kind.SIGNAL)
    if not odd or len(odd) > len(patient) or len(odd) + len(patient) < len(snapshot.places):
        return None
    words = at_places(odd, snapshot.places, snapshot.views)
    found = snapshot._replace(waiting=patient).named(Reason.DIFFERENT, odd, words, sure=False)
    return found._replace(waiting=())


def _outside(snapshot: JobSnapshot) -> WaitExplanation | None:
    """Find ranks that do not wait for others; without any, those that wait in native code."""
    native = [rank for rank in snapshot.perhaps if snapshot.places[rank].kind is Kind.NATIVE]
    odd = snapshot.outside or native
    if not odd or not {*snapshot.waiters}.difference(odd):
        return None
    words = at_places(odd, snapshot.places, snapshot.views)
    sure = bool(snapshot.outside and snapshot.waiting and not snapshot.silent)
    return snapshot.named(Reason.OUTSIDE, odd, words, sure=sure)


def _child(snapshot: JobSnapshot) -> WaitExplanation | None:
    held = {
        rank: child.state
        for rank, place in snapshot.places.items()
        if place.kind in FOR_CHILDREN and (child := culprit_child(snapshot.views[rank]))
        if child.state in "TtZ"
    }
    words = at_places([*held], snapshot.places, snapshot.views)
    sure = "Z" not in held.values()
    return snapshot.named(Reason.CHILD, [*held], words, sure=sure) if held else None


def _blocked(snapshot: JobSnapshot) -> WaitExplanation | None:
    odd = [rank for rank in _in_state(snapshot, "D") if rank not in snapshot.waiters]
    if not odd or {*snapshot.outside}.difference(odd):
        return None
    words = _state_words(snapshot, odd)
    return snapshot.named(Reason.BLOCKED, odd, words, sure=bool(snapshot.waiting))


def _unknown(snapshot: JobSnapshot) -> WaitExplanation | None:
    odd = [rank for rank, place in snapshot.places.items() if not place.known]
    if not odd or not snapshot.waiters:
        return None
    worker = snapshot.views[odd[0]].worker
    why = f": {worker.problem}" if worker and worker.problem else ""
    words = f"the stack of {who(odd, snapshot.views)} could not be read{why}"
    return snapshot.named(Reason.UNKNOWN, odd, words, sure=False)


def _different(snapshot: JobSnapshot) -> WaitExplanation | None:
    """Find the minority of ranks that wait for others, or may do so, elsewhere than most."""
    ranks = [*snapshot.waiting, *snapshot.perhaps]
    groups = grouped(ranks, snapshot.places)
    if len(groups) < 2:
        return None
    (_, most), *rest = groups
    odd = [rank for _, some in rest for rank in some]
    clear = len(odd) < len(most)
    words = at_places(odd if clear else ranks, snapshot.places, snapshot.views)
    some = snapshot._replace(waiting=tuple(most) if clear else ())
    some = some if clear else some._replace(perhaps=())
    return some.named(Reason.DIFFERENT, odd if clear else (), words, sure=False)


def _nobody(snapshot: JobSnapshot) -> WaitExplanation:
    ranks = [*snapshot.places]
    words = at_places(ranks, snapshot.places, snapshot.views)
    if len(ranks) > 1 and len(grouped(ranks, snapshot.places)) == 1:
        place = snapshot.places[ranks[0]]
        words = f"all {counted(len(ranks), 'rank')} {place.words(several=True)}"
    elif not ranks:
        words = "no rank is running"
    return WaitExplanation(words, Reason.NOBODY, (), snapshot.waiting, sure=False)


RULES: tuple[Callable[[JobSnapshot], WaitExplanation | None], ...] = (
    *(_stopped, _mismatch, _behind, _silent, _blocked),
    *(_child, _locked, _outside, _unknown, _different, _nobody),
)
