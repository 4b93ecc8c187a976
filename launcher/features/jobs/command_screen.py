"""The live view of jobs, drawn with rich for a width and a height."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from .command_view import lines, title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .command_view import JobView, ViewLine

STYLES = {"host": "bold", "rank": "", "note": "dim"}

COLUMNS = (
    ("HOST, RANK", "name", 0, "left"),
    ("STATE", "state", 0, "left"),
    ("PID", "pid", 90, "right"),
    ("CPU", "cpu", 0, "right"),
    ("MEMORY", "memory", 0, "right"),
    ("PROCESSES", "processes", 110, "right"),
    ("DEVICE", "device", 72, "right"),
    ("SLOW", "slow", 56, "left"),
    ("LAST LINE", "last", 56, "left"),
)
"""Title, field, minimum width of the screen, and alignment of each column."""

ABOVE = 3
"""Lines of each job above its rows: an empty one, its title and the column titles."""


def draw(views: Sequence[JobView], now: float, width: int, height: int, *, hint: str) -> Group:
    """Return the screen content for these jobs; `now` is in seconds since 1970."""
    room = max(1, (height - 1) // max(1, len(views)) - ABOVE)
    parts = [part for view in views for part in _job(view, now, width, room)]
    empty = [] if views else [Text("no job of yours is running on this machine")]
    return Group(Text(hint, style="dim", no_wrap=True, overflow="ellipsis"), *empty, *parts)


def _job(view: JobView, now: float, width: int, room: int) -> list[Text | Table]:
    head = Text(title(view, now), style="bold reverse", no_wrap=True, overflow="ellipsis")
    rows = lines(view, room)
    table = Table(box=None, expand=True, padding=(0, 2, 0, 0), header_style="dim")
    shown = [one for one in COLUMNS if width >= one[2] and _is_used(one[1], rows)]
    for heading, field, _, align in shown:
        ratio = 1 if field == "last" else None
        table.add_column(
            heading,
            justify="right" if align == "right" else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=ratio,
            min_width=8 if ratio else None,
        )
    for row in rows:
        table.add_row(*(_cell(row, field) for _, field, _, _ in shown), style=STYLES[row.level])
    return [Text(""), head, table]


def _is_used(field: str, rows: Sequence[ViewLine]) -> bool:
    """Return whether a column is shown; the device, and the slowness, may be omitted."""
    return field not in {"device", "slow"} or any(getattr(row, field) for row in rows)


def _cell(row: ViewLine, field: str) -> Text:
    """Return a cell as text alone, in which nothing is taken for markup."""
    text = str(getattr(row, field))
    if field == "name" and row.level == "rank":
        text = f"  {text}"
    return Text(text, style="red" if row.bad and field in {"name", "state"} else "")
