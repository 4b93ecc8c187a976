"""Play rows of promises on virtual hosts, one trial after another, for so many hours.

The row whose rate of failures is bounded least comes first. Each trial is added to
docs/promises.json at once, so the command may be ended at any moment and started again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from ..cluster.command import CHECKOUT
from .figures import Figures, added, read, tree, write
from .machine import machine
from .played import Stage, lacking
from .rows import OTHER_ROWS, ROWS, Row
from .trial import play

PLACE = "/var/tmp"
"""The folders of jobs lie here, where all virtual hosts see the same."""


def main() -> None:
    """Play, and tell of each trial in a line."""
    parser = argparse.ArgumentParser(prog="python -m tests.promises", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="for how long (default: 1)")
    parser.add_argument("--rows", default="", help="only rows with these words: ssh,power")
    parser.add_argument("--tries", type=int, default=10**6, help="at most so many a row")
    parser.add_argument("--dry", action="store_true", help="write no file")
    options = parser.parse_args()
    words = options.rows.split(",")
    rows = [row for row in (ROWS | OTHER_ROWS).values() if all(w in row.name for w in words)]
    rows = [row for row in rows if not row.skip and not lacking(row.way)]
    until = time.monotonic() + options.hours * 3600
    this_tree, seen = tree(), read()
    with closing(Stage(shared())) as stage:
        while time.monotonic() < until and (row := widest(rows, seen, this_tree, options.tries)):
            step(row, stage, seen, this_tree)
            if not options.dry:
                write(seen, machine())


def shared() -> list[Path]:
    """What hosts must see: ourselves and Python."""
    return [path.resolve() for path in (CHECKOUT, Path(sys.prefix), Path(sys.base_prefix))]


def step(row: Row, stage: Stage, seen: dict[str, Figures], this_tree: str) -> None:
    """Play a row once, add what was seen, and tell of it."""
    folder = Path(tempfile.mkdtemp(prefix="dsrun-promised-", dir=PLACE))
    tries = tries_of(row, seen, this_tree)
    try:
        trial = play(row, stage, folder, tries)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seen.update(added(seen, row.name, trial, this_tree))
    verdict = "; ".join(trial.why) or "as promised"
    print(f"{row.name} {tries}: code {trial.code} in {trial.seconds} s: {verdict}", flush=True)


def tries_of(row: Row, seen: dict[str, Figures], this_tree: str) -> int:
    """How often a row was played on this tree."""
    return len(known(row, seen, this_tree).tries)


def known(row: Row, seen: dict[str, Figures], this_tree: str) -> Figures:
    """What was seen of a row on this tree."""
    figures = seen.get(row.name)
    return figures if figures and figures.tree == this_tree else Figures(this_tree, ())


def widest(rows: list[Row], seen: dict[str, Figures], this_tree: str, most: int) -> Row | None:
    """The row of which least is known, among those that were played less than so often."""
    left = [row for row in rows if tries_of(row, seen, this_tree) < most]
    return max(left, key=lambda row: known(row, seen, this_tree).doubt, default=None)


if __name__ == "__main__":
    main()
