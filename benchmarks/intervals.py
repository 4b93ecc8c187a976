"""Time the intervals of a start on one host, from the command to its end, and say who takes them.

    python benchmarks/intervals.py [--rounds 21]
    python benchmarks/intervals.py --before REV     beside a commit, or another checkout, in turns

strace stops the processes only at the few system calls that end an interval, for about a fiftieth
of the time of a start. Each figure is the median over all rounds; one process at a time is on the
critical path, and the column `process` names it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import venv
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.checkouts import checkout_of
from benchmarks.measure import WORKERS, Unfit, take_turns
from benchmarks.start import ours

if TYPE_CHECKING:
    from collections.abc import Sequence

TRACED = "execve,clone,fork,vfork,write,exit_group"


class Milestone(NamedTuple):
    """The end of an interval.

    Attributes:
        what: happens in the interval.
        process: the process that is on the critical path in it.
        call: the system call that ends it, as strace prints it: a regular expression.
        last: whether its last occurrence counts, not its first.
    """

    what: str
    process: str
    call: str
    last: bool = False


CHILD = r"clone\(.*SIGCHLD"

MILESTONES = (
    Milestone("Python; options; plan", "runner", CHILD),
    Milestone("modules of the job; JobSpec; JOB is sent", "runner", r'write\(\d+, "\\1\\0\\0'),
    Milestone("modules of the node launcher; checks", "node launcher", r'write\(\d+, "!\\0\\0'),
    Milestone("HELLO is read; START is sent", "runner", r'write\(\d+, "\\3\\0\\0'),
    Milestone("workers are forked", "node launcher", r"execve\(", last=True),
    Milestone("Python and the program", "workers", r'write\(1, "worker here', last=True),
    Milestone("Python ends; DONE is sent", "node launcher", r"write\(\d+, \"'\\0\\0", last=True),
    Milestone("report; END is sent", "runner", r'write\(\d+, "\\t\\0\\0'),
    Milestone("the node launcher ends; exit", "runner", r"exit_group\(", last=True),
)
"""The intervals of a start in their order."""

LINE = re.compile(r"\d+ +(?P<at>\d+\.\d+) (?P<call>.*)")


def intervals(trace: str) -> list[float]:
    """Return the seconds of each interval, given the output of `strace -f -ttt`. Pure.

    Raises:
        LookupError: a milestone is missing.
    """
    calls = [(float(one["at"]), one["call"]) for one in map(LINE.match, trace.splitlines()) if one]
    ends = [calls[0][0]]
    for milestone in MILESTONES:
        found = [at for at, call in calls if at >= ends[0] and re.match(milestone.call, call)]
        if not found:
            raise LookupError(milestone.what)
        ends.append(max(ends[-1], found[-1 if milestone.last else 0]))
    return [after - before for before, after in pairwise(ends)]


def start(argv: Sequence[str], folder: str) -> list[float]:
    """Run a command under strace; return its intervals."""
    trace = Path(folder, "trace")
    strace = ["strace", "-f", "--seccomp-bpf", "-ttt", "-s", "16", "-e", f"trace={TRACED}"]
    done = subprocess.run(
        [*strace, "-o", str(trace), *argv], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode or done.stdout.count("worker here") != 2:
        raise Unfit(f"{argv}: {done.stdout}{done.stderr}")
    return intervals(trace.read_text(errors="replace"))


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Time the intervals of a start on one host.")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--before", metavar="REV", help="a commit, or another checkout of dsrun")
    options = parser.parse_args()
    rows: dict[str, list[list[float]]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        before = stack.enter_context(checkout_of(options.before)) if options.before else None
        venv.create(folder, symlinks=True)
        hello = shutil.copy(WORKERS / "hello.py", folder)
        commands = ours(f"{folder}/bin/python", hello, before)
        del commands["bare"]

        def measure(name: str) -> float:
            rows.setdefault(name, []).append(start(commands[name], folder))
            return sum(rows[name][-1])

        take_turns({name: partial(measure, name) for name in commands}, options.rounds)
    report(rows)


def report(rows: dict[str, list[list[float]]]) -> None:
    """Print the median of each interval in milliseconds, and its share of the sum."""
    medians = {
        name: [median(one) for one in zip(*every, strict=True)] for name, every in rows.items()
    }
    print(
        f"{'interval':42} {'process':14}", *(f"{f'{name}, ms':>11} {'share':>6}" for name in rows)
    )
    for at, milestone in enumerate(MILESTONES):
        cells = (
            f"{every[at] * 1e3:11.1f} {every[at] / sum(every):6.0%}" for every in medians.values()
        )
        print(f"{milestone.what:42} {milestone.process:14}", *cells)
    print(f"{'all':57}", *(f"{sum(every) * 1e3:11.1f} {1:6.0%}" for every in medians.values()))


if __name__ == "__main__":
    main()
