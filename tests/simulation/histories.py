"""Good histories, built step by step: the tests of the checker spoil them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.common.formats import versioned
from dsrun.launcher.head.report.document import fields
from dsrun.launcher.head.report.report import JobReport, Loss, WorkerFailure

from .history import Event

if TYPE_CHECKING:
    from collections.abc import Mapping


GRACE, LEASE, BOUND = 5.0, 10.0, 200.0
EXIT, KILLED = 256, 9
"""Wait statuses: code 1 is `EXIT`, SIGKILL is `KILLED`."""

NODES = {"n0": 2, "n1": 2}


class Maker:
    """Writes a history; the runner is on `head` with pid 1, strangers have pid 9 on each host.

    Attributes:
        events: what has happened so far.
        now: the present time.
    """

    def __init__(self, nodes: Mapping[str, int] = NODES, **asked: Any) -> None:
        """Ask for a job, and start the runner."""
        self.events: list[Event] = []
        self.now = 0.0
        self._nodes = dict(nodes)
        self._pids: dict[tuple[int, int], tuple[str, int]] = {}
        self._failures: list[WorkerFailure] = []
        self._losses: list[Loss] = []
        default = {"elastic": False, "least": 1, "max_restarts": 0}
        limits = {"grace": GRACE, "lease": LEASE, "bound": BOUND}
        self.add("head", "job", nodes=self._nodes, **{**default, **limits, **asked})
        self.spawn("head", 1, 0, "runner")
        for host in self._nodes:
            self.spawn(host, 9, 0, "stranger")

    def add(self, host: str, kind: str, **fields: Any) -> None:
        """Add an event, now."""
        self.events.append(Event(self.now, host, kind, fields))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    # -- processes --------------------------------------------------------------------------

    def spawn(self, host: str, pid: int, parent: int, role: str) -> None:
        """Start a process."""
        self.add(host, "spawned", pid=pid, parent=parent, role=role, name=role)

    def node(self, host: str) -> None:
        """Start guard (pid 10) and node launcher (pid 11) of a host."""
        self.spawn(host, 10, 0, "guard")
        self.spawn(host, 11, 10, "launcher")

    def leave(self, host: str, status: int = 0) -> None:
        """End guard and node launcher of a host."""
        self.end(host, 11, status)
        self.end(host, 10, 0)

    def end(self, host: str, pid: int, status: int = 0) -> None:
        """End a process."""
        self.add(host, "ended", pid=pid, status=status)

    # -- rounds -----------------------------------------------------------------------------

    def round(self, number: int, *hosts: str) -> None:
        """Start the workers of a round on these hosts: rank R has pid 100 * number + 20 + R."""
        ranks: dict[str, list[int]] = {}
        first = 0
        for host in hosts:
            ranks[host] = list(range(first, first + self._nodes[host]))
            first += self._nodes[host]
        self.add("head", "round", number=number, ranks=ranks)
        for host, some in ranks.items():
            for rank in some:
                pid = 100 * number + 20 + rank
                self._pids[number, rank] = host, pid
                self.spawn(host, pid, 11, "worker")
                self.add(host, "worker", pid=pid, rank=rank, world=first, round=number)

    def says(self, number: int, rank: int, *lines: str, shown: bool = True) -> None:
        """Print lines, and show them."""
        host, _ = self._pids[number, rank]
        for line in lines:
            self.add(host, "printed", rank=rank, round=number, line=line)
        for line in lines if shown else ():
            self.add("head", "shown", rank=rank, line=line)

    def tells(self, line: str) -> None:
        """Show a line of the runner's own."""
        self.add("head", "shown", rank=-1, line=line)

    def exits(self, number: int, rank: int, status: int = 0) -> None:
        """End a worker."""
        host, pid = self._pids[number, rank]
        self.end(host, pid, status)

    def signals(self, number: int, rank: int, signal: int, by: int = 11) -> None:
        """Send a signal to a worker."""
        host, pid = self._pids[number, rank]
        self.add(host, "signalled", pid=pid, number=signal, by=by)

    def fails(self, number: int, rank: int, status: int = EXIT) -> None:
        """End a worker with a failure, which the report has."""
        host, pid = self._pids[number, rank]
        self.exits(number, rank, status)
        code = -(status & 127) if status & 127 else status >> 8
        self._failures.append(WorkerFailure(self.now, rank, 0, host, pid, code))

    def loses(self, host: str, reason: str = "no heartbeat for 10 s") -> None:
        """Lose a host, as the report has it."""
        self._losses.append(Loss(self.now, host, reason))

    def fault(self, fault: str, target: str | int, host: str = "head", **more: Any) -> None:
        """Let the world do something."""
        self.add(host, "fault", fault=fault, target=target, **more)

    def heal(self, fault: str, target: str | int, host: str = "head") -> None:
        """Let the world undo it."""
        self.add(host, "healed", fault=fault, target=target)

    # -- the end ----------------------------------------------------------------------------

    def never_starts(self, number: int, rank: int) -> None:
        """Take back the start of a worker, which the report has as one that was not started."""
        host, pid = self._pids[number, rank]
        self.events = [
            one
            for one in self.events
            if not (one.host == host and one.fields.get("pid") == pid)
            if one.kind not in {"printed", "shown"} or one.fields["rank"] != rank
        ]
        self._failures.append(
            WorkerFailure(self.now, rank, 0, host, 0, 126, "not started: no memory")
        )

    def finish(
        self, left: tuple[str, ...] = (), told: tuple[str, ...] = (), **known: Any
    ) -> list[Event]:
        """Report, exit, and look at what is left; return the history.

        `told` is what the report says that could not be ended.
        """
        self._report({**known, "left": told})
        return self.look(left)

    def _report(self, known: dict[str, Any]) -> None:
        report = JobReport(
            *("job", sum(self._nodes.values()), tuple(self._nodes), 0.0, self.now),
            failures=tuple(self._failures),
            losses=tuple(self._losses),
            **known,
        )
        self.wait(0.1)
        self.add("head", "report", report=versioned("report", fields(report)))
        self.end("head", 1, report.exit_code << 8)
        self.add("head", "exit", code=report.exit_code)

    def reject(self, error: str, code: int) -> None:
        """End without a start."""
        refused = {"job_id": "job", "exit_code": code, "error": error}
        self.add("head", "report", report=versioned("report", refused))
        self.end("head", 1, code << 8)
        self.add("head", "exit", code=code)

    def gives_up(self, reason: str, code: int) -> None:
        """End the job because dsrun itself does."""
        self._losses.append(Loss(self.now, "", reason, code, "gave up"))

    def look(self, left: tuple[str, ...] = ()) -> list[Event]:
        """Look at what is left; return the history."""
        self.wait(0.1)
        lists: dict[str, list[str]] = {"ports": [], "files": [], "strangers_killed": []}
        self.add("head", "left", processes=list(left), **lists)
        return self.events


