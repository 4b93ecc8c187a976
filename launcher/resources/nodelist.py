"""Slurm's compressed lists: of hosts (`node[01-16,20],login1`) and of counts (`2(x3),1`). Pure.

sbatch(1) has the counts (SLURM_TASKS_PER_NODE); for hosts the rule is `scontrol show hostnames`,
and all that it reads is read here: empty items do not count, and in `[001-16]` the lower end says
how many digits there are.
"""

from __future__ import annotations

import re

from ..common.errors import UsageError
from .counts import bad
from .names import check_name
from .ranges import MAX_HOSTS, expand, located, quoted

# A comma between brackets parts no items.
_ITEM = re.compile(r"(?:[^,\[]+|\[[^\]]*\]?)+")
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_RANGE = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")
_COUNT = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")


def expand_nodelist(text: str, where: str = "SLURM_JOB_NODELIST") -> list[str]:
    """The host names that `text` stands for, in its order.

    Args:
        text: Such as `a[01-03,7],c[1-2]d[3-4],plain`; several brackets multiply.
        where: The variable that it stands in, for messages.

    Raises:
        UsageError: An item cannot be read, or there is none, or more than `MAX_HOSTS` names.
    """
    names: list[str] = []
    for item in filter(None, map(str.strip, _ITEM.findall(text))):
        names += _hosts(item, where)
        if len(names) > MAX_HOSTS:
            raise UsageError(f"{where}: more than {MAX_HOSTS} hosts")
    if not names:
        raise bad(where, text, "hosts such as node[01-16],login1")
    return names


def task_counts(text: str, where: str = "SLURM_TASKS_PER_NODE") -> list[int]:
    """The counts that `2(x3),1` stands for, one a node: 2, 2, 2, 1.

    Raises:
        UsageError: `text` is no such list, or one of more than `MAX_HOSTS` nodes.
    """
    counts: list[int] = []
    for item in text.split(","):
        match = _COUNT.fullmatch(item)
        if not match:
            raise bad(where, text, "counts such as 2(x3),1")
        times = int(match[2] or 1)
        if len(counts) + times > MAX_HOSTS:
            raise UsageError(f"{where}: {quoted(text)}: more than {MAX_HOSTS} nodes")
        counts += [int(match[1])] * times
    return counts


def _hosts(item: str, where: str) -> list[str]:
    try:
        names = expand(_BRACKETS.sub(_aligned, item))
        for name in names:
            check_name(name)
    except UsageError as fault:
        raise located(fault, where, item) from None
    return names


def _aligned(brackets: re.Match[str]) -> str:
    """The same brackets with both ends of each range filled to one width."""
    return _RANGE.sub(_with_zeros, brackets[0])


def _with_zeros(span: re.Match[str]) -> str:
    low, high = span[1], int(span[2])
    width = len(low) if low.startswith("0") else 1
    return f"{low}-{high:0{width}}"
