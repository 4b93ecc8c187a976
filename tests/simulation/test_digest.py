"""The same leaves the processes of a world as is recorded, and each other hash has a reason."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dsrun.launcher import __version__

from ..support.checkout import CHECKOUT, IMPORTABLE
from . import digest
from .digest import Change, Recorded
from .scenario import scenario
from .seeds import commit_of, first_of

PARTS = 2

COMPARED = digest.compared(first_of(commit_of(CHECKOUT)))
"""Of all 1,200 as many as take seconds; `python -m tests.simulation --digest` compares all."""


def recorded() -> Recorded:
    return digest.read(digest.FILE.read_text())


@pytest.mark.parametrize("part", range(PARTS))
def test_worlds_are_as_they_were(part: int) -> None:
    found = digest.digests_of(COMPARED[part::PARTS], jobs=1)
    changed = digest.differing(recorded(), found)
    assert changed == [], f"seeds with another digest{digest.told(changed)}\n{digest.AGAIN}"


def test_each_change_of_the_digests_has_a_reason() -> None:
    """Whoever writes other hashes into the file has said none."""
    known = recorded()
    assert tuple(known.digests) == digest.SEEDS
    assert known.changes[-1].sums == digest.sum_of(known.digests)
    assert all(one.why for one in known.changes)
    assert digest.write(known) == digest.FILE.read_text()


def test_there_are_twelve_hundred_seeds_of_all_kinds() -> None:
    assert len({*digest.SEEDS}) == 1200
    several = [{*digest.compared(first)} for first in range(digest.PART)]
    assert set.union(*several) == {*digest.SEEDS}
    worlds = [scenario(seed) for seed in digest.SEEDS]
    assert any(one.hold is not None for one in worlds)
    assert any(one.roles for one in worlds)
    assert any(role.elastic for one in worlds for role in one.roles)
    assert any(one.engine for one in worlds)


def test_a_change_is_dated_and_counted_and_needs_a_reason() -> None:
    known = digest.renewed(Recorded(), {0: "aa", 1: "bb"}, "the first", "2026-01-01")
    made = digest.renewed(known, {1: "cc"}, "a byte\nmore", "2026-01-02")
    assert made.digests == {0: "aa", 1: "cc"}
    assert made.changes[1:] == (
        Change("2026-01-02", 1, "a byte more", digest.sum_of(made.digests)),
    )
    assert digest.renewed(made, {0: "aa"}, "none", "2026-01-03") == made
    with pytest.raises(ValueError, match="why"):
        digest.renewed(made, {0: "bb"}, " ", "2026-01-03")


def test_a_file_is_read_as_it_was_written() -> None:
    hashes = {seed: f"{seed:08x}" for seed in (*range(13), 30, 31, 1_000_000)}
    made = digest.renewed(Recorded(), hashes, "why\u00e4", "2026-01-01")
    text = digest.write(made)
    assert digest.read(text) == made
    assert [first for first in ("0", "10", "30") if f'"{first}": "' not in text] == []


def test_a_hash_tells_neither_checkout_nor_interpreter_nor_version() -> None:
    words = f'{sys.executable} {CHECKOUT}/launcher/features/elastic/shim.py {{"dsrun":"VERSION"}}'
    version = words.replace("VERSION", __version__)
    assert digest.plain(version.encode()) == b'PYTHON shim.py {"dsrun":"VERSION"}'


TOLD = """
from tests.simulation.digest import lines_of
from tests.simulation.scenario import scenario
for seed in {seeds}:
    print(seed, "\\n".join(lines_of(scenario(seed))))
"""


def test_a_hash_depends_neither_on_the_order_of_sets_nor_on_other_worlds() -> None:
    """Seed 3 has a node launcher that is started again, 1000002 has roles."""
    found = []
    for order, seeds in (("1", [3, 1000002]), ("2", [1000002, 3])):
        environ = {**os.environ, **IMPORTABLE, "PYTHONHASHSEED": order}
        command = [sys.executable, "-c", TOLD.format(seeds=seeds)]
        ran = subprocess.run(
            command, cwd=CHECKOUT, env=environ, capture_output=True, text=True, check=True
        )
        found.append(sorted(ran.stdout.splitlines()))
    assert found[0] == found[1]


def test_what_is_hashed_leaves_processes() -> None:
    lines = [*digest.lines_of(scenario(3))]
    for part in (" exec b'", " socket b'", "/work/r.json b'", '"kind": "signalled"', "0 crashes"):
        assert [one for one in lines if part in one], part
    assert not [one for one in lines if '"kind": "round"' in one]
