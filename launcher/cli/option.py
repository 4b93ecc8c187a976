"""One row of a table of options. Pure."""

from __future__ import annotations

from ..common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    Words: TypeAlias = tuple[str, ...]

MOST = 999_999_999
"""The largest number that any option accepts, seconds included."""

PORTS = 65535
"""The largest port."""

KINDS = {bool: "bool", int: "int", float: "seconds", tuple: "list"}
"""Kinds of options, by the type of the default."""

ANY = ".*"
"""A pattern for `Option.untrusted`: any text."""

LABEL = r"(?:[^{}]|\{\{|\}\}|\{\w*(?::0?[<>^]?[0-9]{0,3}[ds]?)?\})*"
"""A pattern for `Option.untrusted`: the format of a label, with fields up to 999 wide."""

METAVARS = {"seconds": "DURATION", "int": "N", "bool": ""}
"""Names of values in the help, by kind, unless the row has its own."""


class Option(NamedTuple):
    """The complete description of one option, except its name.

    Attributes:
        default: the value if the option is not given.
        kind: str, int, seconds (a duration), bool (a flag without a value) or list (repeatable).
        text: the effect, for the help; `{values}` stands for the suggested values.
        metavar: the name of the value in the help, "" for a flag.
        also: other names of the option, one-letter names with their dash.
        choices: the only valid values, () for any.
        values: values to suggest where others are valid, too; a function if they come from a table.
        none: a value that means "not given" to users of a peer (-1 for DeepSpeed).
        positive: whether a number must be above 0.
        most: the largest number.
        valid: the valid numbers in words, if the bounds do not say it all.
        separator: joins the values of an option given several times; "" if only the last one
            counts.
        unset: the behaviour without the option, if the default value does not show it.
        fills: the field of a `JobSpec`'s policy that gets the value unchanged: "supervision.grace".
            An option named `no_...` switches its field off. "" if planning does more with the
            value.
        torchrun: the option's name in torchrun, which reads PET_NAME; "" if torchrun has no such
            variable.
        like: names of the option in srun, mpirun and accelerate, and similar words.
        idle: why the option has no effect, or what to use instead; "" if it has one.
        tools: the commands besides dsrun that have the option, without `dsrun-`.
        by_hold: whether dsrun-hold has the option, and jobs on held nodes do not.
        whole_job: whether the option is for a whole job and not for one of its roles, as are those
            of dsrun-hold.
        only_role: whether only a role has the option.
        also_role: whether a role has it, too, although it is an option of dsrun-hold.
        elastic: whether the option has an effect only in an elastic job.
        not_in_python: why a Python program cannot set the option; "" if it can.
        untrusted: a regular expression for the values that a project's file may set before it is
            trusted, or "". Only counts, filters, time limits, numbers of restarts, formats of
            labels and log levels have one. Options that run, read, write, send, connect, hide or
            weaken something have none, nor do flags.
        only_typed: whether no configuration file can set the option.
        no_variable: whether no DSRUN_* variable can set the option.
        file: `read` or `written` if the value names files, by their use; else "".
        offers: the kind of values that completion offers, besides the choices and the suggested
            values (see `features/completion/command`), or "".
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
    also_role: bool = False
    elastic: bool = False
    not_in_python: str = ""
    untrusted: str = ""
    only_typed: bool = False
    no_variable: bool = False
    file: str = ""
    offers: str = ""

    @property
    def repeatable(self) -> bool:
        """True if the option may be given several times, and every value counts."""
        return self.kind == "list" or bool(self.separator)

    @property
    def suggestions(self) -> Words:
        """The values to suggest."""
        return self.values if isinstance(self.values, tuple) else self.values()


def option(default: Any, text: str, metavar: str = "", kind: str = "", **more: Any) -> Any:
    """Declare one option, as a field of `Options` or in the table of a command.

    The type of the default determines the kind; None is the default of text options.
    """
    kind = kind or KINDS.get(type(default), "str")
    return Option(
        default, kind, text, metavar or METAVARS.get(kind, ""), *{**_OPTIONAL, **more}.values()
    )


_OPTIONAL = Option._field_defaults


def named(table: Mapping[str, Option]) -> dict[str, tuple[str, Option]]:
    """Return {name as typed, with underscores: (name in the table, option)}."""
    return {typed: (name, one) for name, one in table.items() for typed in (name, *one.also)}
