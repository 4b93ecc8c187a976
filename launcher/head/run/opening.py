"""The line that opens a job. Pure."""

from __future__ import annotations

from ...backends import BACKENDS
from ...common.wording import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.plan import Plan

WIDTH = 80
"""Columns that the line which opens a job takes at most: those of a terminal nobody has widened."""


def opening(plan: Plan, source: str, job_id: str) -> str:
    """Return the words that open a job: how many nodes, where they are from, and its name.

    `source` is the spec's; dsrun's own name goes before this line.
    """
    source = source.partition(" (")[0]
    here = source == "this machine"
    count, spec = len(plan.nodes), BACKENDS[plan.launcher]
    if spec.joins:
        before, source, after = f"node 0 of {count}: ", "--no_ssh" if here else source, ""
    elif spec.this_machine:
        before, source, after = "this machine", "" if here else f", from {source}", ""
    else:
        before, after = f"{counted(count, 'node')} from ", f" over {plan.launcher}"
    after += f"; job {job_id}"
    return before + _folded(source, WIDTH - len(f"dsrun: {before}{after}")) + after


def _folded(text: str, room: int) -> str:
    """Leave out the middle of a text that is too long."""
    if len(text) <= room:
        return text
    start = (room - 3) // 2
    return f"{text[:start]}...{text[len(text) - (room - 3 - start) :]}"