# -- good histories ---------------------------------------------------------------------------


def begun(nodes: Mapping[str, int] = NODES, **asked: Any) -> Maker:
    """Return a job whose first round runs, and has printed two lines a rank."""
    made = Maker(nodes, **asked)
    made.wait(1.0)
    for host in nodes:
        made.node(host)
    made.wait(1.0)
    made.round(1, *nodes)
    for rank in range(sum(nodes.values())):
        made.wait(0.1)
        made.says(1, rank, f"hello {rank}", f"step of {rank}")
    made.wait(1.0)
    return made


def stopped(made: Maker, ranks: tuple[int, ...], number: int = 1, signal: int = 15) -> None:
    """Stop these ranks: they end within their grace."""
    for rank in ranks:
        made.signals(number, rank, signal)
    made.wait(1.0)
    for rank in ranks:
        made.exits(number, rank, signal)


def well() -> list[Event]:
    """All ranks end with 0."""
    made = begun()
    made.add("head", "resources", descriptors=7, timers=1, when="before")
    for shard, rank in enumerate((0, 1, 2, 3)):
        made.add("head", "shard", shard=shard, rank=rank)
    for rank in range(4):
        made.exits(1, rank)
    made.leave("n0")
    made.leave("n1")
    made.add("head", "resources", descriptors=7, timers=1, when="after")
    return made.finish()


def failed() -> list[Event]:
    """Rank 1 crashes; one of the others ignores its stop signal and is killed after the grace."""
    made = begun()
    made.fault("crash", 1, "n0")
    made.fails(1, 1)
    made.wait(0.1)
    stopped(made, (0, 2))
    made.signals(1, 3, 15)
    made.wait(GRACE)
    made.signals(1, 3, 9)
    made.exits(1, 3, KILLED)
    made.leave("n0")
    made.leave("n1")
    return made.finish(stopped=3)


