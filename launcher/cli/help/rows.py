"""One option in the form for the help, the manual pages and the completion."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...common.wording import either
from ..options import GROUPS, all_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..option import Option


class OptionRow(NamedTuple):
    """One option of a command.

    Attributes:
        names: the names as typed, one-letter names first.
        metavar: the name of the value, "" for a flag.
        default: the behaviour without the option, "" for a flag.
        choices: the only valid values, () for any.
        values: values to suggest where others are valid, too.
        repeatable: whether the option may be given several times.
        offers: the kind of values that completion offers, as in `Option`.
    """

    names: tuple[str, ...]
    metavar: str
    text: str
    default: str = ""
    choices: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    repeatable: bool = False
    offers: str = ""

    @property
    def words(self) -> str:
        """The effect of the option, its choices and its default."""
        chosen = f" One of: {', '.join(self.choices)}." if self.choices else ""
        return f"{self.text}{chosen}" + (f" [default: {self.default}]" if self.default else "")


def groups() -> dict[str, tuple[str, ...]]:
    """Return the names of the options of each group by its title."""
    names = list(all_options())
    starts = [names.index(first) for first in GROUPS.values()]
    spans = zip(starts, [*starts[1:], None], strict=True)
    return {
        title: tuple(names[start:end]) for title, (start, end) in zip(GROUPS, spans, strict=True)
    }


def row(name: str) -> OptionRow:
    """Return an option of dsrun."""
    return of(name, all_options()[name])


def of(name: str, option: Option) -> OptionRow:
    """Return an option of any command."""
    values = option.suggestions
    return OptionRow(
        names=_spellings(name, option),
        metavar=option.metavar,
        text=option.text.replace("{values}", either(values)) if values else option.text,
        default=_default(name, option),
        choices=option.choices,
        values=values,
        repeatable=option.repeatable,
        offers=option.offers,
    )


def _spellings(name: str, option: Option) -> tuple[str, ...]:
    """Return the names of an option as they are typed, one-letter names first."""
    short = [also for also in option.also if also.startswith("-")]
    return (*short, *(f"--{also}" for also in (name, *option.also) if also not in short))


def _default(name: str, option: Option) -> str:
    """Return the behaviour without an option; "" for a flag."""
    if option.kind == "bool":
        return ""
    if option.unset:
        return option.unset
    if option.kind == "seconds":
        return f"{option.default:g} s"
    if option.default in {None, "", ()}:
        raise ValueError(f"--{name}: its row has to say what applies without it")
    value = str(option.default)
    return f"'{value}'" if " " in value else value
