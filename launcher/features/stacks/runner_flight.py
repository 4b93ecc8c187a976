"""Compare the collectives of ranks in torch's flight recorder: which ranks are behind. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple
from .runner_wait_kinds import COMPLETED, operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    from .messages import Collective
    from .runner_view import RankView

    Recorded: TypeAlias = dict[int, dict[int, Collective]]
    Groups: TypeAlias = dict[tuple[str, tuple[int, ...]], Recorded]

POINT_TO_POINT = ("send", "recv", "isend", "irecv", "coalesced")
"""Operations between two ranks, which are numbered separately from the group's."""

SAME_SIZES = {
    *("all_reduce", "allreduce", "broadcast", "reduce", "reduce_scatter", "allreduce_coalesced"),
    *("_all_gather_base", "_allgather_base", "_reduce_scatter_base", "all_reduce_coalesced"),
}
"""Operations for which all ranks' inputs must have equal sizes and types."""


class Behind(NamedTuple):
    """Ranks that have not reached a collective in which other ranks of the group wait.

    Attributes:
        missing: the ranks that are behind.
        waiting: the ranks that wait.
        one: the collective, as recorded by a waiting rank.
    """

    missing: tuple[int, ...]
    waiting: tuple[int, ...]
    one: Collective


class Mismatch(NamedTuple):
    """The ranks of a group call different operations as one collective.

    Attributes:
        number: the number of the collective in the group.
        calls: the operations, in words, with the ranks that call them, the most frequent first.
    """

    group: str
    number: int
    calls: tuple[tuple[str, tuple[int, ...]], ...]


def mismatch(views: Mapping[int, RankView]) -> Mismatch | None:
    """Return the first unfinished collective that ranks call differently.

    One rank can complete a collective before others call it: one that broadcasts only sends. A
    different operation therefore counts until all have completed theirs, different sizes only
    until one has.
    """
    for (group, _), ranks in _groups(views).items():
        numbers = {number for known in ranks.values() for number in known}
        for number in sorted(numbers):
            found = _differing(group, number, ranks)
            if found is not None:
                return found
    return None


def _differing(group: str, number: int, ranks: Recorded) -> Mismatch | None:
    here = {rank: known[number] for rank, known in ranks.items() if number in known}
    operations = {operation(one) for one in here.values()}
    sized = len(operations) == 1
    over = (any if sized else all)(one.state == COMPLETED for one in here.values())
    if over or (sized and not operations <= SAME_SIZES):
        return None
    calls: dict[tuple[str, ...], list[int]] = {}
    for rank, one in here.items():
        more = (f"{one.sizes} {one.types}",) if sized else ()
        calls.setdefault((operation(one), *more), []).append(rank)
    if len(calls) < 2:
        return None
    most_first = sorted(calls.items(), key=lambda item: -len(item[1]))
    words = ((" of ".join([name, *sizes]), tuple(some)) for (name, *sizes), some in most_first)
    return Mismatch(group, number, tuple(words))


def behind(views: Mapping[int, RankView]) -> Iterator[Behind]:
    """Yield for each group the ranks that have not reached its first unfinished collective.

    On a device, ranks may have called later ones, which queue behind the first one.
    """
    for ranks in _groups(views).values():
        unfinished = [
            one for known in ranks.values() for one in known.values() if one.state != COMPLETED
        ]
        if unfinished:
            first = min(unfinished, key=lambda one: one.sequence)
            missing = tuple(rank for rank, known in ranks.items() if max(known) < first.sequence)
            if missing:
                waiting = tuple(rank for rank in ranks if rank not in missing)
                yield Behind(missing, waiting, first)


def _groups(views: Mapping[int, RankView]) -> Groups:
    """Return, for each group whose members all have records, the collectives by number."""
    groups: Groups = {}
    for rank, view in sorted(views.items()):
        for one in view.collectives:
            if not operation(one).startswith(POINT_TO_POINT):
                ranks = groups.setdefault((one.group, one.members), {})
                ranks.setdefault(rank, {})[one.sequence] = one
    return {key: known for key, known in groups.items() if set(key[1]) <= known.keys()}