def cut() -> list[Event]:
    """n1 is cut off, and healed after the end of its workers; the end of its output is lost."""
    made = begun()
    made.fault("cut", "n1")
    made.says(1, 2, "lost at the end", shown=False)
    made.wait(LEASE)
    made.loses("n1")
    stopped(made, (2, 3))
    stopped(made, (0, 1))
    made.leave("n0")
    made.leave("n1")
    made.wait(LEASE)
    made.heal("cut", "n1")
    return made.finish(stopped=2)


def elastic_without_a_host() -> list[Event]:
    """The power of n1 is cut; the next round has n0 and n2, where rank 2 fails once."""
    nodes = {"n0": 2, "n1": 2, "n2": 2}
    made = begun(nodes, elastic=True, max_restarts=1)
    made.add("head", "shard", shard=0, rank=2)
    made.fault("power", "n1")
    for rank in (2, 3):
        made.exits(1, rank, KILLED)
    made.leave("n1", KILLED)
    made.wait(LEASE)
    stopped(made, (0, 1, 4, 5))
    made.round(2, "n0", "n2")
    made.add("head", "shard", shard=0, rank=0)
    made.says(2, 2, "again")
    made.fault("crash", 2, "n2")
    made.exits(2, 2, EXIT)
    made.add("head", "restart", reason="rank 2 on n2 exited 1")
    made.wait(0.1)
    stopped(made, (0, 1, 3), 2)
    made.round(3, "n0", "n2")
    made.wait(1.0)
    for rank in range(4):
        made.exits(3, rank)
    for host in ("n0", "n2"):
        made.leave(host)
    return made.finish()


def launcher_killed() -> list[Event]:
    """The node launcher of n1 is killed: its workers die at once."""
    made = begun()
    made.fault("kill", "launcher", "n1")
    made.end("n1", 11, KILLED)
    for rank in (2, 3):
        made.signals(1, rank, 9, by=10)
        made.exits(1, rank, KILLED)
    made.loses("n1", "the node launcher was killed by SIGKILL")
    made.end("n1", 10, 75 << 8)
    stopped(made, (0, 1))
    made.leave("n0")
    return made.finish(stopped=2)


def both_killed() -> list[Event]:
    """Guard and node launcher of n1 are killed: a child of rank 2 is left, as the report says."""
    made = begun()
    made.spawn("n1", 40, 122, "child")
    made.fault("kill", "guard", "n1")
    made.end("n1", 10, KILLED)
    made.fault("kill", "launcher", "n1")
    made.end("n1", 11, KILLED)
    for rank in (2, 3):
        made.exits(1, rank, KILLED)
    made.loses("n1", "connection closed")
    stopped(made, (0, 1))
    made.leave("n0")
    unseen = ("may still be running on n1: pids 122-123",)
    return made.finish(left=("n1: pid 40 (child)",), stopped=2, unseen=unseen)


def interrupted() -> list[Event]:
    """Ctrl-C: all ranks get SIGINT."""
    made = begun()
    made.fault("signal", "runner", number=2)
    made.wait(0.1)
    stopped(made, (0, 1, 2, 3), signal=2)
    made.leave("n0")
    made.leave("n1")
    return made.finish(stopped=4, stop_signal=2)


def two_at_once() -> list[Event]:
    """Two ranks crash within a moment; the clocks of their hosts name the second one."""
    made = begun()
    made.fault("crash", 0, "n0")
    made.exits(1, 0, EXIT)
    made.wait(0.2)
    made.fault("crash", 3, "n1")
    made.fails(1, 3)
    stopped(made, (1, 2))
    made.leave("n0")
    made.leave("n1")
    return made.finish(stopped=2)


def runner_killed() -> list[Event]:
    """The runner is killed: the nodes stop their workers, and nobody reports."""
    made = begun()
    made.fault("kill", "runner")
    made.end("head", 1, KILLED)
    made.says(1, 0, "nobody reads this", shown=False)
    made.wait(0.5)
    stopped(made, (0, 1, 2, 3))
    made.leave("n0")
    made.leave("n1")
    return made.look()


