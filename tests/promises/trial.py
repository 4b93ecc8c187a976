"""One trial of a row: the job is brought into its phase and struck, and what is seen is judged."""

from __future__ import annotations

import json
import random
import re
import sys
import time
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from ..cluster.command import CHECKOUT
from ..support.limits import wait_for
from .faults import STRIKES, VEILED
from .figures import Trial
from .played import HeldJob, OtherJob, PlayedJob
from .rows import AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .played import Stage
    from .rows import Row

LONGER = 15.0
"""Seconds beyond the bound for which a row may be late; after that, it has not ended at all."""

SPREAD = 0.5
"""Seconds within which a fault comes, by the seed, once a job is in its phase."""

UNUSABLE = 69
"""The code of a job that could not start; dsrun waits for what all hosts have to say of it."""

LONG = 200
"""Characters of a reason that are kept."""

ALARMS = ("failures", "lost", "hangs", "slow")
"""Fields of the report that are empty, or absent, if nothing was found."""


class Seen(NamedTuple):
    """What a job has left behind.

    Attributes:
        code: the exit code as Popen has it; None if it did not end.
        said: its standard error.
        shown: its standard output.
        report: its report; {} if there is none.
        seconds: until it had ended and all was clean.
        left: what was left.
    """

    code: int | None
    said: str
    shown: str
    report: dict[str, object]
    seconds: float
    left: tuple[str, ...]


def play(row: Row, stage: Stage, folder: Path, seed: int) -> Trial:
    """Play a row once; what cannot be set up is a reason too."""
    at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    job = stage.job(row, folder)
    try:
        seen = _seen(job, random.Random(f"{row.name} {seed}").uniform(0, SPREAD))
    except (AssertionError, OSError, LookupError, ValueError) as error:
        job.remove()
        return Trial(at, seed, None, 0.0, (_short(f"{type(error).__name__}: {error}"),))
    code = None if seen.code is None else seen.code if seen.code >= 0 else 128 - seen.code
    return Trial(
        at, seed, code, round(seen.seconds, 2), tuple(map(_short, problems(row, seen, code)))
    )


def _short(why: str) -> str:
    """A reason without the places of this machine, and not too long."""
    for path, name in ((sys.executable, "python"), (str(CHECKOUT), "dsrun")):
        why = why.replace(path, name)
    return " ".join(why.split())[:LONG]


def _seen(job: PlayedJob, moment: float) -> Seen:
    strike, limit = STRIKES[job.row.fault], job.row.promise.within + LONGER
    with ExitStack() as healing, ExitStack() as running:
        if job.row.phase == "before":
            healing.enter_context(strike(job))
            job.mark()
            running.enter_context(job)
        else:
            running.enter_context(job)
            time.sleep(moment)
            job.mark()
            healing.enter_context(strike(job))
        if job.row.promise.goes_on:
            job.finish()
        elif job.row.promise.code == UNUSABLE:
            job.let_start()
        elif isinstance(job, OtherJob):
            job.end_if_again()
            limit = LONGER
        code = _ended(job, limit)
        veiled = job.row.fault in VEILED or job.row.phase == "before"
        left = () if veiled else _clean(job, limit, "sshd: ")
        seconds = time.monotonic() - job.struck
        healing.close()
        left += _clean(job, limit)
        if isinstance(job, HeldJob):
            job.release()
    job.remove()
    return Seen(code, job.running.stderr, job.shown(), _report(job), seconds, left)


def _ended(job: PlayedJob, limit: float) -> int | None:
    with suppress(AssertionError):
        return job.running.wait(limit).returncode
    return None


def _clean(job: PlayedJob, limit: float, but: str = "\0") -> tuple[str, ...]:
    """Wait until nothing is left but what has these words; return what still is.

    While a cable is cut, sshd waits for the other end of its connection.
    """

    def left() -> tuple[str, ...]:
        return tuple(one for one in job.left() if but not in one)

    with suppress(TimeoutError):
        wait_for(lambda: not left(), "clean", limit)
        return ()
    return left()


def _report(job: PlayedJob) -> dict[str, object]:
    with suppress(OSError, ValueError):
        report: dict[str, object] = json.loads((job.folder / "report.json").read_text())
        return report
    return {}


def problems(row: Row, seen: Seen, code: int | None) -> Iterator[str]:
    """Yield what is not as promised."""
    promise = row.promise
    last = seen.said.strip().rpartition("\n")[2]
    if code is None:
        yield f"it did not end; it said last: {last}"
    elif promise.code is None:
        if code == 0 and not re.search(r"\bdone \d+", seen.shown):
            yield "exit code 0"
    elif code != promise.code:
        yield f"exit code {code}, not {promise.code}; it said last: {last}"
    if not re.search(promise.says, seen.said):
        yield f"it did not say {promise.says!r}; it said last: {last}"
    if promise.cause and code is not None and seen.report.get("cause") != promise.cause:
        yield f"the report has the cause {seen.report.get('cause')!r}, not {promise.cause!r}"
    if row.fault.startswith("none"):
        yield from (
            f"a false alarm: the report has {one}" for one in ALARMS if seen.report.get(one)
        )
    left = sorted(dict.fromkeys(seen.left), key=lambda one: "process" not in one)
    yield from (f"left: {one}" for one in left[:3])
    lasting = "01" if promise is AGAIN else "0123" if promise.goes_on else ""
    yield from _gaps(seen.shown, lasting)
    if late(seen, promise.within):
        yield f"it took {seen.seconds:.1f} s, not at most {promise.within:g}"


def late(seen: Seen, within: float) -> bool:
    """Whether it has only taken too long."""
    return seen.code is not None and seen.seconds > within


def _gaps(shown: str, lasting: str) -> Iterator[str]:
    """Yield the ranks whose lines are not all there; `lasting` ones must have the last, too."""
    lines: dict[str, list[str]] = {}
    for rank, words in re.findall(r"(?m)^\S+?:(\d+)\| (.*)$", shown):
        lines.setdefault(rank, []).append(words)
    for rank, words in lines.items():
        numbers = [int(one.split()[1]) for one in words if re.fullmatch(r"line \d+", one)]
        steps = zip([0, *numbers], numbers, strict=False)
        if not all(two in {one + 1, 1} for one, two in steps):
            yield f"lines of rank {rank} are missing"
        elif rank in lasting and words[-1] != f"done {numbers[-1] if numbers else 0}":
            yield f"the last lines of rank {rank} are missing"
