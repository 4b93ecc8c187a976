"""Failures of imports that come from differences between the nodes. Pure."""

from __future__ import annotations

import re

from ..fleet.hosts import some_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...control.facts import Facts
    from .classify import Found

    NodeFacts = Sequence[tuple[str, Facts]]

OF_VERSIONS = frozenset({"import", "binary-mismatch", "library-missing", "library-old"})
"""Rows of the table that other versions on one of the nodes would explain."""

_MODULE = re.compile(r"No module named '?([\w]+)")


def missing_here(found: Found, facts: NodeFacts) -> str:
    """Return which other nodes have the module that is missing on this one, "" for none."""
    match = _MODULE.search(found.sentence) if found.row.name == "module-missing" else None
    if match is None:
        return ""
    name = match[1].lower()
    having = {host: one.versions[name] for host, one in facts if name in one.versions}
    if not having or found.host in having:
        return ""
    version = next(iter(having.values()))
    return (
        f"{match[1]} is missing on {found.host}, but installed on {some_of([*having])} ({version})"
    )


def versions(found: Found, facts: NodeFacts) -> str:
    """Return in which versions this node differs from most, "" for none."""
    if found.row.name not in OF_VERSIONS:
        return ""
    from ..checks.subject import Subject
    from ..checks.versions import check

    differing = check([Subject(host, one) for host, one in facts])
    texts = [one.text for one in differing if found.host in one.nodes]
    return f"{found.host} differs from other nodes: {'; '.join(texts)}" if texts else ""