def all_killed() -> list[Event]:
    """The runner is killed, then guard and node launcher of n1: a child of rank 2 is left."""
    made = begun()
    made.spawn("n1", 40, 122, "child")
    made.fault("kill", "runner")
    made.end("head", 1, KILLED)
    for pid, role in ((10, "guard"), (11, "launcher")):
        made.fault("kill", role, "n1")
        made.end("n1", pid, KILLED)
    for rank in (2, 3):
        made.exits(1, rank, KILLED)
    made.wait(0.5)
    stopped(made, (0, 1))
    made.leave("n0")
    return made.look(left=("n1: pid 40 (child)",))


def interrupted_twice() -> list[Event]:
    """Ctrl-C twice: what still runs is killed at once."""
    made = begun()
    made.fault("signal", "runner", number=2)
    stopped(made, (0, 1, 2), signal=2)
    made.signals(1, 3, 2)
    made.fault("signal", "runner", number=2)
    made.signals(1, 3, 9)
    made.exits(1, 3, KILLED)
    made.leave("n0")
    made.leave("n1")
    return made.finish(stopped=4, stop_signal=2)


def signal_while_stopping() -> list[Event]:
    """Rank 0 crashes; while the others stop, dsrun gets SIGHUP, which it passes on."""
    made = begun()
    made.fault("crash", 0, "n0")
    made.fails(1, 0)
    for rank in (1, 2, 3):
        made.signals(1, rank, 15)
    made.wait(2.0)
    made.fault("signal", "runner", number=1)
    stopped(made, (1, 2, 3), signal=1)
    made.leave("n0")
    made.leave("n1")
    return made.finish(stopped=3, stop_signal=1)


def signal_after_the_engine() -> list[Event]:
    """The engine is killed; rank 0 crashes before its node is told to stop; then comes SIGTERM.

    The node has told it to stop before it was reaped, so no failure is in the report.
    """
    made = begun()
    made.fault("kill", "engine")
    made.loses("", "mpirun ended (SIGKILL)")
    made.wait(0.002)
    made.fault("crash", 0, "n0")
    made.exits(1, 0, EXIT)
    for rank in (0, 1, 2, 3):
        made.signals(1, rank, 15)
    made.wait(2.0)
    made.fault("signal", "runner", number=15)
    for rank in (1, 2, 3):
        made.exits(1, rank, 15)
    made.leave("n0")
    made.leave("n1")
    return made.finish(stopped=4, stop_signal=15)


def signal_after_two_at_once() -> list[Event]:
    """Two ranks crash within a moment, the report has the second one first; then comes SIGTERM."""
    made = begun()
    made.fault("crash", 0, "n0")
    made.exits(1, 0, EXIT)
    made.wait(0.2)
    made.fault("crash", 3, "n1")
    made.fails(1, 3)
    for rank in (1, 2):
        made.signals(1, rank, 15)
    made.wait(2.0)
    made.fault("signal", "runner", number=15)
    for rank in (1, 2):
        made.exits(1, rank, 15)
    made.leave("n0")
    made.leave("n1")
    return made.finish(stopped=2, stop_signal=15)


def unread() -> list[Event]:
    """The reader of the output goes; what is printed later is not shown."""
    made = begun()
    made.fault("close", "output")
    made.says(1, 0, "to nobody", shown=False)
    made.wait(0.1)
    stopped(made, (0, 1, 2, 3))
    made.leave("n0")
    made.leave("n1")
    return made.finish(stopped=4, broken_pipe=True)


def stuck() -> list[Event]:
    """A child of rank 2 waits for a disk and cannot be ended; the report says so."""
    made = begun()
    made.spawn("n1", 40, 122, "child")
    made.fault("stuck", "n1")
    for rank in range(4):
        made.exits(1, rank)
    made.wait(31.0)
    made.leave("n0")
    made.leave("n1")
    told = ("n1: pid 40, state D, waiting in nfs_wait",)
    return made.finish(left=("n1: pid 40",), told=told)


def not_started() -> list[Event]:
    """Rank 1 cannot be started, so rank 0 beside it has no grace."""
    made = begun()
    made.fault("refuse", 1, "n0")
    made.signals(1, 0, 15)
    made.signals(1, 0, 9)
    made.exits(1, 0, KILLED)
    made.never_starts(1, 1)
    stopped(made, (2, 3))
    made.leave("n0")
    made.leave("n1")
    return made.finish(stopped=3)


