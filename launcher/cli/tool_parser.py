"""Parse the command line of a command other than dsrun: its own options, and some of dsrun's."""

from __future__ import annotations

from ..common import entry
from ..common.errors import UsageError
from ..common.records import NamedTuple
from .option import named
from .options import Options, shared
from .parser import config_of, from_environment, key_of, repeated, take
from .tool_options import OWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from .option import Option


class ToolCommand(NamedTuple):
    """One parsed command line.

    Attributes:
        own: the value, given or default, of each option that only this command has.
        options: the options shared with dsrun.
        given: names of the options that the user set, on the command line or by a variable.
        rest: the words that are not options.
        help: whether the help is requested.
        notes: messages to the user about options that have no effect, and about configuration files
            that were not read because others may write to them; none with --quiet.
        config: the output of --show_config; "" without it.
        shared: the words of the options shared with dsrun, as typed.
    """

    own: Mapping[str, Any]
    options: Options
    given: frozenset[str] = frozenset()
    rest: tuple[str, ...] = ()
    help: bool = False
    notes: tuple[str, ...] = ()
    config: str = ""
    shared: tuple[str, ...] = ()


def configured(
    command: str,
    words: Sequence[str],
    environ: Mapping[str, str],
    mixing: Collection[str] = (),
) -> ToolCommand:
    """Parse as `parse`; configuration files may also set the options shared with dsrun.

    Raises:
        UsageError: an error of `parse`, or a configuration file is invalid.
    """
    parsed = parse(command, words, environ, mixing)
    if parsed.help:
        return parsed
    config = config_of(parsed.options, parsed.given, environ)
    origins = config.origins if config else {}
    if config is not None:
        ours = shared(command.removeprefix("dsrun-"))
        base = {name: value for name, value in config.values.items() if name in ours}
        parsed = parse(command, words, environ, mixing, base)
        if not parsed.options.quiet:
            parsed = parsed._replace(notes=(*config.skipped, *parsed.notes))
    if not parsed.options.show_config:
        return parsed
    from .show_config import text

    typed, values = parse(command, words, {}, mixing).given, vars(parsed.options)
    given = parsed.given - parsed.own.keys()
    profiles = config.profiles if config else ()
    return parsed._replace(config=text(values, given, typed, environ, origins, profiles))


def is_answered(name: str, command: ToolCommand) -> bool:
    """Print the help or the settings if that is all that was requested; return whether it is."""
    if command.help:
        from .help.pages import of_tool

        entry.write(of_tool(name))
    elif command.config:
        entry.note(command.notes)
        entry.write(command.config)
    return command.help or bool(command.config)


def parse(
    command: str,
    words: Sequence[str],
    environ: Mapping[str, str],
    mixing: Collection[str] = (),
    base: Mapping[str, object] | None = None,
) -> ToolCommand:
    """Parse the options of a command line, up to `--` or the first other word.

    Args:
        command: the name of the command.
        words: the arguments.
        environ: the environment; DSRUN_* variables may set the options that it shares with dsrun.
        mixing: options after which words and options may come in any order.
        base: the values that configuration files set.

    Raises:
        UsageError: an option is unknown, or has an invalid value.
    """
    own, ours = OWN[command], named(shared(command.removeprefix("dsrun-")))
    names = ours | named(own)
    values: dict[str, Any] = dict(from_environment("DSRUN_", environ, ours, base))
    at, rest, see = 0, [], f"{command} --help"
    typed, as_typed = dict[str, list[str]](), list[str]()
    while at < len(words):
        word = words[at]
        if word in {"-h", "--help"}:
            if line := values.get("shell"):
                raise UsageError(
                    f"--shell takes the whole line as one argument; unexpected argument {word!r}:"
                    f" write --shell '{line} {word}'"
                )
            return ToolCommand({}, Options(), help=True)
        if word.startswith("-") and word not in {"-", "--"}:
            used = take(word, words[at + 1 : at + 2], names, values, typed, see)
            if key_of(word.partition("=")[0]) not in own:
                as_typed += words[at : at + used]
            at += used
        elif word != "--" and mixing and not values.keys().isdisjoint(mixing):
            rest.append(word)
            at += 1
        else:
            at += word == "--"
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
