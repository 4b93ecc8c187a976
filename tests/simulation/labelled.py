"""The lines that dsrun shows of ranks, without their labels. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LABEL = re.compile(r"[^:]*:(\d+)([|+]) (.*)", re.DOTALL)


def lines_of(out: str, err: str) -> Iterator[tuple[str, int]]:
    """Yield each line with its rank, -1 for one of standard error.

    Args:
        out: the standard output: all of it has labels.
        err: the standard error.
    """
    shown: list[tuple[str, int]] = []
    for line in out.split("\n")[:-1]:
        found = LABEL.fullmatch(line)
        assert found is not None, line
        label, bar, text = found.groups()
        rank = int(label)
        if bar == "+":  # it goes on with a line that was shown in part
            at = max(n for n, one in enumerate(shown) if one[1] == rank)
            text = shown.pop(at)[0] + text
        shown.append((text, rank))
    yield from shown
    for line in err.split("\n")[:-1]:
        yield line, -1