def taken_back() -> list[Event]:
    """Rank 0 fails since n1 lost its power: this restart is taken back, the next one counts."""
    made = begun(elastic=True, max_restarts=1)
    made.fault("power", "n1")
    for rank in (2, 3):
        made.exits(1, rank, KILLED)
    made.leave("n1", KILLED)
    made.exits(1, 0, EXIT)
    made.add("head", "restart", reason="rank 0 on n0 exited 1")
    stopped(made, (1,))
    made.wait(LEASE)
    made.round(2, "n0")
    made.fault("crash", 0, "n0")
    made.exits(2, 0, EXIT)
    made.add("head", "restart", reason="rank 0 on n0 exited 1")
    stopped(made, (1,), 2)
    made.round(3, "n0")
    for rank in range(2):
        made.exits(3, rank)
    made.leave("n0")
    return made.finish()


def in_a_window() -> list[Event]:
    """Two failures, each the only one within its window."""
    made = begun({"n0": 2}, elastic=True, max_restarts=1, window=5.0)
    for number in (1, 2):
        made.fault("crash", 0, "n0")
        made.exits(number, 0, EXIT)
        made.add("head", "restart", reason="rank 0 on n0 exited 1")
        stopped(made, (1,), number)
        made.wait(10.0)
        made.round(number + 1, "n0")
    for rank in range(2):
        made.exits(3, rank)
    made.leave("n0")
    return made.finish()


def cut_while_elastic() -> list[Event]:
    """The runner stands still: n0 ends its workers with less than the whole grace."""
    made = begun({"n0": 1}, elastic=True)
    made.fault("freeze", "runner")
    made.wait(LEASE)
    made.signals(1, 0, 15)
    made.wait(LEASE / 16)
    made.signals(1, 0, 9)
    made.exits(1, 0, KILLED)
    made.leave("n0")
    made.heal("freeze", "runner")
    made.loses("n0", "connection closed")
    return made.finish(stopped=1)


def both_stopped() -> list[Event]:
    """Guard and node launcher of n1 stand still: its workers run on beside the next round."""
    made = begun(elastic=True)
    made.fault("freeze", "guard", "n1")
    made.fault("freeze", "launcher", "n1")
    made.wait(LEASE)
    stopped(made, (0, 1))
    made.round(2, "n0")
    made.wait(1.0)
    made.heal("freeze", "guard", "n1")
    made.end("n1", 11, KILLED)
    for rank in (2, 3):
        made.exits(1, rank, KILLED)
    made.end("n1", 10, 75 << 8)
    for rank in range(2):
        made.exits(2, rank)
    made.leave("n0")
    return made.finish(unseen=("may still be running on n1: pids 122-123",))


def stopped_without_a_guard() -> list[Event]:
    """The node launcher of n1 stands still, and its guard is killed: as `both_stopped`."""
    made = begun(elastic=True)
    made.fault("freeze", "launcher", "n1")
    made.fault("kill", "guard", "n1")
    made.end("n1", 10, KILLED)
    made.wait(LEASE)
    made.add("head", "shown", rank=-1, line="may still be running on n1: pids 122-123")
    stopped(made, (0, 1))
    made.round(2, "n0")
    made.wait(1.0)
    made.heal("freeze", "launcher", "n1")
    for rank in (2, 3):
        made.exits(1, rank, KILLED)
    made.end("n1", 11, 75 << 8)
    for rank in range(2):
        made.exits(2, rank)
    made.leave("n0")
    return made.finish()


def cut_while_suspended() -> list[Event]:
    """n1 is cut off while the runner is suspended, so it does not know that it is missed."""
    made = begun(elastic=True)
    made.fault("suspend", "runner")
    made.fault("cut", "n1", "n1")
    made.wait(1.0)
    made.heal("suspend", "runner")
    made.wait(LEASE)
    stopped(made, (0, 1))
    made.round(2, "n0")
    for rank in range(2):
        made.exits(2, rank)
    made.leave("n0")
    made.heal("cut", "n1", "n1")
    stopped(made, (2, 3))
    made.leave("n1")
    return made.finish(unseen=("may still be running on n1: pids 122-123",))


def refused() -> list[Event]:
    """n1 cannot be reached: no worker starts."""
    made = Maker()
    made.fault("cut", "n1")
    made.node("n0")
    made.wait(LEASE)
    made.leave("n0")
    made.reject("n1: it does not answer", 69)
    return made.look()


