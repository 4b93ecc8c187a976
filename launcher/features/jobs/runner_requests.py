"""The verbs of dsrun-job for a run, except `report`.

Each verb gets the run, the caller, the request and its descriptors, and answers like a `Verb` of
`LocalServer` does.
"""

from __future__ import annotations

from functools import partial
from signal import Signals

from ...common.errors import UsageError
from ...common.wording import counted
from ...control import frames
from ...head.run import run_signals
from ...head.run.run_state import RunState
from ...resources.ranges import show_slots
from . import runner_status as job_status
from .runner_job_status import as_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...control.job_messages import Usage
    from ...head.fleet.fleet import NodeFleet
    from ...head.fleet.node_connection import NodeConnection
    from ...head.output.tail import Tail
    from ...head.run.run_view import RunView
    from ..stacks.runner_view import RankView
    from .runner_server import LocalCaller, Message
    from .runner_socket import RunAccess, RunHistory

MOST_PENDING = 1 << 20
"""Bytes buffered for a caller that follows the output; output beyond that is dropped."""


def status(run: RunAccess, _caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Return the status of a run, with its ranks on request."""
    return as_fields(job_status.status(run.view(), run.seen, ranks=request.get("ranks") is True))


def usage(run: RunAccess, caller: LocalCaller, request: Message, _fds: list[int]) -> None:
    """Answer with the resource usage of each connected node: (host, usage) pairs."""
    nodes = [node.connection for node in run.view().nodes if not node.over]
    ask_usage(run.fleet, nodes, caller, request)


def ask_usage(
    fleet: NodeFleet, nodes: Iterable[NodeConnection], caller: LocalCaller, request: Message
) -> None:
    """Answer a request with the usage reports of the connected ones among `nodes`."""
    from ...control.job_messages import USAGE, UsageAsk

    def answer(used: dict[NodeConnection, Usage]) -> None:
        rows = [[node.name, one._asdict()] for node, one in used.items()]
        caller.answer({"nodes": rows}, request)

    question = fleet.node_queries.ask(nodes, USAGE, UsageAsk(), caller.bounded(answer, request))
    caller.on_close.append(question.cancel)


def stacks(access: RunAccess, caller: LocalCaller, request: Message, _fds: list[int]) -> None:
    """Answer once all nodes have sent the stacks of their ranks; send an event for each rank."""
    from ..stacks import runner_collect as collect
    from ..stacks import runner_view_messages as view_messages

    run, idle = access.view(), access.seen.idle
    running = {one.rank for one in run.workers.running}
    ranks = ranks_of(request) or []
    if not running:
        raise UsageError(f"no worker is running: the job is {run.phase.name.lower()}")
    if not running.issuperset(ranks):
        known = show_slots([*running])
        raise UsageError(f"--ranks: not all of these are running; running: {known}")

    def answer(views: Mapping[int, RankView]) -> None:
        rows = (one._replace(idle=idle.get(rank, 0.0)) for rank, one in views.items())
        view_messages.send(caller, rows)
        caller.answer({}, request)

    how = {name: request.get(name) is True for name in ("native", "save")}
    seen = caller.bounded(answer, request)
    question = collect.collect(access.fleet, run.nodes, run.workers, seen, ranks=ranks, **how)
    caller.on_close.append(question.cancel)


# -- signals --------------------------------------------------------------------------------


def signal(access: RunAccess, _caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Send a signal to every worker, even one that ends the worker."""
    number, run = signal_of(request), access.view()
    if not run.runs:
        raise UsageError(f"no worker is running: the job is {run.phase.name.lower()}")
    name = Signals(number).name
    access.log(f"{name} to all ranks, as dsrun-job requested", "warning")
    access.handle(run_signals.signal_ranks, number)
    return {"ranks": len(run.workers.running)}


def stop(access: RunAccess, _caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Stop the job as if its runner had received this signal; `now`: without grace."""
    number = signal_of(request)
    access.log("stopping the job, as dsrun-job requested", "warning")
    access.handle(run_signals.on_end_signal, number)
    run = access.view()
    if request.get("now") is True and run.started and not run.ending:
        access.log("killing all ranks now", "warning")
        access.handle(RunState.stop, number, 0.0)
    return {"grace": run.spec.supervision.grace}


def restart(_run: RunAccess, _caller: LocalCaller, _request: Message, _fds: list[int]) -> Message:
    """Reject a restart: a job of one program has no role to restart."""
    raise UsageError("only a role can be started again, with --role")


def scale(run: RunAccess, _caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Change the maximum number of nodes in a round of an elastic job."""
    nodes = request.get("nodes")
    if type(nodes) is not int or not 0 < nodes < 10_000_000:
        raise UsageError("invalid request: expected nodes, a number above 0")
    words = check_size(run.view(), nodes)
    from ..elastic.runner_policy import resize

    run.handle(resize, nodes)
    return {"words": words}


# -- output ---------------------------------------------------------------------------------


def logs(run: RunAccess, caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Send the newest output of all ranks, or of some; with `follow` also what comes later."""
    return send_output({"": run.seen}, caller, request)


def send_output(
    histories: Mapping[str, RunHistory], caller: LocalCaller, request: Message
) -> Message:
    """Send the output of the runs with these histories, by role, "" without roles."""
    ranks = ranks_of(request)
    reader = LogReader(caller, None if ranks is None else set(ranks))
    for role, seen in histories.items():
        reader.send(seen.tail, role)
        if request.get("follow") is True:
            follow(caller, seen, partial(reader.feed, role=role))
    return {}


class LogReader:
    """Sends output to one caller, as long as the caller keeps up.

    Before the first output of a rank, and whenever the rank has moved, an event `rank` has its
    host. Before the output of another role, an event `role` names the role.
    """

    def __init__(self, caller: LocalCaller, ranks: set[int] | None = None) -> None:
        """Send the output of these ranks of each role; None for all ranks."""
        self._caller, self._ranks = caller, ranks
        self._role = ""
        self._hosts: dict[tuple[str, int], str] = {}
        self._skipped: dict[str, int] = {}

    def send(self, tail: Tail, role: str = "") -> None:
        """Send the newest output of a run."""
        for rank, stream, data in tail.blocks():
            self.feed(rank, tail.hosts[rank], stream, data, role)

    def feed(self, rank: int, host: str, stream: int, data: bytes, role: str = "") -> None:
        """Send output, or leave it out and say so where the caller reads too slowly."""
        if role != self._role:
            self._role = role
            self._caller.event({"event": "role", "role": role})
        if self._ranks is not None and rank not in self._ranks:
            return
        if self._caller.pending > MOST_PENDING:
            self._skipped[role] = self._skipped.get(role, 0) + len(data)
            return
        if skipped := self._skipped.pop(role, 0):
            self._caller.event({"event": "skipped", "bytes": skipped})
        if self._hosts.get((role, rank)) != host:
            self._hosts[role, rank] = host
            self._caller.event({"event": "rank", "rank": rank, "host": host})
        self._caller.chunk(frames.output_body(rank, stream, data))


def check_size(run: RunView, nodes: int) -> str:
    """Check a requested maximum of nodes per round; return the confirmation for the user.

    Raises:
        UsageError: the job's limits do not allow it, or dsrun does not control the job's rounds.
    """
    limits = run.spec.elastic
    if limits is None or run.spec.plan.rendezvous is not None:
        raise UsageError("the number of its nodes is fixed; --elastic_training lets it change")
    if not limits.least <= nodes <= limits.most:
        raise UsageError(f"this job takes {limits.least} to {limits.most} nodes, not {nodes}")
    present = sum(not node.over for node in run.nodes)
    more = f"; there are {present} now" if present < nodes else ""
    return f"rounds of at most {counted(nodes, 'node')} from now on{more}"


def follow(
    caller: LocalCaller, seen: RunHistory, feed: Callable[[int, str, int, bytes], None]
) -> None:
    """Call a function with all output from now on, until the caller disconnects."""
    seen.followers.append(feed)
    caller.on_close.append(lambda: seen.followers.remove(feed))


def ranks_of(request: Message) -> list[int] | None:
    """Return the ranks that a request names, None for all.

    Raises:
        UsageError: the ranks are not numbers.
    """
    ranks = request.get("ranks")
    if ranks is not None and not (isinstance(ranks, list) and set(map(type, ranks)) <= {int}):
        raise UsageError("invalid request: expected ranks, a list of numbers")
    return ranks


def signal_of(request: Message) -> int:
    """Return the number of the signal in a request.

    Raises:
        UsageError: the request has no valid signal.
    """
    number = request.get("number")
    if type(number) is not int or number not in set(Signals):
        raise UsageError("invalid request: expected number, a signal's number")
    return number
