"""What holds for every job, whatever happens to it: these rules know no faults.

What a fault excuses is listed in `exceptions`.
"""

from __future__ import annotations

import json
import signal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from .facts import KILL, STOP_SIGNALS, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .facts import Facts, Problem, Process

SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "report.schema.json"

SLACK = 1e-6
"""Seconds by which a time may be rounded."""

LATE = 1.5
"""Seconds after the grace until SIGKILL must have been sent."""

SOON = 1.0
"""Seconds after the end of the last worker on a host until what it has left has ended."""

NOTICED = 2.0
"""Seconds after its end until the runner hears of a failure, over the slowest network."""

LOST, TOO_FEW, NO_PROGRESS, OUTPUT, INTERNAL = 75, 76, 77, 74, 70


def about(process: Process, index: int, text: str) -> Finding:
    """Return a finding about a process."""
    return Finding(index, f"{process}: {text}", process.host, process.rank)


# -- the history itself ---------------------------------------------------------------------


def sound_history(facts: Facts) -> Iterator[Finding]:
    """One job, times that only grow, and no event of a process that is not there."""
    jobs = [index for index, _ in facts.of_kind("job")]
    if len(jobs) != 1:
        yield Finding(-1, f"{len(jobs)} jobs")
    for index, (one, other) in enumerate(pairwise(facts.history)):
        if other.time < one.time:
            yield Finding(index + 1, f"{other.time} after {one.time}")
    for index in facts.strays:
        event = facts.history[index]
        yield Finding(index, f"{event.kind}: pid {event['pid']} of {event.host}", event.host)


# -- the end --------------------------------------------------------------------------------


def one_report(facts: Facts) -> Iterator[Finding]:
    """There is exactly one report."""
    found = [index for index, _ in facts.of_kind("report")]
    if len(found) != 1:
        yield Finding(found[1] if found else -1, f"{len(found)} reports")


def one_exit(facts: Facts) -> Iterator[Finding]:
    """The runner ends exactly once."""
    found = [index for index, _ in facts.of_kind("exit")]
    if len(found) != 1:
        yield Finding(found[1] if found else -1, f"{len(found)} exits")


def report_shape(facts: Facts) -> Iterator[Finding]:
    """The report is as its schema says, and no internal error."""
    for index, event in facts.of_kind("report"):
        wrong = next(_validator().iter_errors(event.fields["report"]), None)
        if wrong is not None:
            yield Finding(index, wrong.message[:200])
        if event.fields["report"].get("cause") == "internal error":
            yield Finding(index, f"internal error: {event.fields['report'].get('error')}")


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(SCHEMA.read_text()))


def codes_agree(facts: Facts) -> Iterator[Finding]:
    """Exit code, the code in the report and what the report says are the same."""
    if not facts.report:
        return
    code = facts.report.get("exit_code")
    for index, event in facts.of_kind("exit"):
        if event.fields["code"] != code:
            yield Finding(index, f"exit code {event['code']}, in the report {code}")
    allowed = codes_of(facts.report)
    if allowed and code not in allowed:
        yield Finding(-1, f"{code} for the cause {facts.report.get('cause')!r}, not {allowed}")


def codes_of(report: dict[str, Any]) -> tuple[int, ...]:
    """Return the exit codes that fit what a report says; () for a job that was refused."""
    first = report.get("first_failure") or {}
    whole = any(not one["host"] for one in report.get("lost", ()))
    codes: dict[str, tuple[int, ...]] = {
        "none": (LOST,) if report.get("left") else (0, OUTPUT),
        "failure": (first.get("exit_code", 0),),
        "lost": (LOST, TOO_FEW) if whole else (LOST,),
        "no progress": (NO_PROGRESS,),
        "signal": (128 + (report.get("signal") or 0), 0),
        "broken pipe": (128 + signal.SIGPIPE,),
        "internal error": (INTERNAL,),
    }
    return codes.get(report.get("cause", ""), ())


def failures_true(facts: Facts) -> Iterator[Finding]:
    """Each failure in the report is the end of a worker that ended so, and was not told to."""
    for one in facts.report.get("failures", ()):
        if not one["pid"]:
            if one["exit_code"] != 126:
                yield Finding(-1, f"rank {one['rank']} was not started", one["host"], one["rank"])
            continue
        where = (one["host"], one["pid"], one["rank"])
        found = [w for w in facts.workers if (w.host, w.pid, w.rank) == where]
        if not found:
            yield Finding(-1, f"no worker was {where}", one["host"], one["rank"])
            continue
        name = one["signal"]
        code = -signal.Signals[name] if name else one["code"]
        if found[-1].code != code:
            yield about(found[-1], -1, f"ended with {found[-1].code}, reported {code}")
        elif told := found[-1].sent((*STOP_SIGNALS, KILL)):
            yield about(found[-1], told[0].at, f"failed, but was sent signal {told[0].number}")


