"""What leaves the processes of a world, as text, and one hash of it for each seed.

Hashed are bytes on lines, in pipes and in files, programs that are executed with their words and
environment, processes, signals, exit codes, reports, shown lines, and files that are left; not what
objects inside of dsrun tell each other. So a change of names, modules or calls inside of a process
leaves the hashes as they are, while another byte, signal or system call changes them: each system
call takes a time.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import sys
from multiprocessing import Pool
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dsrun import launcher

from ..support.checkout import CHECKOUT
from .history import as_text
from .scenario import scenario
from .world import kind_of, played

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .history import Event
    from .kernel import Kernel, Process
    from .scenario import Scenario

FILE = CHECKOUT / "tests" / "recorded" / "digests.json"

RANGES = ((0, 850), (1_000_000, 150), (1_100_000, 100), (1_200_000, 100))
"""First seed and number: jobs of one program and holds, jobs of roles, elastic ones, engines."""

SEEDS = tuple(first + at for first, count in RANGES for at in range(count))

DIGITS = 8
"""Hexadecimal digits of a hash: one change in four thousand million is not seen."""

PART = 30
"""The tests compare one of so many seeds, which ones depends on the commit."""

A_ROW = 10
"""Hashes on a line of the file."""

AGAIN = (
    "`python -m tests.simulation --digest --seed SEED --trace` tells all that is hashed: compare it"
    " with that of the commit before. On purpose: `--digest --write REASON`"
)

SHOWN = 20
"""Changed seeds that are named."""

INSIDE = frozenset({"round", "restart", "lost", "held", "resources", "serving", "resting"})
"""Events of a history that objects of dsrun have told, or whose time depends on these."""

PLACES = sorted({str(CHECKOUT), str(Path(launcher.__file__ or "").parents[1])}, key=len)
"""The folders of the program that runs in worlds, the longest last."""

OWN = (
    (re.compile(rb"(Traceback \(most recent call last\):\n)([ \t].*\n)*"), rb"\1"),
    (re.compile(re.escape(sys.executable).encode()), b"PYTHON"),
    *((re.compile(re.escape(one).encode() + rb"/(\w+/)*"), b"") for one in reversed(PLACES)),
    (re.compile(rb'("dsrun": ?)"%s"' % re.escape(launcher.__version__).encode()), rb'\1"VERSION"'),
)
"""What differs by interpreter, checkout or version, and what stands for it: a module has its name
without the folder, and a traceback only its last line."""


class Change(NamedTuple):
    """A change of recorded hashes.

    Attributes:
        date: of the day, in ISO 8601.
        changed: of how many seeds.
        why: the reason, a line.
        sums: the hash of all hashes since.
    """

    date: str
    changed: int
    why: str
    sums: str


class Recorded(NamedTuple):
    """The file of hashes.

    Attributes:
        changes: oldest first.
        digests: by seed.
    """

    changes: tuple[Change, ...] = ()
    digests: Mapping[int, str] = {}


def lines_of(one: Scenario) -> Iterator[str]:
    """Play a world, and yield all that has left its processes, in order, a line each."""
    lines: list[str] = []

    def happened(event: Event) -> None:
        if event.kind not in INSIDE:
            lines.append(as_text([event]).rstrip("\n"))

    world = kind_of(one)(one, happened)
    kernel = world.kernel

    def left(process: Process, place: str, data: bytes) -> None:
        where = f"{kernel.now:.6f} {process.host.name} {process.pid} {place}"
        lines.append(f"{where} {plain(data)!r}")

    kernel.leaving = left
    outcome = played(world)
    yield from lines
    yield from _files(kernel)
    yield f"{len(outcome.crashes)} crashes"


def plain(data: bytes) -> bytes:
    """Return bytes as they are in every checkout, with every interpreter, of every version."""
    for pattern, replacement in OWN:
        data = pattern.sub(replacement, data)
    return data


def _files(kernel: Kernel) -> Iterator[str]:
    """Yield the files that are left on all hosts."""
    for name, host in kernel.hosts.items():
        for path in host.files.made():
            node = host.files.get(path)
            assert node is not None
            data = b"" if node.is_folder else plain(bytes(node.data))
            yield f"{name} {path} {node.mode:o} {node.target} {hashlib.sha256(data).hexdigest()}"


def digest_of(seed: int) -> str:
    """Return the hash of a seed."""
    text = "\n".join(lines_of(scenario(seed)))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:DIGITS]


def digests_of(seeds: Sequence[int], jobs: int) -> dict[int, str]:
    """Return the hashes of seeds, which so many processes play."""
    if jobs == 1:
        return {seed: digest_of(seed) for seed in seeds}
    with Pool(jobs) as pool:
        return dict(zip(seeds, pool.imap(digest_of, seeds, chunksize=4), strict=True))


def sum_of(digests: Mapping[int, str]) -> str:
    """Return the hash of all hashes."""
    text = " ".join(f"{seed} {digests[seed]}" for seed in sorted(digests))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def read(text: str) -> Recorded:
    """Return what a file has."""
    found = json.loads(text)
    changes = tuple(Change(**one) for one in found["changes"])
    rows = ((int(first), row.split()) for first, row in found["digests"].items())
    return Recorded(changes, {first + at: one for first, row in rows for at, one in enumerate(row)})


def write(recorded: Recorded) -> str:
    """Return the text of a file: a line for each change, and for ten seeds."""
    seeds = sorted(recorded.digests)
    rows: dict[str, list[str]] = {}
    first = -A_ROW
    for at, seed in enumerate(seeds):
        if seed != seeds[at - 1] + 1 or seed == first + A_ROW:
            first = seed
        rows.setdefault(str(first), []).append(recorded.digests[seed])
    changes = [json.dumps(one._asdict(), ensure_ascii=False) for one in recorded.changes]
    lines = [f'"{first}": "{" ".join(row)}"' for first, row in rows.items()]
    return f'{{"changes": [\n{_joined(changes)}\n],\n"digests": {{\n{_joined(lines)}\n}}}}\n'


def _joined(lines: Iterable[str]) -> str:
    return ",\n".join(f"  {line}" for line in lines)


def renewed(known: Recorded, found: Mapping[int, str], why: str, date: str) -> Recorded:
    """Return what is recorded once these seeds have these hashes, for a reason.

    Raises:
        ValueError: no reason is given.
    """
    if not why.strip():
        raise ValueError("say why the digests change")
    changed = differing(known, found)
    if not changed:
        return known
    digests = {**known.digests, **found}
    change = Change(date, len(changed), " ".join(why.split()), sum_of(digests))
    return Recorded((*known.changes, change), digests)


def compared(first: int) -> Sequence[int]:
    """Return the seeds that the tests compare, given any number."""
    return SEEDS[first % PART :: PART]


def differing(known: Recorded, found: Mapping[int, str]) -> list[int]:
    """Return the seeds whose hashes are not as recorded."""
    return [seed for seed, one in found.items() if known.digests.get(seed) != one]


def told(seeds: Sequence[int]) -> str:
    """Return the first of some seeds as text, after a colon."""
    return (
        f": {', '.join(map(str, seeds[:SHOWN]))}{' ...' if seeds[SHOWN:] else ''}" if seeds else ""
    )


def main(seeds: Sequence[int] | None, jobs: int, why: str | None) -> int:
    """Compare with the file, or write it for a reason; return an exit code."""
    seeds = SEEDS if seeds is None else seeds
    found: dict[int, str] = digests_of(seeds, jobs)
    known = read(FILE.read_text()) if FILE.exists() else Recorded()
    changed = differing(known, found)
    if why is not None:
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        FILE.write_text(write(renewed(known, found, why, today)))
    print(f"{len(found)} seeds, {len(changed)} changed{told(changed)}")
    if changed and why is None:
        print(AGAIN)
    return int(bool(changed) and why is None)
