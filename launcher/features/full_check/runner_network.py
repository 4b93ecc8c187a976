"""The step `network`: measures links side by side, and suspicious ones again, one at a time."""

from __future__ import annotations

import secrets
from itertools import combinations

from ...common.records import NamedTuple
from .messages import Link, Listen, Listening, MeasureLink
from .runner_link_words import fault
from .runner_pairs import rounds
from .runner_steps import Step, StepFailed, StepRequest, StepResult, answered
from .runner_verdict import REACH, SURE, essential, suspects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from .json_types import LinkRow, NetworkJson
    from .runner_pairs import Pair
    from .runner_steps import Answers, MeasuredFault, Script
    from .runner_verdict import Nodes

    Links: TypeAlias = dict[Pair, Link | StepFailed]

LISTEN, MEASURE = 20.0, 30.0
"""Seconds for an answer; the first one includes the start of the programs."""

PINGS = 200
"""Round trips per measurement."""

GROUP = 4
"""Nodes among which something is measured again: all links between them, one at a time."""

TRIES = 4
"""The number of times that slightly bad values are measured again."""

MOST = 8
"""Suspects that are measured again, so that the check ends in time."""


class Effort(NamedTuple):
    """The effort for a link: streams each way, and the seconds of each."""

    streams: int
    seconds: float


SIDE_BY_SIDE, ALONE = Effort(2, 0.1), Effort(3, 0.1)


class _Doors:
    """The addresses and tokens of the nodes that listen."""

    def __init__(self, tokens: Mapping[str, str], listening: Mapping[str, Listening]) -> None:
        self._tokens = tokens
        self._listening = listening
        self.names = [name for name in tokens if name in listening]

    def measure(
        self, pairs: Sequence[Pair], effort: Effort, doing: str
    ) -> Generator[StepRequest, Answers, Links]:
        """Measure disjoint links side by side: the first node of each calls the second."""
        requests = {one: self._request(other, effort) for one, other in pairs}
        answers = yield StepRequest("measure", requests, Link, MEASURE, doing)
        return {(one, other): answers[one] for one, other in pairs}

    def _request(self, name: str, effort: Effort) -> MeasureLink:
        door = self._listening[name]
        return MeasureLink(door.addresses, door.port, self._tokens[name], PINGS, *effort)


def script(names: Sequence[str]) -> Script:
    """Measure the links between these nodes, and report links that are bad twice."""
    tokens = {name: secrets.token_hex(16) for name in names}
    requests = {name: Listen(tokens[name], _peers(names, at)) for at, name in enumerate(names)}
    answers = yield StepRequest("listen", requests, Listening, LISTEN)
    listening, failed = answered(answers, Listening)
    doors = _Doors(tokens, listening)
    links = yield from _all(doors)
    suspected = suspects(links)
    groups = {nodes: _group(nodes, doors.names, suspected) for nodes in list(suspected)[:MOST]}
    alone = yield from _again(doors, groups, links)
    faults = _confirmed(groups, suspected, alone)
    notes = [f"{name} was not measured: {why}" for name, why in failed.items()]
    if len(suspected) > MOST:
        notes.append(f"{len(suspected)} nodes or links looked bad; {MOST} were measured again")
    measured: NetworkJson = {
        "links": [_row(*one) for one in links.items()],
        "links_alone": [_row(*one) for one in alone.items()],
    }
    return StepResult(tuple(faults), measured, tuple(notes))


STEP = Step("network", "network", script)


def _peers(names: Sequence[str], at: int) -> tuple[str, ...]:
    """Return the next few nodes."""
    return (*names[at + 1 : at + 4], *names[: max(0, min(at, at + 4 - len(names)))])


def _all(doors: _Doors) -> Generator[StepRequest, Answers, Links]:
    """Measure all links, or enough of them, in rounds."""
    links: Links = {}
    turns = rounds(doors.names)
    for at, pairs in enumerate(turns, 1):
        doing = f"round {at} of {len(turns)}"
        links |= yield from doors.measure(pairs, SIDE_BY_SIDE, doing)
    return links


def _again(
    doors: _Doors, groups: Mapping[Nodes, Sequence[str]], links: Links
) -> Generator[StepRequest, Answers, Links]:
    """Measure the links of each suspect's group while nothing else is measured.

    Slightly bad values are measured several times: a busy machine may be slow for a while.
    """
    best: Links = {}
    for _ in range(TRIES):
        for pair in dict.fromkeys(pair for group in groups.values() for pair in _links(group)):
            doing = f"{pair[0]} and {pair[1]} again"
            one = yield from doors.measure([pair], ALONE, doing)
            best[pair] = _better(one[pair], best.get(pair) or links.get(pair))
        groups = {nodes: group for nodes, group in groups.items() if _is_unsure(nodes, group, best)}
    return best


def _links(group: Sequence[str]) -> list[Pair]:
    return list(combinations(group, 2))


def _is_unsure(nodes: Nodes, group: Sequence[str], best: Links) -> bool:
    links = {pair: best[pair] for pair in _links(group)}
    return nodes in suspects(links) and nodes not in suspects(links, SURE)


def _group(nodes: Nodes, names: Sequence[str], suspected: Iterable[Nodes]) -> list[str]:
    """Return the nodes and others to compare them with, in order; those without suspicion first."""
    doubtful = {name for one in suspected for name in one}
    others = [name for name in names if name not in nodes]
    others.sort(key=doubtful.__contains__)
    chosen = {*nodes, *others[: GROUP - len(nodes)]}
    return [name for name in names if name in chosen]


def _better(one: Link | StepFailed, before: Link | StepFailed | None) -> Link | StepFailed:
    """Return a measurement with the best times and rates of both."""
    if not isinstance(before, Link):
        return one
    if not isinstance(one, Link):
        return before
    return one._replace(
        best_s=min(one.best_s, before.best_s),
        out=max(one.out, before.out),
        out_free=max(one.out_free, before.out_free),
        back=max(one.back, before.back),
        back_free=max(one.back_free, before.back_free),
    )


def _confirmed(
    groups: Mapping[Nodes, Sequence[str]], suspected: Mapping[Nodes, Sequence[str]], best: Links
) -> list[MeasuredFault]:
    """Return the suspects that are bad again in their group, in one way at least.

    A link that failed was not measured otherwise; it may carry something when it is alone.
    """
    faults = []
    for nodes, group in groups.items():
        links = {pair: best[pair] for pair in _links(group)}
        again = suspects(links).get(nodes, [])
        if again and set(suspected[nodes]) & {REACH, *again}:
            faults.append(fault(nodes, again, links))
    return essential(faults)


def _row(pair: Pair, link: Link | StepFailed) -> LinkRow:
    if isinstance(link, StepFailed):
        return {"nodes": list(pair), "failed": link.why}
    return {
        "nodes": list(pair),
        "address": link.address,
        "best_s": link.best_s,
        "median_s": link.median_s,
        "out": link.out,
        "out_free": link.out_free,
        "back": link.back,
        "back_free": link.back_free,
        "sent": link.sent,
        "resent": link.resent,
        "back_sent": link.back_sent,
        "back_resent": link.back_resent,
    }
