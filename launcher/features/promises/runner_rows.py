"""The rows of `dsrun-check --promises`: a fault each, and the promise. Pure."""

from __future__ import annotations

from ...common.errors import LOST, NO_PROGRESS, USAGE, UsageError
from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SOON = 5.0
"""Seconds for a prompt reaction: mostly less than one, but not on a busy machine."""

GRACE = 2.0
"""Seconds of `--grace` for stand-ins that ignore SIGTERM."""

SILENCE = 6.0
"""Seconds of `--heartbeat_timeout` for a node launcher that is stopped."""

HANG = 4.0
"""Seconds of `--hang_timeout`."""

ALL_UP = 60.0
"""Seconds until all stand-ins are up, or a job that cannot start has ended."""

LINES = 100_000
"""Lines that all ranks together print."""

KILLED = 137
"""A shell's exit code for a command that SIGKILL has ended."""

ACT = "SIGUSR1"
"""A strike: dsrun passes this signal to the stand-ins, which then do what the row says."""

READER, CLIENT = "close the output", "kill the client"
"""Strikes besides signals to dsrun."""


class Promise(NamedTuple):
    """The required observations.

    Attributes:
        codes: the exit codes of dsrun, one of which must be seen.
        within: the most seconds from the fault until dsrun has ended, and nothing is left.
        line: part of a line that dsrun prints. {rank} and {host} stand for the victim, the last
            rank, {code} for the exit code, and ... for anything; "" for no line.
        cause: the `cause` of the report; "" if there is no report.
        after: the least seconds from the fault until dsrun ends.
        each: a line that each rank must print exactly once; "" for none.
        quiet: whether the report must have no failure, loss or hang: no false alarm.
    """

    codes: tuple[int, ...]
    within: float = SOON
    line: str = ""
    cause: str = "failure"
    after: float = 0.0
    each: str = ""
    quiet: bool = False


class PromiseRow(NamedTuple):
    """One row.

    Attributes:
        name: the name by which it is chosen.
        fault: the fault, in words.
        act: the act of the stand-ins (`worker_program.ACTS`); "" if none can start.
        promise: the required observations.
        options: the options of its job.
        strikes: the faults inflicted on the job once all stand-ins are up.
        beside: whether another job with this program runs meanwhile, and must continue.
        lines: whether each rank prints numbered lines, which must all arrive, in order.
    """

    name: str
    fault: str
    act: str
    promise: Promise
    options: tuple[str, ...] = ()
    strikes: tuple[str, ...] = (ACT,)
    beside: bool = False
    lines: bool = False


def _seconds(value: float) -> str:
    return f"{value:g}"


_VICTIM = "rank {rank} ({host}, "
_LOST = "lost {host}"
_DONE = Promise((0,), cause="none", each="@done", quiet=True)
_DEAF = ("--grace", _seconds(GRACE))


def _signal(name: str, code: int, each: str = "") -> Promise:
    return Promise((code,), line=f"stopped by {name} ", cause="signal", each=each)


