"""Failures of imports: differences between the nodes, and modules installed nowhere. Pure."""

from __future__ import annotations

import re

from ...head.fleet.hosts import some_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...control.facts import Facts
    from ...specs.program import Program
    from ...specs.verdict import Verdict
    from .runner_classify import RowMatch

    NodeFacts = Sequence[tuple[str, Facts]]

OF_VERSIONS = frozenset({"import", "binary-mismatch", "library-missing", "library-old"})
"""Rows of the table that other versions on one of the nodes would explain."""

ELSEWHERE = (
    "check that its folder exists and is in PYTHONPATH (--sync DIR copies one), or install it on"
    " all nodes; dsrun-check compares packages"
)
"""Advice on a module that no node has installed, and that another folder may have."""

_MODULE = re.compile(r"No module named '?([\w]+)")


def missing_here(found: RowMatch, facts: NodeFacts) -> str:
    """Return the other nodes that have the module missing on this one, or ""."""
    module = _missing_module(found)
    name = module.lower()
    having = {host: one.versions[name] for host, one in facts if name in one.versions}
    if not module or not having or found.host in having:
        return ""
    version = next(iter(having.values()))
    return f"{module} is missing on {found.host}, but installed on {some_of([*having])} ({version})"


def _missing_module(found: RowMatch) -> str:
    """Return the name of the module that an import has not found, "" for another failure."""
    if found.row.name == "torch-missing":
        return "torch"
    match = _MODULE.search(found.sentence) if found.row.name == "module-missing" else None
    return match[1] if match else ""


def not_installed(found: RowMatch, facts: NodeFacts, program: Program | None) -> Verdict | None:
    """Return the package to install for a Python if no node has it; None if unknown."""
    module, here = _missing_module(found), dict(facts).get(found.host)
    of_python = program is not None and not program.no_python
    if not (module and of_python and here) or any(module in one.versions for _, one in facts):
        return None
    from ..quick_check.runner_findings import python_of
    from ..quick_check.runner_versions import no_torch

    if module == "torch":
        sentence, advice = no_torch(here)
        return found.verdict._replace(sentence=sentence, advice=advice)
    if len(facts) > 1:
        if known := _elsewhere(module, found.host, facts):
            return found.verdict._replace(sentence=known[0], advice=known[1])
        sentence = f"{module} is not found on {found.host}"
        return found.verdict._replace(sentence=sentence, advice=ELSEWHERE)
    advice = f"install it for {python_of(here)}, or choose another Python (--python)"
    return found.verdict._replace(advice=advice)


def _elsewhere(module: str, host: str, facts: NodeFacts) -> tuple[str, str] | None:
    """Return the folder of a module on other nodes, and advice; None if they lack the module."""
    folder = next((one.modules[module] for _, one in facts if module in one.modules), "")
    having = [name for name, one in facts if one.modules.get(module) == folder and name != host]
    if not folder or not having:
        return None
    has = "has" if len(having) == 1 else "have"
    absent = f", which does not exist on {host}" if folder in dict(facts)[host].absent else ""
    sentence = f"{module} is not found on {host}; {some_of(having)} {has} it in {folder}{absent}"
    return sentence, f"copy {folder} to {host}, or put it on a file system that all nodes share"


def versions(found: RowMatch, facts: NodeFacts) -> str:
    """Return the version differences between this node and most nodes, or ""."""
    if found.row.name not in OF_VERSIONS:
        return ""
    from ..quick_check.runner_findings import ComparedNode
    from ..quick_check.runner_versions import check

    differing = check([ComparedNode(host, one) for host, one in facts])
    texts = [one.text for one in differing if found.host in one.nodes]
    return f"{found.host} differs from other nodes: {'; '.join(texts)}" if texts else ""
