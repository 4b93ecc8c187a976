"""What is to be known of one option, and the groups in which `--help` shows them. Pure."""

from __future__ import annotations

from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

HOSTS = "Which hosts and devices"
PROGRAM = "What runs there"
START = "How it is started"
ENVIRONMENT = "Environment of the workers"
OUTPUT = "Output"
STOPPING = "Watching and stopping"
CORES = "Devices and cores"
GROUPS = (HOSTS, PROGRAM, START, ENVIRONMENT, OUTPUT, STOPPING, CORES)


MOST = 999_999_999
"""No number of anything, seconds included, is larger."""

PORTS = 65535


class Option(NamedTuple):
    """What is to be known of one option beside its name and default.

    Attributes:
        default: its value when nobody gives one.
        help: the words of `--help`, or what makes them where they name what a table holds.
        kind: str, int, seconds (a duration), bool (a flag without a value) or list (repeatable).
        also: other names it goes by, one-letter ones with their dash.
        choices: the only values allowed, () for any.
        none: a value of a peer's that means "not given" (DeepSpeed's -1).
        positive: a number above 0.
        most: the largest number.
        valid: the numbers allowed, where there is more to say of them.
    """

    default: Any
    kind: str
    group: str
    metavar: str
    help: str | Callable[[], str]
    also: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    none: str | None = None
    positive: bool = False
    most: int = MOST
    valid: str = ""


def option(
    default: Any,
    kind: str,
    group: str,
    help: str | Callable[[], str],  # noqa: A002
    metavar: str = "",
    **more: Any,
) -> Any:
    """Declare one option as a field of `Options`."""
    return Option(default, kind, group, metavar, help, **more)
