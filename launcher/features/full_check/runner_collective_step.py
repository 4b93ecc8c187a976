"""The step of the full check that reduces with torch: all nodes together, and in pairs.

It uses the workers' Python, and NCCL where there are GPUs. The sums are checked, too.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import combinations

from ...common.records import NamedTuple
from ...common.text import plain
from . import runner_pairs as pairs
from . import runner_verdict as verdict
from .measurements import JoinGroup, Pair, Pairs, Prepare, ReadyForCollectives, Reduced, Reductions
from .runner_matrix import number
from .runner_steps import MeasuredFault, Step, StepFailed, StepRequest, StepResult, answered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence
    from typing import Any, TypeAlias

    from .json_types import AllReduce, Collectives
    from .runner_steps import Answers, Script

    Found: TypeAlias = dict[tuple[str, ...], Reduced]
    Links: TypeAlias = dict[tuple[str, str], Reduced]

PREPARE, JOIN = 90.0, 45.0
"""Seconds to import torch, and to form a group and reduce with all."""

ROUND = 10.0
"""Seconds for a round of pairs, besides torch's 20 s until a failure."""

FAILURE = 30.0

MOST = 8
"""Suspects that are measured again."""

METRICS = (
    verdict.LinkMetric("latency", lambda one: one.latency, 5, 0.005),
    verdict.LinkMetric("bandwidth", lambda one: 1 / max(1.0, one.bandwidth), 4, 0),
)
"""The limits for a bad pair; its latency must differ by more than a scheduler's tick."""

ADVICE = {
    "slow_collective": "compare with the network step; with NCCL, look for a transport that other "
    "nodes use and this one does not (NCCL_DEBUG=INFO)",
    "wrong_sum": "take the node out of use: look for memory errors (dmesg, nvidia-smi -q)",
    "failed_collective": "see which network the nodes have in common (GLOO_SOCKET_IFNAME, "
    "NCCL_SOCKET_IFNAME), and whether a firewall closes its ports",
}


class _Group(NamedTuple):
    """The nodes that take part, and their settings."""

    names: tuple[str, ...]
    backend: str
    notes: tuple[str, ...]


def step(python: str = "") -> Step:
    """Return the step, for this Python of the workers."""
    return Step("collectives", "collective", partial(_script, python))


def _script(python: str, names: Sequence[str]) -> Script:
    requests = dict.fromkeys(names, Prepare(python))
    answers = yield StepRequest(
        "prepare", requests, ReadyForCollectives, PREPARE, "importing torch"
    )
    good, failed = answered(answers, ReadyForCollectives)
    group = _group({name: good[name] for name in names if name in good}, failed)
    if len(group.names) < 2:
        nothing: Collectives = {"backend": group.backend, "all": [], "pairs": []}
        return StepResult((), nothing, (*group.notes, "collectives: fewer than two nodes"))
    work = _Work(group.names)
    yield from work.ask("join", _joins(group.names, good), JOIN, "all nodes")
    links: Links = {}
    turns = pairs.rounds(group.names)
    if not work.failed:
        links = yield from work.reduce(turns, "pairs")
    named = yield from _named(work, links)
    faults = (*work.faults(), *named)
    measured: Collectives = {
        "backend": group.backend,
        "all": work.rows(group.names),
        "pairs": work.rows(),
    }
    return StepResult(faults, measured, group.notes)


def _group(good: Mapping[str, ReadyForCollectives], failed: Mapping[str, str]) -> _Group:
    """Return the nodes that use the most common settings, and a line about each other node."""
    why = {**failed, **{name: one.missing for name, one in good.items() if one.missing}}
    ready = {name: one.backend for name, one in good.items() if not one.missing}
    backend = Counter(ready.values()).most_common(1)[0][0] if ready else ""
    other = {name: f"it would use {own}, others use {backend}" for name, own in ready.items()}
    why |= {name: text for name, text in other.items() if ready[name] != backend}
    notes = [f"{name}: left out of the collectives: {plain(text)}" for name, text in why.items()]
    return _Group(tuple(name for name in ready if name not in why), plain(backend), tuple(notes))


def _joins(names: Sequence[str], good: Mapping[str, ReadyForCollectives]) -> dict[str, JoinGroup]:
    first = good[names[0]]
    ranks = tuple(good[name].ranks for name in names)
    addresses = (*first.addresses, names[0])
    return {name: JoinGroup(at, ranks, addresses, first.port) for at, name in enumerate(names)}


def _named(work: _Work, links: Links) -> Generator[StepRequest, Answers, list[MeasuredFault]]:
    """Measure slow links again, one pair at a time, and report those that are slow again."""
    named = []
    suspects = [] if work.failed else [*verdict.suspects(links, METRICS)]
    for nodes in suspects[:MOST]:
        others = [name for name in work.names if name not in nodes]
        some = [name for name in work.names if name in {*nodes, *others[: 4 - len(nodes)]}]
        alone = [[pair] for pair in combinations(some, 2)]
        again = yield from work.reduce(alone, f"{' and '.join(nodes)} again")
        if nodes in verdict.suspects(again, METRICS):
            named.append(_slow(nodes, again))
    return verdict.essential(named)


