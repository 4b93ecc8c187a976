"""Time contenders in turns, and print the results.

They take turns (A B C A B C ...) because a busy machine is slow for minutes at a time. The results
are each contender's median, and the median of its ratios to another one in the same round.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ctypes import CDLL
from dataclasses import dataclass
from pathlib import Path
from statistics import median

CHECKOUT = Path(__file__).resolve().parents[1]
WORKERS = CHECKOUT / "benchmarks" / "workers"
_PR_SET_CHILD_SUBREAPER = 36


def dsrun_of(checkout: Path) -> tuple[str, str]:
    """Return the command of a checkout, on the Python that runs the benchmark."""
    return sys.executable, str(checkout / "bin" / "dsrun")


DSRUN = dsrun_of(CHECKOUT)

Measure = Callable[[], float]


class Unfit(Exception):
    """A measured command failed to do its work; the text says what it did instead."""


@dataclass(frozen=True)
class Figures:
    """The measured values, by contender, one per round."""

    values: Mapping[str, Sequence[float]]

    def median(self, name: str) -> float:
        """Return the contender's median."""
        return median(self.values[name])

    def ratio(self, name: str, to: str) -> float:
        """Return the median, over the rounds, of the ratio to another contender's value."""
        return median(a / b for a, b in self._pairs(name, to))

    def excess(self, name: str, over: str) -> float:
        """Return the median, over the rounds, of the difference from another contender's value."""
        return median(a - b for a, b in self._pairs(name, over))

    def table(self, title: str, reference: str, unit: str = "s") -> str:
        """Return the figures as text, with their ratios to those of one contender."""
        width = max(map(len, [*self.values, title]))
        head = f"{title:{width}}  {'median':>9}  {'least':>9}  {'most':>9}  ratio to {reference}"
        return "\n".join([head, *(self._row(name, reference, width, unit) for name in self.values)])

    def _row(self, name: str, reference: str, width: int, unit: str) -> str:
        values = self.values[name]
        three = (f"{value:7.3f} {unit}" for value in (median(values), min(values), max(values)))
        ratio = f"{self.ratio(name, reference):.2f} (of {len(values)})"
        return "  ".join([f"{name:{width}}", *three, ratio])

    def _pairs(self, one: str, other: str) -> Sequence[tuple[float, float]]:
        # A slow contender may have had fewer turns than the others, in the first rounds.
        return list(zip(self.values[one], self.values[other], strict=False))


def take_turns(
    contenders: Mapping[str, Measure], rounds: int, fewer: Mapping[str, int] | None = None
) -> Figures:
    """Measure every contender once per round, but those in `fewer` only in that many first rounds.

    Every other round is in reverse, because one contender's leftovers may slow down the next.

    Raises:
        Unfit: raised by one of the contenders.
    """
    values: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(1, rounds + 1):
        for name in list(contenders)[:: 1 if number % 2 else -1]:
            if number <= (fewer or {}).get(name, rounds):
                values[name].append(contenders[name]())
                tell(f"round {number} of {rounds}: {name} {values[name][-1]:.3f}")
    return Figures(values)


def tell(line: str) -> None:
    """Show the progress, separate from the results."""
    print(line, file=sys.stderr, flush=True)


def bar(what: str, figure: float, limit: float, *, at_least: bool = False) -> None:
    """Print a figure and its limit."""
    met = figure >= limit if at_least else figure <= limit
    verdict = "met" if met else "NOT MET"
    print(f"{what}: {figure:.3g} (limit: at {'least' if at_least else 'most'} {limit:g}) {verdict}")


def command_time(
    argv: Sequence[str],
    says: str,
    times: int,
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = 300.0,
) -> float:
    """Run a command to its end, and return the seconds it took.

    Raises:
        Unfit: it failed, or did not print `says` the expected number of times.
        subprocess.TimeoutExpired: it was still running after the time limit.
    """
    began = time.monotonic()
    done = subprocess.run(
        argv, env=env, capture_output=True, text=True, timeout=timeout, check=False
    )
    taken = time.monotonic() - began
    if done.returncode or done.stdout.count(says) != times:
        raise Unfit(f"{argv} ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
    return taken


def command_cpu(
    argv: Sequence[str], says: str, times: int, *, env: Mapping[str, str] | None = None
) -> float:
    """Run a command to its end, and return the processor time of all its processes in seconds.

    Other programs on the machine affect it less than elapsed time. A process that the command does
    not wait for becomes a child of this one, which does. Raises the same errors as `command_time`.
    """
    CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command_time(argv, says, times, env=env)
    with suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
