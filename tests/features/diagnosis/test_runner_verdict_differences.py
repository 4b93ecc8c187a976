"""Failures of imports that come from differences between the nodes."""

from __future__ import annotations

from dsrun.launcher.features.diagnosis.runner_classify import RowMatch
from dsrun.launcher.features.diagnosis.runner_row import Row
from dsrun.launcher.features.diagnosis.runner_verdict import (
    ELSEWHERE,
    missing_here,
    not_installed,
    versions,
)
from dsrun.launcher.specs.program import Program

from ...support.node_facts import facts

MISSING = RowMatch(
    Row("module-missing"), "ModuleNotFoundError: No module named 'flash_attn.ops' (t.py:1)", "n2"
)


def test_a_module_that_other_nodes_have() -> None:
    known = [(host, facts(versions={"flash_attn": "2.5"})) for host in ("n1", "n3")]
    others = [*known, ("n2", facts(versions={}))]
    text = missing_here(MISSING, others)
    assert text == "flash_attn is missing on n2, but installed on n1, n3 (2.5)"


def test_a_module_that_no_node_or_this_one_has() -> None:
    assert missing_here(MISSING, [("n1", facts(versions={}))]) == ""
    assert missing_here(MISSING, [("n2", facts(versions={"flash_attn": "2"}))]) == ""
    other = MISSING._replace(row=Row("mistake"))
    assert missing_here(other, [("n1", facts(versions={"flash_attn": "2"}))]) == ""


def test_another_version_than_most_have() -> None:
    found = RowMatch(Row("binary-mismatch"), "undefined symbol", "n2")
    known = [(host, facts(versions={"torch": "2.4.0"})) for host in ("n1", "n3")]
    others = [*known, ("n2", facts(versions={"torch": "2.3.1"}))]
    assert "torch 2.3, but 2.4 on n1, n3" in versions(found, others)
    assert versions(found._replace(host="n1"), others) == ""
    assert versions(MISSING, others) == ""


def test_the_folder_in_which_others_have_a_module_is_named() -> None:
    having = facts(versions={}, modules={"flash_attn": "/tmp/pp"})
    lacking = facts(versions={}, absent=("/tmp/pp",))
    nodes = [("n1", having), ("n2", lacking), ("n3", having)]
    verdict = not_installed(MISSING, nodes, Program("t.py"))
    assert verdict is not None
    assert verdict.sentence == (
        "flash_attn is not found on n2; n1, n3 have it in /tmp/pp, which does not exist on n2"
    )
    assert verdict.advice == "copy /tmp/pp to n2, or put it on a file system that all nodes share"
    verdict = not_installed(MISSING, [("n1", having), ("n2", facts(versions={}))], Program("t.py"))
    assert verdict is not None
    assert verdict.sentence == "flash_attn is not found on n2; n1 has it in /tmp/pp"


def test_a_module_of_ones_own_is_named_with_the_node_that_lacks_it() -> None:
    known = [(host, facts(versions={})) for host in ("n1", "n2")]
    verdict = not_installed(MISSING, known, Program("t.py"))
    assert verdict is not None
    assert (verdict.sentence, verdict.advice) == ("flash_attn is not found on n2", ELSEWHERE)
    alone = not_installed(MISSING, known[1:], Program("t.py"))
    assert alone is not None
    assert alone.advice.startswith("install it for ")