ROWS = (
    PromiseRow("healthy", "none: all ranks exit with 0", "finish", _DONE),
    PromiseRow(
        "exit",
        "the last rank exits with code 7",
        "exit",
        Promise((7,), line=f"{_VICTIM}...exited with code 7"),
    ),
    PromiseRow(
        "exception",
        "the last rank raises a Python exception",
        "raise",
        Promise((1,), line="RuntimeError: stand-in: batch 17 is bad"),
    ),
    PromiseRow(
        "sigkill",
        "the last rank is killed by SIGKILL",
        "kill",
        Promise((KILLED,), line=f"{_VICTIM}...was killed by SIGKILL"),
    ),
    PromiseRow(
        "sigsegv",
        "the last rank is killed by SIGSEGV",
        "crash",
        Promise((139,), line=f"{_VICTIM}...was killed by SIGSEGV"),
    ),
    PromiseRow(
        "together",
        "all ranks fail at once, with different codes",
        "together",
        Promise(tuple(range(40, 48)), line="exited with code {code}"),
    ),
    PromiseRow(
        "children",
        "a rank fails; ranks have children, sessions and daemons that ignore SIGTERM",
        "leave",
        Promise((7,), line=f"{_VICTIM}...exited with code 7"),
    ),
    PromiseRow(
        "background",
        "all ranks exit with 0, but leave such processes behind",
        "abandon",
        _DONE._replace(line="stopped processes that the job left running", within=2 * SOON),
    ),
    PromiseRow(
        "deaf",
        f"a rank fails; the others ignore SIGTERM, with --grace {GRACE:g}",
        "deaf",
        Promise((7,), GRACE + SOON, f"{_VICTIM}...exited with code 7", after=GRACE),
        _DEAF,
    ),
    PromiseRow(
        "hang",
        f"the last rank stops (SIGSTOP), with --hang_timeout {HANG:g} --on_hang stop",
        "hang",
        Promise((NO_PROGRESS,), 3 * HANG + SOON, "rank {rank} ({host})", "no progress"),
        ("--hang_timeout", _seconds(HANG), "--on_hang", "stop"),
    ),
    PromiseRow(
        "output",
        "none: the ranks print 100,000 lines",
        "lines",
        _DONE._replace(within=6 * SOON),
        lines=True,
    ),
    PromiseRow(
        "reader",
        "the reader of the output goes away",
        "print",
        Promise((141,), cause="broken pipe"),
        strikes=(READER, ACT),
    ),
    PromiseRow(
        "no-script",
        "the script is missing",
        "",
        Promise((USAGE,), ALL_UP, "no such script", ""),
    ),
    PromiseRow("sigint", "dsrun gets SIGINT", "exit", _signal("SIGINT", 130), strikes=("SIGINT",)),
    PromiseRow(
        "sigint-twice",
        "dsrun gets SIGINT twice; the ranks ignore it, with --grace 60",
        "deaf",
        _signal("SIGINT", 130),
        ("--grace", "60"),
        ("SIGINT", "SIGINT"),
    ),
    PromiseRow(
        "sigterm",
        "dsrun gets SIGTERM; the ranks save their state and exit with 0",
        "save",
        _signal("SIGTERM", 143, "@saved"),
        strikes=("SIGTERM",),
    ),
    PromiseRow(
        "dsrun",
        "dsrun is killed by SIGKILL",
        "leave",
        Promise((KILLED,), cause=""),
        strikes=("SIGKILL",),
    ),
    PromiseRow(
        "launcher",
        "the node launcher of the last node is killed by SIGKILL",
        "kill_launcher",
        Promise((LOST,), line=_LOST, cause="lost"),
    ),
    PromiseRow(
        "guard",
        "the guard of the last node is killed by SIGKILL",
        "kill_guard",
        Promise((LOST,), line=_LOST, cause="lost"),
    ),
    PromiseRow(
        "frozen",
        f"the node launcher of the last node gets SIGSTOP, with --heartbeat_timeout {SILENCE:g}",
        "stop_launcher",
        Promise((LOST,), 2 * SILENCE + SOON, _LOST, "lost"),
        ("--heartbeat_timeout", _seconds(SILENCE)),
    ),
    PromiseRow(
        "client",
        "an ssh client, or the engine, is killed by SIGKILL",
        "exit",
        Promise((LOST,), line="lost ", cause="lost"),
        strikes=(CLIENT,),
    ),
    PromiseRow(
        "restart",
        "the last rank fails once, with --max_restarts 1",
        "exit",
        Promise((0,), 2 * SOON, cause="none", each="@again"),
        ("--max_restarts", "1"),
    ),
    PromiseRow(
        "other-job",
        "a rank fails, while another job runs the same program on the same nodes",
        "leave",
        Promise((7,), line=f"{_VICTIM}...exited with code 7"),
        beside=True,
    ),
    PromiseRow("healthy-again", "none, after all others: all ranks exit with 0", "finish", _DONE),
)
"""All rows, in the order in which they are tried."""


def chosen(words: Sequence[str]) -> tuple[PromiseRow, ...]:
    """Return the rows of lists such as `exit,sigkill`, in the order of the table; () for all.

    Raises:
        UsageError: there is no such row.
    """
    known = {row.name: row for row in ROWS}
    names = [name for word in words for name in word.split(",")]
    for name in names:
        if name not in known:
            raise UsageError(
                f"--promises: no such row: {name!r}; expected some of {', '.join(known)}"
            )
    return tuple(row for row in ROWS if row.name in names) if names else ROWS