def too_few() -> list[Event]:
    """n1 loses its power, and the job needs both: dsrun gives up."""
    made = begun(elastic=True, least=2)
    made.fault("power", "n1")
    for rank in (2, 3):
        made.exits(1, rank, KILLED)
    made.leave("n1", KILLED)
    made.wait(LEASE)
    stopped(made, (0, 1))
    made.wait(30.0)
    made.leave("n0")
    made.gives_up("too few nodes for too long (--min_wait)", 76)
    return made.finish(stopped=2)


def worker_killed() -> list[Event]:
    """The world kills rank 2; a stall of n0 that is over soon changes nothing."""
    made = begun()
    made.fault("stall", "n0")
    made.wait(LEASE / 4)
    made.heal("stall", "n0")
    made.fault("kill", 2, "n1")
    made.fails(1, 2, KILLED)
    stopped(made, (0, 1, 3))
    made.leave("n0")
    made.leave("n1")
    return made.finish(stopped=3)


def guard_killed() -> list[Event]:
    """The guard of n0 is killed: its node launcher kills its workers at once."""
    made = begun()
    made.fault("kill", "guard", "n0")
    made.end("n0", 10, KILLED)
    for rank in (0, 1):
        made.signals(1, rank, 15)
        made.signals(1, rank, 9)
        made.exits(1, rank, KILLED)
    made.loses("n0", "its guard was killed")
    made.end("n0", 11, 75 << 8)
    stopped(made, (2, 3))
    made.leave("n1")
    return made.finish(stopped=4)


def signal_to_a_node() -> list[Event]:
    """A scheduler sends SIGTERM to guard and node launcher of n1: the whole job ends."""
    made = begun()
    made.fault("signal", "guard", "n1", number=15)
    made.fault("signal", "launcher", "n1", number=15)
    stopped(made, (2, 3))
    stopped(made, (0, 1))
    made.leave("n0")
    made.leave("n1")
    return made.finish(stopped=4, stop_signal=15)


def fault_after_the_end() -> list[Event]:
    """n1 is cut off after the report, which changes nothing."""
    history = well()
    end = next(index for index, one in enumerate(history) if one.kind == "report")
    cut_off = Event(history[end].time, "head", "fault", {"fault": "cut", "target": "n1"})
    return [*history[: end + 1], cut_off, *history[end + 1 :]]


def node_missed() -> list[Event]:
    """n1 is cut off and missed; the next round of an elastic job has n0 alone."""
    made = begun(elastic=True)
    made.fault("cut", "n1", what="cut")
    made.wait(LEASE)
    made.add("head", "lost", node="n1", reason="no heartbeat for 10 s", survived=True)
    stopped(made, (0, 1, 2, 3))
    made.leave("n1")
    made.tells("dsrun: may still be running on n1: pids 122-123")
    made.tells("dsrun: next round: 2 workers on n0")
    made.round(2, "n0")
    made.wait(1.0)
    for rank in (0, 1):
        made.exits(2, rank)
    made.leave("n0")
    return made.finish()


def runner_stopped() -> list[Event]:
    """The runner stands still, but not for so long that a node misses it."""
    made = begun(elastic=True)
    made.fault("freeze", "runner")
    made.wait(0.8 * LEASE)
    made.heal("freeze", "runner")
    made.wait(1.0)
    for rank in range(4):
        made.exits(1, rank)
    made.leave("n0")
    made.leave("n1")
    return made.finish()


def removed() -> list[Event]:
    """n1 is not on the list any more; the next round has n0 alone."""
    made = begun(elastic=True)
    made.add("head", "listed", hosts=["n0"])
    made.fault("remove", "n1")
    made.tells("dsrun: removing n1 from the job")
    for rank in range(4):
        made.signals(1, rank, 15)
    made.wait(GRACE - 1.0)
    for rank in range(4):
        made.exits(1, rank, 15)
    made.round(2, "n0")
    made.wait(1.0)
    for rank in (0, 1):
        made.exits(2, rank)
    made.leave("n0")
    made.leave("n1")
    return made.finish()


def left_out() -> list[Event]:
    """n1 cannot take part, and the job starts without it."""
    made = Maker()
    made.fault("unfit", "n1")
    made.node("n0")
    made.node("n1")
    made.round(1, "n0")
    made.wait(1.0)
    made.add("head", "held", ports={"n0": [29500], "n1": []})
    for rank in (0, 1):
        made.exits(1, rank)
    made.leave("n0")
    made.leave("n1")
    return made.finish()
