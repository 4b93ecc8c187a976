"""The first line that dsrun prints about a job. Pure."""

from __future__ import annotations

from ...backends import BACKENDS
from ...common.wording import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.plan import Plan

WIDTH = 80
"""Maximum length of the opening line in columns: the usual width of a terminal."""

_HERE = "this machine"


def banner(plan: Plan, source: str, job_id: str) -> str:
    """Return the opening line: the number of nodes, where they are listed, and the job's id.

    `source` is the `source` of the job's Origin. The console adds the prefix "dsrun: ".
    """
    source = source.partition(" (")[0]
    unnamed = source == _HERE
    count, spec = len(plan.nodes), BACKENDS[plan.launcher]
    if spec.joins:
        before, source, after = f"node 0 of {count}: ", "--no_ssh" if unnamed else source, ""
    elif spec.this_machine:
        before, source, after = _HERE, _besides(source), ""
    else:
        before, after = f"{counted(count, 'node')} from ", f" over {plan.launcher}"
    after += f"; job {job_id}"
    return before + _folded(source, WIDTH - len(f"dsrun: {before}{after}")) + after


def _besides(source: str) -> str:
    """Return the suffix that names the source of a job on this machine."""
    return source.removeprefix(_HERE) if source.startswith(_HERE) else f", from {source}"


def _folded(text: str, room: int) -> str:
    """Shorten a text to `room` characters: replace its middle with dots."""
    if len(text) <= room:
        return text
    start = (room - 3) // 2
    return f"{text[:start]}...{text[len(text) - (room - 3 - start) :]}"