def success_true(facts: Facts) -> Iterator[Finding]:
    """With exit code 0 every rank of the last round has ended with 0."""
    if facts.exit_code != 0 or facts.report.get("signal"):
        return
    last = [one for one in facts.workers if one.round == facts.last_round]
    for worker in last:
        if worker.status != 0:
            yield about(worker, -1, f"ended with {worker.code}, exit code 0")
    missing = set(range(max((one.world for one in last), default=1))) - {one.rank for one in last}
    for rank in sorted(missing):
        yield Finding(-1, f"rank {rank} has not run, exit code 0", rank=rank)


def within_bound(facts: Facts) -> Iterator[Finding]:
    """It ended in time."""
    for index, event in facts.of_kind("exit"):
        if event.time > facts.asked("bound", float("inf")):
            yield Finding(index, f"ended at {event.time:g} s, bound {facts.asked('bound'):g} s")


def report_is_last(facts: Facts) -> Iterator[Finding]:
    """After the report no round, restart or worker begins, and no line is shown."""
    end = next((index for index, _ in facts.of_kind("report")), len(facts.history))
    for index, event in facts.of_kind("round", "restart", "worker", "shown"):
        if index > end and event.fields.get("rank", 0) >= 0:
            rank = event.fields.get("rank", -1)
            yield Finding(index, f"{event.kind} after the report", event.host, rank)


def nothing_left(facts: Facts) -> Iterator[Finding]:
    """At the end there is no process, port or file of the job. Texts begin with `HOST: `."""
    found = list(facts.of_kind("left"))
    if len(found) != 1:
        yield Finding(-1, f"{len(found)} looks at what is left")
    for index, event in found:
        for kind in ("processes", "ports", "files"):
            for text in event.fields[kind]:
                yield Finding(index, f"{kind}: {text}", text.partition(":")[0])
    for one in facts.processes:
        if one.status is None and one.role != "stranger":
            yield about(one, -1, "has not ended")


def children_end_soon(facts: Facts) -> Iterator[Finding]:
    """What is left of workers that have ended well is ended at once, if nothing goes wrong."""
    several = facts.asked("elastic") or facts.asked("background") or facts.asked("of") is not None
    if several or facts.first("fault") is not None:
        return
    for host in {one.host for one in facts.workers}:
        here = [one for one in facts.workers if one.host == host]
        last = max(one.ended_at for one in here)
        for child in facts.processes if all(one.status == 0 for one in here) else ():
            if (child.host, child.role) == (host, "child") and child.ended_at > last + SOON:
                yield about(child, -1, f"lived for {child.ended_at - last:g} s")


def strangers_alive(facts: Facts) -> Iterator[Finding]:
    """No process of dsrun has signalled a process that is not of the job, and none has died."""
    for index, process in facts.stranger_signals:
        yield about(process, index, "was signalled")
    for index, event in facts.of_kind("left"):
        for text in event.fields["strangers_killed"]:
            yield Finding(index, f"killed: {text}", text.partition(":")[0])


def resources_level(facts: Facts) -> Iterator[Finding]:
    """A long-lived process has as many descriptors and timers after a job as before it."""
    before: dict[str, Any] = {}
    for index, event in facts.of_kind("resources"):
        now = event.fields["descriptors"], event.fields["timers"]
        if event.fields["when"] == "before":
            before[event.host] = now
        elif before.pop(event.host, None) != now:
            yield Finding(index, f"{event.host}: other descriptors or timers: {now}", event.host)
    for host in before:
        yield Finding(-1, f"{host}: not counted after the job", host)


def looks_answered(facts: Facts) -> Iterator[Finding]:
    """Each command that asks the job is answered once, or sees its end."""
    told: dict[int, list[str]] = {}
    for _, event in facts.of_kind("look"):
        told.setdefault(event.fields["number"], []).append(event.fields["what"])
    for number, (_, *rest) in told.items():
        if len(rest) > 2 or rest[:1] == [] or rest.count("answered") + rest.count("refused") > 1:
            yield Finding(-1, f"look {number}: {rest}")


# -- output ---------------------------------------------------------------------------------

OUTPUT_RULES = (
    *("lines_once", "lines_in_order", "lines_whole", "lines_printed"),
    *("no_middle_lost", "end_shown"),
)
"""Every line of a worker is shown once, whole, in its rank's order; see `output`."""


