"""Every fault that was found is registered, and the test that holds it is there."""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import Any

import pytest

from docs.generate.bugs import AIM

from .simulation.finds import recorded
from .simulation.old_faults import OLD_FAULTS, Replacement, replant
from .support.checkout import CHECKOUT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KINDS = ("order", "loss", "end", "cleaning", "output", "input", "security", "words")
FOUND_BY = ("stranger", "test", "reading", "simulation")
FIELDS = {"id", "what", "where", "found_by", "kind", "test"}

BUGS: list[dict[str, Any]] = tomllib.loads((CHECKOUT / "tests" / "bugs.toml").read_text())["bug"]


def test_each_has_an_id_of_its_own() -> None:
    found = Counter(bug["id"] for bug in BUGS)
    assert [one for one, times in found.items() if times > 1] == []


@pytest.mark.parametrize("bug", BUGS, ids=[bug["id"] for bug in BUGS])
def test_its_test_and_its_module_exist(bug: dict[str, Any]) -> None:
    assert bug.keys() - {"replant", "blind"} == FIELDS
    assert (bug["kind"] in KINDS, bug["found_by"] in FOUND_BY) == (True, True)
    assert (CHECKOUT / bug["where"]).is_file()
    path, _, name = bug["test"].partition("::")
    source = (CHECKOUT / path).read_text()
    assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE)


def test_old_faults_are_those_that_can_be_put_back() -> None:
    assert {bug["id"] for bug in BUGS if "replant" in bug} == OLD_FAULTS.keys()


def test_worlds_are_not_blind_for_what_they_find_soon() -> None:
    soon = {bug for bug, one in recorded().items() if one.median <= AIM}
    assert {bug["id"] for bug in BUGS if "blind" in bug} <= OLD_FAULTS.keys() - soon


@pytest.mark.parametrize("bug", OLD_FAULTS)
def test_an_old_fault_can_be_put_back(bug: str, tmp_path: Any) -> None:
    """The text of each module is there once, and what comes of it can be compiled."""
    for one in OLD_FAULTS[bug]:
        module = tmp_path / one.module
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text((CHECKOUT / one.module).read_text())
    for changed in replant(bug, tmp_path):
        source = (tmp_path / changed).read_text()
        compile(source, changed, "exec")
        assert source != (CHECKOUT / changed).read_text()


def test_a_text_that_is_not_there_once_is_an_error() -> None:
    assert Replacement("a.py", "b", "c").spoil("abd") == "acd"
    for source in ("ad", "abb"):
        with pytest.raises(ValueError, match=r"a\.py: [02] times"):
            Replacement("a.py", "b", "c").spoil(source)
