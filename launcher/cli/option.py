"""One entry of the table of options. Pure."""

from __future__ import annotations

from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 999_999_999
"""The largest number that any option takes, seconds included."""

PORTS = 65535
"""The largest port."""


class Option(NamedTuple):
    """What the parser knows about one option, beside its name; `help/` describes it.

    Attributes:
        default: its value when it is not given.
        kind: str, int, seconds (a duration), bool (a flag without a value) or list (repeatable).
        metavar: what its value is called, "" for a flag.
        also: other names of it, one-letter names with their dash.
        choices: the only valid values, () for any.
        none: a value with which a peer's users say "not given" (-1 for DeepSpeed).
        positive: whether a number has to be above 0.
        most: the largest number.
        valid: the valid numbers in words, if there is more to say than the bounds.
        separator: what joins the values if it is given several times; "" if the last one counts.
    """

    default: Any
    kind: str
    metavar: str
    also: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    none: str | None = None
    positive: bool = False
    most: int = MOST
    valid: str = ""
    separator: str = ""

    @property
    def repeatable(self) -> bool:
        """Whether it may be given several times, and every value counts."""
        return self.kind == "list" or bool(self.separator)


def option(default: Any, kind: str, metavar: str = "", **more: Any) -> Any:
    """Declare one option as a field of `Options`."""
    return Option(default, kind, metavar, **more)
