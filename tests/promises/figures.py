"""What was seen of rows, in docs/promises.json, and what follows from it.

The trials of a row are of one tree of `launcher/` and `accelerator/`: the newest on which it was
played. The first trial on another tree replaces them.
"""

from __future__ import annotations

import json
import subprocess
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs" / "promises.json"

DOUBT = 0.05
"""One minus the confidence of a bound."""


class Trial(NamedTuple):
    """What was seen once.

    Attributes:
        at: when, in UTC.
        seed: of the moment of the fault.
        code: dsrun's exit code, as a shell has it; None if it did not end.
        seconds: until dsrun had ended, and all hosts were clean.
        why: what was not as promised.
    """

    at: str
    seed: int
    code: int | None
    seconds: float
    why: tuple[str, ...] = ()


class Figures(NamedTuple):
    """What was seen of a row.

    Attributes:
        tree: the tree of dsrun on which it was seen.
        tries: the trials, in order.
    """

    tree: str
    tries: tuple[Trial, ...]

    @property
    def failures(self) -> int:
        """How often the promise was not kept."""
        return sum(bool(one.why) for one in self.tries)

    @property
    def bound(self) -> float:
        """The upper bound of the rate of failures."""
        return upper_bound(self.failures, len(self.tries))

    @property
    def doubt(self) -> float:
        """How far the upper bound of that rate is from its lower bound."""
        return self.bound + upper_bound(len(self.tries) - self.failures, len(self.tries)) - 1


def upper_bound(failures: int, tries: int) -> float:
    """The rate of failures that is not exceeded, with 95 % confidence (Clopper and Pearson).

    It is the rate at which so few failures are seen only once in twenty times: after 20 trials
    without any, 14 %.
    """
    if failures == tries:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(50):
        rate = (low + high) / 2
        few = range(failures + 1)
        chance = sum(comb(tries, k) * rate**k * (1 - rate) ** (tries - k) for k in few)
        low, high = (rate, high) if chance > DOUBT else (low, rate)
    return high


def tree() -> str:
    """The hashes of `launcher/` and `accelerator/`, as git has them, shortened.

    Raises:
        ValueError: they have changes that no commit has.
    """
    folders = ("launcher", "accelerator")
    if _git("status", "--porcelain", "--", *folders):
        raise ValueError(f"commit the changes of {' and '.join(folders)} first")
    hashes = _git("rev-parse", *(f"HEAD:{one}" for one in folders)).split()
    return "-".join(one[:10] for one in hashes)


def _git(*words: str) -> str:
    argv = ["git", "-C", str(ROOT), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def read(path: Path = FILE) -> dict[str, Figures]:
    """What the file has, by the name of the row."""
    if not path.exists():
        return {}
    rows = json.loads(path.read_text())["rows"]
    return {name: _figures(one) for name, one in rows.items()}


def _figures(value: Mapping[str, object]) -> Figures:
    tries = value["tries"]
    assert isinstance(tries, list)
    return Figures(
        str(value["tree"]), tuple(Trial(**{**one, "why": tuple(one["why"])}) for one in tries)
    )


def added(rows: Mapping[str, Figures], name: str, trial: Trial, of_tree: str) -> dict[str, Figures]:
    """The same with one more trial."""
    known = rows.get(name, Figures(of_tree, ()))
    before = known.tries if known.tree == of_tree else ()
    return {**rows, name: Figures(of_tree, (*before, trial))}


def write(rows: Mapping[str, Figures], machine: Mapping[str, str], path: Path = FILE) -> None:
    """Write all of it at once, so that whoever is killed leaves the old file or the new one."""
    value = {
        "machine": machine,
        "rows": {
            name: {"tree": one.tree, "tries": [trial._asdict() for trial in one.tries]}
            for name, one in sorted(rows.items())
        },
    }
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value, indent=1) + "\n")
    new.replace(path)