def input_in_order(facts: Facts) -> Iterator[Finding]:
    """Rank 0 reads what the runner reads: whole lines in their order, and all before it ends."""
    fed = [event.fields["line"] for _, event in facts.of_kind("fed")]
    took = [(index, event.fields["line"]) for index, event in facts.of_kind("took")]
    for number, (index, line) in enumerate(took):
        if number >= len(fed) or line != fed[number]:
            yield Finding(index, f"line {number} of the input was read as {line[:40]!r}", rank=0)
            return
    if len(took) < len(fed) and any(one.rank == 0 and one.status == 0 for one in facts.workers):
        yield Finding(-1, f"{len(took)} of {len(fed)} lines of the input were read", rank=0)


# -- ranks, workers and rounds --------------------------------------------------------------


def _beside(facts: Facts) -> Iterator[tuple[Process, Process]]:
    """Return each worker with each of those that lived when it began."""
    live: list[Process] = []
    for worker in facts.workers:
        live = [one for one in live if one.died > worker.since]
        yield from ((worker, other) for other in live)
        live.append(worker)


def one_worker_per_rank(facts: Facts) -> Iterator[Finding]:
    """Never two live workers of one rank at a time."""
    for worker, other in _beside(facts):
        if worker.rank == other.rank:
            yield about(other, worker.since, f"lives beside {worker}")


def one_round_at_a_time(facts: Facts) -> Iterator[Finding]:
    """Never workers of two rounds at a time, on whatever hosts."""
    for worker, other in _beside(facts):
        if worker.round != other.round:
            yield about(other, worker.since, f"lives beside {worker}")


def rank_once_a_round(facts: Facts) -> Iterator[Finding]:
    """In a round each rank is given to one worker."""
    seen: set[tuple[int, int]] = set()
    for worker in facts.workers:
        if (worker.round, worker.rank) in seen:
            yield about(worker, worker.since, "the second one of this round")
        seen.add((worker.round, worker.rank))


def spare_used_once(facts: Facts) -> Iterator[Finding]:
    """A process, such as a fork that waits for its place, is a worker once."""
    for index in facts.taken_twice:
        event = facts.history[index]
        text = f"pid {event['pid']} was a worker already, now rank {event['rank']}"
        yield Finding(index, text, event.host, event.fields["rank"])


def dense_ranks(facts: Facts) -> Iterator[Finding]:
    """The ranks of a round are 0 to n - 1, in the order of its hosts."""
    for index, event in facts.of_kind("round"):
        ranks = [rank for some in event.fields["ranks"].values() for rank in some]
        if ranks != list(range(len(ranks))):
            yield Finding(index, f"round {event['number']}: {ranks}")


def host_order(facts: Facts) -> Iterator[Finding]:
    """The hosts of a round are in the order in which they were given, with all their workers."""
    nodes: dict[str, int] = facts.asked("nodes", {})
    for index, event in facts.of_kind("round"):
        known = [host for host in event.fields["ranks"] if host in nodes]
        if known != [host for host in nodes if host in event.fields["ranks"]]:
            yield Finding(index, f"round {event['number']}: {known}, given: {list(nodes)}")
        for host in known:
            if len(event.fields["ranks"][host]) != nodes[host]:
                yield Finding(
                    index, f"{host}: {event.fields['ranks'][host]}, not {nodes[host]}", host
                )


def rounds_grow(facts: Facts) -> Iterator[Finding]:
    """The number of each round is larger than that of the one before."""
    for (_, one), (index, other) in pairwise(facts.of_kind("round")):
        if other.fields["number"] <= one.fields["number"]:
            yield Finding(index, f"round {other['number']} after {one['number']}")


def _places(facts: Facts) -> dict[int, dict[str, list[int]]]:
    """Return the ranks of each host by round, as the runner sees them."""
    found = {event.fields["number"]: event.fields["ranks"] for _, event in facts.of_kind("round")}
    nodes: dict[str, int] = facts.asked("nodes", {})
    if not found and not facts.asked("elastic") and facts.asked("least", 0) in {0, len(nodes)}:
        first, ranks = 0, {}
        for host, count in nodes.items():
            ranks[host] = list(range(first, first + count))
            first += count
        found = {one.round: ranks for one in facts.workers}
    return found


def worlds_equal(facts: Facts) -> Iterator[Finding]:
    """All workers of a round know the same size of the world, which is that of the round."""
    sizes = {
        number: sum(map(len, ranks.values())) for number, ranks in _places(facts).items() if ranks
    }
    for worker in facts.workers:
        size = sizes.setdefault(worker.round, worker.world)
        if worker.world != size:
            yield about(worker, worker.since, f"a world of {worker.world}, not {size}")


def ranks_in_place(facts: Facts) -> Iterator[Finding]:
    """A worker runs on the host to which the round has given its rank."""
    places = _places(facts)
    for worker in facts.workers:
        ranks = places.get(worker.round)
        if ranks is not None and worker.rank not in ranks.get(worker.host, ()):
            yield about(worker, worker.since, f"the round has {ranks}")


