"""Which seeds the tests play."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ..support.checkout import CHECKOUT
from .scenario import WITH_COINCIDENCES, WITH_ELASTIC_ROLES, WITH_ENGINES, WITH_ROLES

WORLDS = 100
"""How many of jobs of one program are played."""

ROLES = 30
"""And of jobs of several roles."""

ELASTIC = 15
"""And of those of which some are elastic."""

ENGINES = 20
"""And of jobs that an engine starts."""

COINCIDENCES = 45
"""And of those in which two things happen at about the same moment."""

PLAYED = 10_000
"""Seeds below this were all played, and are clean."""

PLAYED_ROLES = 1_000
"""And so many of those of jobs of roles, and of those with elastic ones."""

PLAYED_ENGINES = 1_000
"""And of those with engines."""

PLAYED_COINCIDENCES = 1_000
"""And of those with coincidences."""


def seeds() -> list[int]:
    """Return seeds that depend on the commit, or those from DSRUN_TEST_SEED on.

    Only from those that were played before: one new world in some thousand shows something, and it
    is rarely the commit's fault.
    """
    given = os.environ.get("DSRUN_TEST_SEED")
    first = int(given) if given else first_of(commit_of(CHECKOUT))
    with_roles = WITH_ROLES + first % (PLAYED_ROLES - ROLES + 1)
    elastic = WITH_ELASTIC_ROLES + first % (PLAYED_ROLES - ELASTIC + 1)
    engines = WITH_ENGINES + first % (PLAYED_ENGINES - ENGINES + 1)
    coincidences = WITH_COINCIDENCES + first % (PLAYED_COINCIDENCES - COINCIDENCES + 1)
    return [
        *range(first, first + WORLDS),
        *range(with_roles, with_roles + ROLES),
        *range(elastic, elastic + ELASTIC),
        *range(engines, engines + ENGINES),
        *range(coincidences, coincidences + COINCIDENCES),
    ]


def mixed(count: int) -> list[int]:
    """Return the first so many seeds of all kinds, in the shares in which the tests play them."""
    kinds = (
        *((0, WORLDS), (WITH_ROLES, ROLES), (WITH_ELASTIC_ROLES, ELASTIC)),
        *((WITH_ENGINES, ENGINES), (WITH_COINCIDENCES, COINCIDENCES)),
    )
    places = ((at / share, first + at) for first, share in kinds for at in range(count))
    return [seed for _, seed in sorted(places)[:count]]


def first_of(commit: str) -> int:
    """Return the first seed for a commit, given its hash; 0 for ""."""
    return int(commit or "0", 16) % (PLAYED - WORLDS + 1)


def commit_of(folder: Path) -> str:
    """Return the hash of the commit that is checked out in a folder; "" without git."""
    try:
        told = subprocess.run(
            ["git", "rev-parse", "--verify", "HEAD"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return told.stdout.strip()
