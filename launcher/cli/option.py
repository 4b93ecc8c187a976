"""One row of a table of options. Pure."""

from __future__ import annotations

from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    Words: TypeAlias = tuple[str, ...]

MOST = 999_999_999
"""The largest number that any option takes, seconds included."""

PORTS = 65535
"""The largest port."""

KINDS = {bool: "bool", int: "int", float: "seconds", tuple: "list"}
"""What an option takes, by the type of its default."""

ANY = ".*"
"""A form of values that `Option.untrusted` may have: any text."""

LABEL = r"(?:[^{}]|\{\{|\}\}|\{\w*(?::0?[<>^]?[0-9]{0,3}[ds]?)?\})*"
"""Another one: the format of a label, whose fields are at most 999 characters wide."""

METAVARS = {"seconds": "DURATION", "int": "N", "bool": ""}
"""What a value is called, by its kind, unless the row says otherwise."""


class Option(NamedTuple):
    """All that is known about one option, beside its name.

    Attributes:
        default: its value when it is not given.
        kind: str, int, seconds (a duration), bool (a flag without a value) or list (repeatable).
        text: what it does, for the help; `{values}` stands for the suggested values.
        metavar: what its value is called, "" for a flag.
        also: other names of it, one-letter names with their dash.
        choices: the only valid values, () for any.
        values: values to suggest where others are valid, too; a function where a table has them.
        none: a value with which a peer's users say "not given" (-1 for DeepSpeed).
        positive: whether a number has to be above 0.
        most: the largest number.
        valid: the valid numbers in words, if there is more to say than the bounds.
        separator: what joins the values if it is given several times; "" if the last one counts.
        unset: what applies when it is not given, if the default value does not show it.
        fills: the field of a `JobSpec`'s policy that gets its value as it is: "supervision.grace".
            A flag that is called `no_...` switches its field off. "" if planning makes more of it.
        torchrun: its name in torchrun, which reads PET_NAME; "" if torchrun has no such variable.
        like: what srun, mpirun and accelerate call it, and words near to its name.
        idle: why it has no effect, or what to use instead; "" if it has one.
        tools: the commands beside dsrun that take it, without `dsrun-`.
        by_hold: whether dsrun-hold takes it, and a job on held nodes does not.
        whole_job: whether it is for a whole job and not for one of its roles, as are those that
            dsrun-hold takes.
        only_role: whether only a role takes it.
        elastic: whether it has an effect only in an elastic job.
        not_in_python: why a Python program cannot give it; "" if it can.
        untrusted: the form of the values that a project's file may set before it is trusted, a
            regular expression, "" for none. Only counts, filters, time limits, numbers of restarts,
            formats of labels and log levels have one: what runs, reads, writes, sends, connects,
            hides or weakens something has none, nor has a flag.
        only_typed: whether no configuration file can set it.
        no_variable: whether no DSRUN_* variable can set it.
        file: what becomes of the file or the files that it names, `read` or `written`; "" if it
            names none.
        offers: what completion offers as its value, beside the choices and the suggested values: a
            kind of `commands/completion`, "" for nothing that is looked for.
    """

    default: Any
    kind: str
    text: str
    metavar: str
    also: Words = ()
    choices: Words = ()
    values: Words | Callable[[], Words] = ()
    none: str | None = None
    positive: bool = False
    most: int = MOST
    valid: str = ""
    separator: str = ""
    unset: str = ""
    fills: str = ""
    torchrun: str = ""
    like: Words = ()
    idle: str = ""
    tools: Words = ()
    by_hold: bool = False
    whole_job: bool = False
    only_role: bool = False
    elastic: bool = False
    not_in_python: str = ""
    untrusted: str = ""
    only_typed: bool = False
    no_variable: bool = False
    file: str = ""
    offers: str = ""

    @property
    def repeatable(self) -> bool:
        """Whether it may be given several times, and every value counts."""
        return self.kind == "list" or bool(self.separator)

    @property
    def suggestions(self) -> Words:
        """The values to suggest."""
        return self.values if isinstance(self.values, tuple) else self.values()


def option(default: Any, text: str, metavar: str = "", kind: str = "", **more: Any) -> Any:
    """Declare one option, as a field of `Options` or in the table of a command.

    The type of the default tells its kind, but for None, which is the default of a text.
    """
    kind = kind or KINDS.get(type(default), "str")
    return Option(
        default, kind, text, metavar or METAVARS.get(kind, ""), *{**_OPTIONAL, **more}.values()
    )


_OPTIONAL = Option._field_defaults


def named(table: Mapping[str, Option]) -> dict[str, tuple[str, Option]]:
    """Return {name as typed, with underscores: (name in the table, option)}."""
    return {typed: (name, one) for name, one in table.items() for typed in (name, *one.also)}
