"""One option as the help, the manual pages and the completion show it."""

from __future__ import annotations

from ...common.values import NamedTuple
from ..options import all_options
from .groups import descriptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..option import Option
    from .description import Description


class Row(NamedTuple):
    """One option of a command.

    Attributes:
        names: as they are typed, one-letter names first.
        metavar: what its value is called, "" for a flag.
        text: what it does.
        default: what applies without it, "" for a flag.
        choices: the only valid values, () for any.
        values: values to suggest where others are valid, too.
        repeatable: whether it may be given several times.
    """

    names: tuple[str, ...]
    metavar: str
    text: str
    default: str = ""
    choices: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    repeatable: bool = False

    @property
    def words(self) -> str:
        """What the option does, its choices and its default."""
        chosen = f" One of: {', '.join(self.choices)}." if self.choices else ""
        return f"{self.text}{chosen}" + (f" [default: {self.default}]" if self.default else "")


def row(name: str) -> Row:
    """Return an option of dsrun."""
    option, description = all_options()[name], descriptions()[name]
    return Row(
        names=spellings(name, option),
        metavar=option.metavar,
        text=description.words(),
        default=default(name, option, description),
        choices=option.choices,
        values=description.suggestions(),
        repeatable=option.repeatable,
    )


def spellings(name: str, option: Option) -> tuple[str, ...]:
    """Return the names of an option as they are typed, one-letter names first."""
    short = [also for also in option.also if also.startswith("-")]
    return (*short, *(f"--{also}" for also in (name, *option.also) if also not in short))


def default(name: str, option: Option, description: Description) -> str:
    """Return what applies when an option is not given; "" for a flag."""
    if option.kind == "bool":
        return ""
    if description.default:
        return description.default
    if option.kind == "seconds":
        return f"{option.default:g} s"
    if option.default in {None, "", ()}:
        raise ValueError(f"--{name}: its description has to say what applies without it")
    value = str(option.default)
    return f"'{value}'" if " " in value else value
