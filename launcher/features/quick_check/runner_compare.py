"""The whole quick check: from the facts of all nodes to the findings. Pure."""

from __future__ import annotations

from . import runner_devices as devices
from . import runner_settings as settings
from . import runner_versions as versions
from .runner_findings import Severity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .runner_findings import ComparedNode, Finding

CHECKS = (
    *(versions.check, settings.check_clocks, devices.check, devices.check_space),
    *(settings.check_limits, settings.check_shares, settings.check_mtus),
    settings.check_variables,
)
"""Each yields the findings on one node."""


def findings(
    compared: Sequence[ComparedNode], files: Mapping[str, list[str]] | None = None
) -> list[Finding]:
    """Return all findings, errors first; findings with equal text are merged.

    Args:
        compared: the nodes; in a tie, the first node's value is right.
        files: the differing files, by the first of the nodes that have them
            (`runner_versions.differing`).
    """
    if not compared:
        return []
    found = [*versions.check_code(compared, files or {})]
    for check in CHECKS:
        found += check(compared)
    errors = [one for one in found if one.severity is Severity.ERROR]
    return joined([*errors, *(one for one in found if one.severity is not Severity.ERROR)])


def joined(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings; merge those that differ only by their nodes."""
    by_text: dict[tuple[str, str], Finding] = {}
    for one in found:
        key = one.code, one.text
        same = by_text.get(key)
        nodes = (*same.nodes, *one.nodes) if same else one.nodes
        by_text[key] = one._replace(nodes=nodes)
    return list(by_text.values())


def newcomer(one: ComparedNode, present: Sequence[ComparedNode]) -> list[Finding]:
    """Return the findings about a node that joins others, which agree.

    The facts of the others about their code may be old: in a shared folder, it has changed for all.
    So a differing script is only a warning here, and other differing files are ignored.
    """
    found = findings([*present, one])
    own = [each._replace(nodes=(one.name,)) for each in found if one.name in each.nodes]
    return [_undated(each) for each in own if each.code != "files"]


def _undated(one: Finding) -> Finding:
    if one.code != "script":
        return one
    return one._replace(severity=Severity.WARNING, text=f"{one.text} when they started")