def restarts_in_budget(facts: Facts) -> Iterator[Finding]:
    """The runner restarts at most `max_restarts` times, in the whole job or in each `window`."""
    found = [index for index, _ in facts.of_kind("restart")]
    failed = [_failed_at(facts, *pair) for pair in pairwise([0, *found])]
    most, window = facts.asked("max_restarts", 0), facts.asked("window", 0.0)
    for at in range(most, len(found)):
        if not window or failed[at] - failed[at - most] < window - NOTICED:
            yield Finding(found[at], f"restart {at + 1} of {most}")


def _failed_at(facts: Facts, since: int, until: int) -> float:
    """Return when the first worker failed between two events."""
    ended = [one for one in facts.workers if since < one.died < until and one.status]
    failed = [one.ended_at for one in ended if not one.sent((*STOP_SIGNALS, KILL))]
    return min(failed, default=facts.history[until].time)


# -- shards ---------------------------------------------------------------------------------


def shards_once(facts: Facts) -> Iterator[Finding]:
    """A shard is given once, and again only after its holder has failed or was told to end."""
    holders: dict[Any, tuple[int, int]] = {}
    for index, event in facts.of_kind("shard"):
        shard, rank = event.fields["shard"], event.fields["rank"]
        if shard in holders and not _has_failed(facts, *holders[shard], index):
            given, holder = holders[shard]
            worker = facts.live_worker(holder, given)
            text = f"shard {shard} was given to rank {holder}, now to rank {rank}"
            yield Finding(index, text, worker.host if worker is not None else "", rank)
        holders[shard] = index, rank


def _has_failed(facts: Facts, given: int, rank: int, index: int) -> bool:
    """Return whether the worker that was given a shard at one event has failed by another."""
    holder = facts.live_worker(rank, given)
    if holder is None or holder.died > index:
        return False
    return bool(holder.status) or bool(holder.sent((*STOP_SIGNALS, KILL)))


# -- signals --------------------------------------------------------------------------------


def one_stop_signal(facts: Facts) -> Iterator[Finding]:
    """Workers get one stop signal."""
    for worker in facts.workers:
        for one in worker.sent(STOP_SIGNALS)[1:]:
            yield about(worker, one.at, f"another stop signal, {one.number}")


def stop_before_kill(facts: Facts) -> Iterator[Finding]:
    """Workers get a stop signal before SIGKILL."""
    for worker, kill, stops in _kills(facts):
        if not stops:
            yield about(worker, kill, "SIGKILL without a stop signal")


def grace_from_below(facts: Facts) -> Iterator[Finding]:
    """Workers get SIGKILL no earlier than the grace after their stop signal."""
    grace = facts.asked("grace", 0.0)
    for worker, kill, stops in _kills(facts):
        if stops and (after := facts.history[kill].time - stops[0]) < grace - SLACK:
            yield about(worker, kill, f"SIGKILL {after:g} s after the stop signal, grace {grace:g}")


def _kills(facts: Facts) -> Iterator[tuple[Process, int, list[float]]]:
    """Return workers that got SIGKILL: the event, and the times of stop signals before it."""
    for worker in facts.workers:
        for kill in worker.sent((KILL,))[:1]:
            stops = [
                one.time
                for one in worker.signals
                if one.number in STOP_SIGNALS and one.at < kill.at
            ]
            yield worker, kill.at, stops


def grace_from_above(facts: Facts) -> Iterator[Finding]:
    """Workers that still live get SIGKILL soon after their grace."""
    end = facts.history[-1].time if facts.history else 0.0
    for worker in facts.workers:
        for stop in worker.sent(STOP_SIGNALS)[:1]:
            last = stop.time + facts.asked("grace", 0.0) + LATE + SLACK
            killed = any(one.time <= last for one in worker.sent((KILL,)))
            if not killed and min(worker.ended_at, end) > last:
                yield about(worker, stop.at, f"no SIGKILL by {last:g} s")


RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    *(sound_history, one_report, one_exit, report_shape, codes_agree, failures_true),
    *(success_true, within_bound, report_is_last, nothing_left, strangers_alive),
    *(resources_level, one_worker_per_rank, one_round_at_a_time, rank_once_a_round),
    *(spare_used_once, dense_ranks, host_order, rounds_grow, worlds_equal, ranks_in_place),
    *(input_in_order, restarts_in_budget, shards_once, one_stop_signal, stop_before_kill),
    *(grace_from_below, grace_from_above, looks_answered, children_end_soon),
)


def problems(facts: Facts) -> Iterator[Problem]:
    """Return what breaks a rule; its name is that of the function."""
    for rule in RULES:
        for one in rule(facts):
            yield facts.problem(rule.__name__, one.text, one.at, one.host, one.rank)
    yield from facts.output
