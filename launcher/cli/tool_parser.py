"""Parse the command line of a command beside dsrun: its own options, and some of dsrun's."""

from __future__ import annotations

from ..common.values import NamedTuple
from .option import named
from .options import Options, shared
from .parser import from_environment, key_of, repeated, take
from .tool_options import OWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from .option import Option


class ToolCommand(NamedTuple):
    """One parsed command line.

    Attributes:
        own: the value of every option of its own, given or default.
        options: the options that it shares with dsrun.
        given: names of the options that the user set, on the command line or by a variable.
        rest: the words that are not options.
        help: whether the help is requested.
        notes: messages to the user about options that have no effect; none with --quiet.
        shared: the words of the options that it shares with dsrun, as they were typed.
    """

    own: Mapping[str, Any]
    options: Options
    given: frozenset[str] = frozenset()
    rest: tuple[str, ...] = ()
    help: bool = False
    notes: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()


def parse(
    command: str,
    words: Sequence[str],
    environ: Mapping[str, str],
    mixing: Collection[str] = (),
) -> ToolCommand:
    """Parse the options of a command line, up to `--` or the first word that is none.

    Args:
        command: the name of the command.
        words: the arguments.
        environ: the environment; DSRUN_* variables may set the options that it shares with dsrun.
        mixing: options after which words and options may come in any order.

    Raises:
        UsageError: an option is unknown, or has an invalid value.
    """
    own, ours = OWN[command], named(shared(command.removeprefix("dsrun-")))
    names = ours | named(own)
    values: dict[str, Any] = dict(from_environment("DSRUN_", environ, ours))
    at, rest, see = 0, [], f"{command} --help"
    typed, as_typed = dict[str, list[str]](), list[str]()
    while at < len(words):
        word = words[at]
        if word in {"-h", "--help"}:
            return ToolCommand({}, Options(), help=True)
        if word == "--":
            at += 1
            break
        if word.startswith("-") and word != "-":
            used = take(word, words[at + 1 : at + 2], names, values, typed, see)
            if key_of(word.partition("=")[0]) not in own:
                as_typed += words[at : at + used]
            at += used
        elif mixing and not values.keys().isdisjoint(mixing):
            rest.append(word)
            at += 1
        else:
            break
    return _command(own, values, (*rest, *words[at:]), repeated(typed, names), as_typed)


def _command(
    own: Mapping[str, Option],
    values: Mapping[str, Any],
    rest: tuple[str, ...],
    notes: Sequence[str],
    as_typed: Sequence[str],
) -> ToolCommand:
    return ToolCommand(
        own={name: values.get(name, option.default) for name, option in own.items()},
        options=Options(**{name: value for name, value in values.items() if name not in own}),
        given=frozenset(values),
        rest=rest,
        notes=() if values.get("quiet") else tuple(notes),
        shared=tuple(as_typed),
    )
