"""Write `docs/bugs.md`: every fault that was found, and how soon worlds find it again."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.simulation.finds import STARTS, Measured, recorded
from tests.support.checkout import CHECKOUT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Bug = dict[str, Any]

KINDS = {
    "order": "Order of rounds, frames and workers",
    "loss": "Loss of what was to be kept",
    "end": "When and how a job ends",
    "cleaning": "What is left behind",
    "output": "Output of workers",
    "input": "Input of users",
    "security": "Security",
    "words": "Messages and reports",
}
"""The heading of each kind of fault."""

FOUND_BY = {
    "stranger": ("trial", "somebody used dsrun without knowing its code"),
    "test": ("test", "a test, or a run of CI, failed"),
    "simulation": ("world", "a [simulated world](development.md#simulated-worlds) broke a rule"),
    "reading": ("review", "somebody read the code"),
}
"""Who has found a fault, and what that means."""

AIM = 100
"""Within so many seeds worlds are meant to find an old fault: the median of the starts."""

HEAD = """\
<!-- Written by `python -m docs.generate` from tests/bugs.toml. Change that file instead. -->

# Bugs

The {count} faults of dsrun that were found and fixed: what happened, who found it, and the test
that fails if it comes back.

| found by | faults | how |
|---|---|---|
{found_by}

Run a test by its name to see that a fault is gone:

    .venv/bin/python -m pytest TEST

## How soon worlds find them again

{replanted} of these faults can be put back into the code of today
(`tests/simulation/old_faults.py`). To see one again, put it back into a copy of the checkout, and
play worlds there until they break a rule:

    .venv/bin/python -m tests.simulation.measure --old --only FAULT

A world is determined by a [seed](development.md#simulated-worlds). The command plays the first
{seeds} seeds, of all kinds of jobs, and begins to count anew behind each seed that finds the fault,
until it has found it {starts} times. The column `seeds` has the median of these counts; where
the fault was found less often, it has the number of finds. Worlds that were kept when a fault was
found are not played, as they were made of it. The figures are in `tests/recorded/old_faults.json`,
with the seeds and the rules that they break.

* {found} of {measured} faults are found, {soon} of them within {aim} seeds, which is the aim.
* {others_found} of the {others} that worlds were not the first to find are found today.
"""


def files() -> dict[str, str]:
    """Return the page by its path from the root."""
    bugs = tomllib.loads((CHECKOUT / "tests" / "bugs.toml").read_text(encoding="utf-8"))["bug"]
    return {"docs/bugs.md": page(bugs, recorded())}


def page(bugs: Sequence[Bug], measured: Mapping[str, Measured]) -> str:
    """Return the page."""
    lines = [_head(bugs, measured), *_unseen(bugs, measured)]
    for kind, title in KINDS.items():
        lines += [f"## {title}\n", "| fault | found by | test | seeds |", "|---|---|---|---|"]
        lines += [_row(bug, measured) for bug in bugs if bug["kind"] == kind]
        lines += [""]
    return "\n".join(lines)


def _head(bugs: Sequence[Bug], measured: Mapping[str, Measured]) -> str:
    finders = Counter(bug["found_by"] for bug in bugs)
    rows = (f"| {name} | {finders[by]} | {how} |" for by, (name, how) in FOUND_BY.items())
    worlds_first = {bug["id"] for bug in bugs if bug["found_by"] == "simulation"}
    others = [one for bug, one in measured.items() if bug not in worlds_first]
    return HEAD.format(
        count=len(bugs),
        found_by="\n".join(rows),
        replanted=sum("replant" in bug for bug in bugs),
        seeds=max(one.seeds for one in measured.values()),
        starts=STARTS,
        found=sum(bool(one.finds) for one in measured.values()),
        measured=len(measured),
        soon=sum(one.median <= AIM for one in measured.values()),
        aim=AIM,
        others=len(others),
        others_found=sum(bool(one.finds) for one in others),
    )


def _unseen(bugs: Sequence[Bug], measured: Mapping[str, Measured]) -> Iterator[str]:
    """Yield which faults are found late or never, and why, if that is known."""
    yield from ("| found later, or not | seeds | why |", "|---|---|---|")
    for bug in bugs:
        late = bug["id"] in measured and measured[bug["id"]].median > AIM
        if late or "blind" in bug:
            yield f"| `{bug['id']}` | {_seeds(bug, measured)} | {_cell(bug.get('blind', ''))} |"
    yield ""


def _row(bug: Bug, measured: Mapping[str, Measured]) -> str:
    what = f"`{bug['id']}`: {_cell(bug['what'])}"
    finder, _ = FOUND_BY[bug["found_by"]]
    return f"| {what} | {finder} | `{bug['test']}` | {_seeds(bug, measured)} |"


def _seeds(bug: Bug, measured: Mapping[str, Measured]) -> str:
    """Return how many seeds it takes to find a fault, as far as that was measured."""
    one = measured.get(bug["id"])
    if one is None:
        return ""
    if one.median == float("inf"):
        return f"{len(one.finds)} in {one.seeds}"
    return f"{one.median:g}"


def _cell(words: str) -> str:
    """Return text that stays in the cell of a table, and is no markup."""
    return words.replace("\\", "\\\\").replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")
