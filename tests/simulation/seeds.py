"""Which seeds the tests play: other ones for each commit."""

from __future__ import annotations

import hashlib
import os
import subprocess

from ..support.checkout import CHECKOUT

WORLDS = 400
"""How many are played."""

PLACES = 100_000
"""How many commits can have seeds of their own."""


def seeds() -> range:
    """Return the seeds of this commit, or those from DSRUN_TEST_SEED on."""
    given = os.environ.get("DSRUN_TEST_SEED")
    first = int(given) if given else first_of(_commit() or _sources())
    return range(first, first + WORLDS)


def first_of(state: str) -> int:
    """Return the first seed of a state of the sources, of which this is a hash in hex."""
    return int(state[:12], 16) % PLACES * WORLDS


def _commit() -> str:
    """Return the hash of the commit, "" where git does not know it."""
    command = ["git", "-C", str(CHECKOUT), "rev-parse", "--verify", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def _sources() -> str:
    """Return a hash of the sources."""
    told = hashlib.sha256()
    for path in sorted((CHECKOUT / "launcher").rglob("*.py")):
        told.update(path.read_bytes())
    return told.hexdigest()
