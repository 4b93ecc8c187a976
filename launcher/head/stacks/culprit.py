"""Which rank others wait for, in one sentence. Pure.

Each rule looks for one cause; the first that finds something speaks. No rule guesses: where ranks
do not differ, the sentence says so.
"""

from __future__ import annotations

from enum import Enum

from ...common.values import NamedTuple
from ...common.wording import counted
from . import flight
from .places import FOR_OTHERS, PERHAPS_FOR_OTHERS, Kind, operation, place_of
from .words import (
    FOR_CHILDREN,
    STATES,
    at_places,
    culprit_child,
    grouped,
    ranks_of,
    state_or_place,
    who,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .places import Place
    from .view import RankView


class Reason(Enum):
    """Why ranks are odd.

    Attributes:
        STOPPED: a process is stopped, by a signal or a debugger.
        BLOCKED: it is in a wait of the kernel that cannot be interrupted (state D).
        SILENT: nothing has come from their node.
        MISMATCH: they call another collective than the others, or with other sizes or types.
        BEHIND: they have not come to a collective in which the others wait, by torch's records.
        CHILD: a process that they have started, and wait for, has ended or is stopped.
        OUTSIDE: the others wait for ranks, by their stacks, and these do not.
        UNKNOWN: the others wait for ranks, and the stacks of these could not be read.
        DIFFERENT: they wait for ranks elsewhere than most.
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


class Explanation(NamedTuple):
    """What is known about who waits for whom.

    Attributes:
        sentence: one sentence without a full stop at its end; may have text of workers, so it goes
            through `common/text.plain` before it is printed.
        reason: why these ranks are odd.
        odd: the ranks that others wait for; () if none can be named.
        waiting: the ranks that wait for other ranks, by their stacks or collectives.
        sure: whether the odd ranks follow from what was seen; otherwise it is only likely.
        doubt: what it may be instead of a hang, in words, or "".
    """

    sentence: str
    reason: Reason
    odd: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    sure: bool = False
    doubt: str = ""


class Scene(NamedTuple):
    """All ranks at one moment.

    Attributes:
        places: where each rank is.
        waiting: the ranks that wait for others, by their stacks.
        perhaps: those of which the stacks do not tell.
    """

    views: Mapping[int, RankView]
    places: Mapping[int, Place]
    waiting: tuple[int, ...]
    perhaps: tuple[int, ...]

    @property
    def silent(self) -> list[int]:
        """The ranks of nodes that have not answered."""
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
        """Return where the waiting ranks wait, as the first part of a sentence about `some`."""
        rest = [rank for rank in self.waiters if rank not in some]
        return f"{at_places(rest, self.places)}; " if rest else ""

    def named(self, reason: Reason, odd: Sequence[int], words: str, *, sure: bool) -> Explanation:
        """Return an explanation: where the others wait, and words about the odd ranks."""
        waiting = tuple(rank for rank in self.waiters if rank not in odd)
        return Explanation(f"{self.others(odd)}{words}", reason, tuple(odd), waiting, sure)


def explain(views: Mapping[int, RankView]) -> Explanation:
    """Return who waits for whom among the ranks of a job."""
    scene = _scene(views)
    found = next(one for rule in RULES if (one := rule(scene)) is not None)
    if found.reason is Reason.SILENT or not scene.silent:
        return found
    return found._replace(sentence=f"{found.sentence}; {_silence(scene)}")


def _scene(views: Mapping[int, RankView]) -> Scene:
    places = {rank: place_of(view) for rank, view in sorted(views.items())}
    waiting = (rank for rank, place in places.items() if place.kind in FOR_OTHERS)
    perhaps = (
        rank
        for rank, place in places.items()
        if place.kind in PERHAPS_FOR_OTHERS and not place.active
    )
    return Scene(views, places, tuple(waiting), tuple(perhaps))


def _in_state(scene: Scene, states: str) -> list[int]:
    """Return the ranks whose worker is in one of these states of processes."""
    workers = {rank: view.worker for rank, view in scene.views.items()}
    return [rank for rank, one in sorted(workers.items()) if one and one.state in states]


def _stopped(scene: Scene) -> Explanation | None:
    odd = _in_state(scene, "Tt")
    words = _state_words(scene, odd)
    return scene.named(Reason.STOPPED, odd, words, sure=True) if odd else None


def _state_words(scene: Scene, ranks: Sequence[int]) -> str:
    """Return the state of the workers of these ranks, of the first of them in detail."""
    if not ranks:
        return ""
    view = scene.views[ranks[0]]
    assert view.worker is not None
    if len(ranks) == 1:
        words = state_or_place(view, view.worker)
        return f"{who(ranks, scene.views)}, pid {view.pid}, {words}"
    return f"{who(ranks, scene.views)} {STATES[view.worker.state].replace('is', 'are', 1)}"


def _silent(scene: Scene) -> Explanation | None:
    if not scene.silent or (scene.outside and scene.waiting):
        return None
    return scene.named(Reason.SILENT, scene.silent, _silence(scene), sure=False)


def _silence(scene: Scene) -> str:
    return f"{who(scene.silent, scene.views)}: {scene.views[scene.silent[0]].problem}"


def _mismatch(scene: Scene) -> Explanation | None:
    found = flight.mismatch(scene.views)
    if found is None:
        return None
    (_, most), *rest = found.calls
    odd = [rank for _, some in rest for rank in some]
    clear = len(odd) < len(most)
    calls = " and ".join(f"{call} in {ranks_of(some)}" for call, some in found.calls)
    known = scene._replace(waiting=most if clear else (), perhaps=())
    words = at_places(odd if clear else [*most, *odd], scene.places, scene.views)
    words = f"{words}; collective {found.number} of {found.group} is {calls}"
    return known.named(Reason.MISMATCH, odd if clear else (), words, sure=clear)


def _behind(scene: Scene) -> Explanation | None:
    found = flight.behind(scene.views)
    if found is None:
        return None
    known, one = scene._replace(waiting=found.waiting), found.one
    words = at_places(found.missing, scene.places, scene.views)
    words = f"{words}, before collective {one.sequence} of {one.group} ({operation(one)})"
    return known.named(Reason.BEHIND, found.missing, words, sure=True)


def _outside(scene: Scene) -> Explanation | None:
    """Find ranks that do not wait for others; without any, those that wait in native code."""
    native = [rank for rank in scene.perhaps if scene.places[rank].kind is Kind.NATIVE]
    odd = scene.outside or native
    if not odd or not {*scene.waiters}.difference(odd):
        return None
    words = at_places(odd, scene.places, scene.views)
    sure = bool(scene.outside and scene.waiting and not scene.silent)
    return scene.named(Reason.OUTSIDE, odd, words, sure=sure)


def _child(scene: Scene) -> Explanation | None:
    held = {
        rank: child.state
        for rank, place in scene.places.items()
        if place.kind in FOR_CHILDREN and (child := culprit_child(scene.views[rank]))
        if child.state in "TtZ"
    }
    words = at_places([*held], scene.places, scene.views)
    sure = "Z" not in held.values()
    return scene.named(Reason.CHILD, [*held], words, sure=sure) if held else None


def _blocked(scene: Scene) -> Explanation | None:
    odd = [rank for rank in _in_state(scene, "D") if rank not in scene.waiters]
    if not odd or {*scene.outside}.difference(odd):
        return None
    words = _state_words(scene, odd)
    return scene.named(Reason.BLOCKED, odd, words, sure=bool(scene.waiting))


def _unknown(scene: Scene) -> Explanation | None:
    odd = [rank for rank, place in scene.places.items() if not place.known]
    if not odd or not scene.waiters:
        return None
    worker = scene.views[odd[0]].worker
    why = f": {worker.problem}" if worker and worker.problem else ""
    words = f"the stack of {who(odd, scene.views)} could not be read{why}"
    return scene.named(Reason.UNKNOWN, odd, words, sure=False)


def _different(scene: Scene) -> Explanation | None:
    """Find the minority of ranks that wait for others, or may do so, elsewhere than most."""
    ranks = [*scene.waiting, *scene.perhaps]
    groups = grouped(ranks, scene.places)
    if len(groups) < 2:
        return None
    (_, most), *rest = groups
    odd = [rank for _, some in rest for rank in some]
    clear = len(odd) < len(most)
    words = at_places(odd if clear else ranks, scene.places, scene.views)
    some = scene._replace(waiting=tuple(most) if clear else ())
    some = some if clear else some._replace(perhaps=())
    return some.named(Reason.DIFFERENT, odd if clear else (), words, sure=False)


def _nobody(scene: Scene) -> Explanation:
    ranks = [*scene.places]
    words = at_places(ranks, scene.places, scene.views)
    if len(ranks) > 1 and len(grouped(ranks, scene.places)) == 1:
        place = scene.places[ranks[0]]
        words = f"all {counted(len(ranks), 'rank')} {place.words(several=True)}"
    elif not ranks:
        words = "no rank is running"
    return Explanation(words, Reason.NOBODY, (), scene.waiting, sure=False)


RULES: tuple[Callable[[Scene], Explanation | None], ...] = (
    *(_stopped, _mismatch, _behind, _silent, _blocked),
    *(_child, _outside, _unknown, _different, _nobody),
)
