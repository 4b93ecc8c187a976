"""Names of hosts that follow each other, folded into ranges and unfolded."""

from __future__ import annotations

import pytest

from dsrun.launcher.resources.ranges import expand, runs_of, spell


@pytest.mark.parametrize(
    ("names", "spelt"),
    [
        (["n1", "n2", "n3", "n5"], ["n[1-3]", "n5"]),
        (["n08", "n09", "n10"], ["n[08-10]"]),
        (["n9", "n10", "n11"], ["n[9-11]"]),
        (["n1.c2", "n1.c3", "n1.c4"], ["n1.c[2-4]"]),
        (["a", "a", "b"], ["a", "a", "b"]),
        (["n1", "n2"], ["n1, n2"]),
        (["n3", "n2", "n1"], ["n3", "n2", "n1"]),
        (["n01", "n2", "n03"], ["n01", "n2", "n03"]),
    ],
)
def test_runs_of_names(names: list[str], spelt: list[str]) -> None:
    assert [spell(run) for run in runs_of(names)] == spelt
    assert [one for text in spelt for part in text.split(", ") for one in expand(part)] == names