def _slow(nodes: Sequence[str], links: Links) -> MeasuredFault:
    here = [one for pair, one in links.items() if set(nodes) <= set(pair)]
    others = [one for pair, one in links.items() if not set(nodes) <= set(pair)]
    text = f"an all-reduce between two nodes takes {_shown(here)}, elsewhere {_shown(others)}"
    return MeasuredFault("slow_collective", tuple(nodes), text, ADVICE["slow_collective"])


def _shown(some: Sequence[Reduced]) -> str:
    latency = verdict.median(one.latency for one in some)
    bandwidth = verdict.median(one.bandwidth for one in some)
    return f"{number(latency * 1000)} ms and runs at {number(bandwidth / 1e6)} MB/s"


def blamed(wrong: Sequence[tuple[str, ...]], reduced: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the nodes whose sums with every other node are wrong, else all that took part."""
    involved = dict.fromkeys(node for nodes in wrong for node in nodes)
    pairs_of = {
        node: {nodes for nodes in reduced if len(nodes) == 2 and node in nodes} for node in involved
    }
    always = [node for node, some in pairs_of.items() if some and some <= {*wrong}]
    return tuple(always or involved)


class _Work:
    """Asks the nodes of a group to reduce, and keeps their reports.

    Attributes:
        names: the names of the nodes, by their places.
        failed: the reasons of failures, by node; after a failure, nothing more is asked.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.failed: dict[str, str] = {}
        self._seen: Found = {}

    def ask(
        self, do: str, requests: Mapping[str, Any], seconds: float, doing: str
    ) -> Generator[StepRequest, Answers, Found]:
        """Return the results, for each group the worst report of its members."""
        answers = yield StepRequest(do, requests, Reductions, seconds, doing)
        found: Found = {}
        for name, answer in answers.items():
            if isinstance(answer, StepFailed):
                self.failed[name] = answer.why
                continue
            if answer.failed:
                self.failed[name] = plain(answer.failed)
            for row in answer.rows:
                self._take(name, row, found)
        self._seen |= {nodes: one for nodes, one in found.items() if nodes not in self._seen}
        return found

    def reduce(
        self, turns: Sequence[Sequence[tuple[str, str]]], doing: str
    ) -> Generator[StepRequest, Answers, Links]:
        """Reduce in rounds of pairs."""
        place = {name: at for at, name in enumerate(self.names)}
        rows = [
            Pair(at, place[one], place[other])
            for at, turn in enumerate(turns)
            for one, other in turn
        ]
        requests = dict.fromkeys(self.names, Pairs(tuple(rows)))
        seconds = FAILURE + ROUND * len(turns)
        found = yield from self.ask("pairs", requests, seconds, doing)
        return {(nodes[0], nodes[1]): one for nodes, one in found.items() if len(nodes) == 2}

    def _take(self, name: str, row: Reduced, found: Found) -> None:
        """Keep a report, unless it is about unknown nodes, or not about its sender."""
        nodes = tuple(self.names[at] for at in sorted(row.places) if at < len(self.names))
        if name not in nodes or len(nodes) != len(row.places):
            return
        old = found.get(nodes, row)
        found[nodes] = row._replace(
            latency=max(old.latency, row.latency),
            bandwidth=min(old.bandwidth, row.bandwidth),
            wrong=max(old.wrong, row.wrong),
        )

    def rows(self, nodes: Iterable[str] = ()) -> list[AllReduce]:
        """Return the measurements for the result: of these nodes together, else of all pairs."""
        wanted = tuple(nodes)
        return [
            {
                "nodes": list(names),
                "latency_s": one.latency,
                "bandwidth_bytes_per_s": one.bandwidth,
                "wrong": one.wrong,
            }
            for names, one in self._seen.items()
            if (names == wanted if wanted else len(names) == 2)
        ]

    def faults(self) -> list[MeasuredFault]:
        """Return the wrong results and the failures."""
        wrong = []
        if counts := {nodes: one.wrong for nodes, one in self._seen.items() if one.wrong}:
            text = f"up to {max(counts.values())} elements of an all-reduce sum are wrong"
            nodes = blamed([*counts], [*self._seen])
            wrong = [MeasuredFault("wrong_sum", nodes, text, ADVICE["wrong_sum"])]
        if not self.failed:
            return wrong
        texts = "; ".join(dict.fromkeys(self.failed.values()))
        failed = MeasuredFault(
            "failed_collective", (*self.failed,), texts, ADVICE["failed_collective"]
        )
        return [*wrong, failed]
