"""Parse the command line and the DSRUN_* and PET_* variables into `Options` and the program."""

from __future__ import annotations

import os
from contextlib import suppress

from ..common import files
from ..common.errors import UsageError, conflict
from ..common.records import NamedTuple
from ..common.stderr import reach
from ..common.wording import either
from .option import Option
from .options import Options, all_options, table
from .peers import HOSTS, REFUSED, TEMPLATE, TORCHRUN_NAMES, prefix_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ..specs.rendezvous import Rendezvous
    from .config_files import Config

YES = {"1", "true", "yes", "on"}
NO = {"", "0", "false", "no", "off"}

SITE = "/etc/dsrun/config.toml"
"""The configuration file for all users of a machine."""

PROJECT = "dsrun.toml"
"""The name of the configuration file of a project."""

PATHS = frozenset({"FILE", "DIR", "PATH"})
"""Metavars of values that are paths, in which a leading `~/` means the home folder."""

HELP = "dsrun --help (the script's options go after it)"
"""The place of the options' descriptions, for a command line with a script."""

SHOWN = 7
"""With this many options of a common prefix, none is suggested."""

STARTING = (HELP, "dsrun-hold --help")
"""Such places for the commands to which people give options of other launchers."""


class Command(NamedTuple):
    """One parsed command line.

    Attributes:
        options: the value of every option.
        program: the script and everything after it, without a `--` directly behind the script.
        given: names of the options that the user set, on the command line or by a variable.
        help: the page of the help to print, as `help/pages` names it, or "".
        version: whether to print the version.
        notes: messages to the user about options and variables that have no effect.
        joined: the reason why the command runs on every node, and this node's rank; "" if not.
        rendezvous: set if torch's rendezvous is used; the command is then for this machine only.
        words: the number of words of the command line that are options and their values.
        taken: the last option whose value is a separate word, and this word.
        origins: the places in configuration files that set options, by name.
        skipped: a message about each configuration file that was not read because others may write
            to it.
        profiles: each configuration file in which no profile is chosen, with its profiles' names.
    """

    options: Options
    program: tuple[str, ...]
    given: frozenset[str]
    help: str = ""
    version: bool = False
    notes: tuple[str, ...] = ()
    joined: str = ""
    rendezvous: Rendezvous | None = None
    words: int = 0
    taken: tuple[str, str] = ("", "")
    origins: Mapping[str, str] = {}
    skipped: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()

    @property
    def like_torchrun(self) -> bool:
        """True if options of torchrun are used, and its behaviour is expected."""
        return bool(self.given & TORCHRUN_NAMES)

    def with_torchruns_logs(self) -> Command:
        """Return the command with torchrun's log layout if torchrun would accept the command."""
        if self.options.log_layout or not self.like_torchrun or self.given & HOSTS:
            return self
        return self._replace(options=self.options.changed(log_layout="torchrun"))


def configured(argv: Sequence[str], environ: Mapping[str, str]) -> Command:
    """Parse a command line; configuration files may set options that it and variables leave open.

    Raises:
        UsageError: an error of `parse`, or a configuration file is invalid.
    """
    command = parse(argv, environ)
    options, program = command.options, command.program
    script = "" if options.module or options.no_python or not program else program[0]
    if command.help or command.version or options.trust is not None:
        return command
    reach(_named(options, script))
    config = config_of(options, command.given, environ, script)
    if config is None:
        return command
    command = parse(argv, environ, base=config.values)
    return command._replace(
        origins=config.origins, skipped=config.skipped, profiles=config.profiles
    )


def _named(options: Options, script: str) -> list[str]:
    """Return the paths that a command line names, and the folders to which they are relative."""
    folder = options.workdir or "."
    files = (options.venv_script, options.python, options.log_dir, options.hostfile)
    written = (options.report_file, options.metrics_file)
    named = [one for one in (script, *files, *written, options.sync) if one and os.sep in one]
    return [".", folder, *(os.path.join(folder, one) for one in named)]


def config_of(
    options: Options, given: frozenset[str], environ: Mapping[str, str], script: str = ""
) -> Config | None:
    """Return the settings of configuration files; without any file return None, and import nothing.

    Args:
        options: the options set by the command line and by variables.
        given: the names of these options.
        environ: the environment.
        script: the path of the script, "" for a command without one.

    Raises:
        UsageError: a file is invalid or not trusted, or the profile does not exist.
    """
    if options.no_config and (options.profile or options.trust_here):
        named = f"--profile {options.profile}" if options.profile else "--trust_here"
        raise conflict("--no_config", named)
    if options.no_config or "DSRUN_JOB_ID" in environ:
        return None
    folders = (os.path.dirname(script), "") if script else ("",)
    found = own_files(environ)
    project = next(project_files(folders), "")
    if not found and not project and not options.profile:
        return None
    from .config_files import config

    projects = project_files(folders) if project else iter(())
    return config(found, projects, options, given, environ)


def own_files(environ: Mapping[str, str]) -> list[str]:
    """Return the existing configuration files of the machine and of this user."""
    home = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(home):
        home = files.home() and os.path.join(files.home(), ".config")
    person = home and os.path.join(home, "dsrun", "config.toml")
    return [path for path in (SITE, person) if os.path.exists(path)]


def project_files(folders: Iterable[str]) -> Iterator[str]:
    """Yield each dsrun.toml in one of the folders or above it, the nearest first.

    The search ends at the home folder.
    """
    home, seen = os.path.realpath(files.home() or "/"), set[str]()
    for start in folders:
        try:
            folder = os.path.realpath(start)
        except FileNotFoundError:  # the current folder no longer exists
            continue
        while folder not in seen:
            path = os.path.join(folder, PROJECT)
            if os.path.exists(path):
                yield path
            seen.add(folder)
            folder = folder if folder == home else os.path.dirname(folder)


def parse(
    argv: Sequence[str],
    environ: Mapping[str, str],
    see: str = HELP,
    base: Mapping[str, object] | None = None,
) -> Command:
    """Parse a command line; DSRUN_* or PET_* variables may set options that it lacks.

    The first word that is not an option is the script, and everything after it is passed to the
    script. `--` also ends the options; if none does, a `--` directly behind the script is dropped.
    `see` tells where options are described; `base` has the values from configuration files.

    Raises:
        UsageError: an option is unknown or not supported, or has an invalid value.
    """
    names = table()
    torchruns = {row.torchrun: (name, row) for name, row in all_options().items() if row.torchrun}
    filled = {name: text for name, text in environ.items() if text}
    values = from_environment("PET_", filled, torchruns, base)
    values = from_environment("DSRUN_", environ, names, values)
    at, typed, short, taken = 0, dict[str, list[str]](), list[str](), ("", "")
    while at < len(argv):
        word = in_full(argv[at], names, short) if see == HELP else argv[at]
        if word in {"-", "--"} or not word.startswith("-"):
            break
        if word == "-h" or word.partition("=")[0] == "--help":
            return Command(Options(), (), frozenset(), help=_page(word, argv[at + 1 : at + 2]))
        if word in {"-V", "--version"}:
            return Command(Options(), (), frozenset(), version=True)
        try:
            used = take(word, argv[at + 1 : at + 2], names, values, typed, see)
        except UsageError as error:
            raise _of_script(error, *taken) from None
        taken = (word, argv[at + 1]) if used > 1 else taken
        at += used
    defaults = _torchs_grace(filled, names, values)
    template = {"prefix": prefix_of(environ[TEMPLATE])} if environ.get(TEMPLATE) else {}
    options, program = _options({**template, **defaults, **values}), _program(tuple(argv[at:]))
    notes = (*short, *_notes(values, environ, names), *repeated(typed, names))
    return Command(options, program, frozenset(values), notes=notes, words=at, taken=taken)


def _of_script(error: UsageError, option: str, value: str) -> UsageError:
    """Return the error of an option, with a note if the option before it has taken the script."""
    if not value.endswith(".py"):
        return error
    return UsageError(f"{error}; {value} was taken as the value of {option}")


def in_full(word: str, names: Container[str], notes: list[str]) -> str:
    """Return a word with its option in full, if it is the beginning of a peer's option.

    Args:
        word: any word of the command line.
        names: the existing options.
        notes: gets a note on the completed option.
    """
    shown, equals, text = word.partition("=")
    key = key_of(shown)
    if shown[:2] != "--" or shown == "--help" or key in names or key in REFUSED:
        return word
    from .abbreviations import whole

    meant = whole(shown)
    if not meant:
        return word
    notes.append(f"{shown} is read as --{meant}")
    return f"--{meant}{equals}{text}"


def _torchs_grace(
    environ: Mapping[str, str], names: Mapping[str, tuple[str, Option]], given: Mapping[str, object]
) -> dict[str, object]:
    """Return the default of --grace if torchrun's variable for it is set.

    Source: torch 2.13, `torch/distributed/launcher/api.py`.
    """
    variable, values = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", dict[str, object]()
    if variable in environ and "grace" not in given:
        record("grace", names["grace"][1], environ[variable], variable, values)
    return values


def _program(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words after the options, without a `--` directly before or behind the script.

    argparse drops this `--` for the scripts of torchrun and deepspeed.
    """
    at = next((at for at in (0, 1) if words[at : at + 1] == ("--",)), len(words))
    return words[:at] + words[at + 1 :]


def _page(word: str, following: Sequence[str]) -> str:
    """Return the page that `-h`, `--help`, `--help TOPIC` or `--help=TOPIC` requests.

    Raises:
        UsageError: there is no such topic.
    """
    from .help.pages import ALL, SHORT
    from .help.topics import TOPICS

    topic = word.partition("=")[2]
    if not topic and following and not following[0].startswith("-"):
        topic = following[0]
    if topic and topic not in TOPICS:
        raise UsageError(f"--help {topic}: unknown topic; expected one of {', '.join(TOPICS)}")
    return topic or (SHORT if word == "-h" else ALL)


def _notes(
    values: Mapping[str, object],
    environ: Mapping[str, str],
    names: Mapping[str, tuple[str, Option]],
) -> tuple[str, ...]:
    """Return a message for each option and each DSRUN_* variable that has no effect."""
    rows = all_options()
    idle = [f"--{name} has no effect: {rows[name].idle}" for name in values if rows[name].idle]
    ours = [name for name in environ if name.startswith("DSRUN_")]
    keys = {name: name.removeprefix("DSRUN_").lower() for name in ours}
    unknown = [name for name, key in keys.items() if key not in names]
    unknown = [name for name in unknown if name not in other_variables() and not _is_told(name)]
    return (*idle, *(f"{one} has no effect: unknown variable{_meant(one)}" for one in unknown))


def _is_told(variable: str) -> bool:
    """Return whether dsrun sets this variable for the workers of a role."""
    from ..specs.role_words import is_variable

    return is_variable(variable)


def other_variables() -> frozenset[str]:
    """Return the DSRUN_* variables that are not options: the secret, and those for workers."""
    from ...accelerator.data import QUEUE_FD

    given = ("DSRUN_JOB_ID", "DSRUN_NODE_LAUNCHER", "DSRUN_WORLD_INFO", "DSRUN_LOG_OUT", QUEUE_FD)
    return frozenset({"DSRUN_TOKEN", "DSRUN_LOG_ERR", *given})


def _meant(variable: str) -> str:
    """Return a hint that names the most similar DSRUN_* variable."""
    ours = [name.removeprefix("DSRUN_").lower() for name in other_variables()]
    close = nearest(variable.removeprefix("DSRUN_").lower(), [*table(), *ours])
    return f" (did you mean DSRUN_{close.upper()}?)" if close else "; see dsrun --help"


def take(
    word: str,
    following: Sequence[str],
    names: Mapping[str, tuple[str, Option]],
    values: dict[str, object],
    typed: dict[str, list[str]],
    see: str = HELP,
) -> int:
    """Record the value of the option `word`; return how many words were used.

    Args:
        word: the option, perhaps with its value.
        following: the word after the option, if any.
        names: the existing options.
        values: the value of every option set so far; changed here.
        typed: the values of every option typed so far; the new value is added.
        see: the command that shows the options.
    """
    shown, attached, text = _split(word, names)
    if key_of(shown) not in names:
        behind = [one for one in following if one[:1] != "-" and not one.endswith(".py")]
        raise _unknown(shown, word if attached else " ".join([shown, *behind]), names, see)
    name, spec = names[key_of(shown)]
    if spec.kind == "bool":
        if attached and word[1] != "-" and text[-1:].isalpha() and len(text) > 1:
            raise _unknown(word, word, names, see)  # such as -mca
        if attached:
            raise UsageError(f"{shown}: takes no value, not {text!r}")
        values[name] = True
        return 1
    if not attached and not following:
        raise UsageError(f"{shown}: expected {spec.metavar} after it")
    value = text if attached else following[0]
    earlier = typed.setdefault(name, [])
    record(name, spec, value, shown, values, again=bool(earlier))
    earlier.append(value)
    return 1 if attached else 2


def repeated(
    typed: Mapping[str, Sequence[str]], names: Mapping[str, tuple[str, Option]]
) -> list[str]:
    """Return a message for each repeated option that only takes one value."""
    options = dict(names.values())
    return [
        f"--{name} is given {len(values)} times; only the last one counts"
        for name, values in typed.items()
        if len({*values}) > 1 and not options[name].repeatable
    ]


def _split(word: str, names: Mapping[str, tuple[str, Option]]) -> tuple[str, bool, str]:
    """Split `--name=value` and `-Xvalue` into (name, whether a value is attached, value)."""
    if word.startswith("--"):
        shown, attached, text = word.partition("=")
        return shown, bool(attached), text
    if word not in names and word[:2] in names:
        if (long := word[1:].partition("=")[0].replace("-", "_")) in names:
            raise UsageError(f"{word}: a long option has two dashes: --{long}")
        return word[:2], True, word[2:].removeprefix("=")
    return word, False, ""


def _unknown(
    shown: str, typed: str, names: Mapping[str, tuple[str, Option]], see: str
) -> UsageError:
    """Return the error for an option that the command does not have; `typed` includes its value."""
    key = key_of(shown)
    if key in REFUSED:
        return UsageError(f"{shown}: not supported; {REFUSED[key]}")
    # One-letter names are in the table with their dash, so `--H` is not `-H`.
    if shown in {"--version", "-V"}:
        return UsageError(f"{shown}: not an option of this command; write dsrun --version")
    if key in table():
        return UsageError(f"{shown}: an option of dsrun, not of this command; see {see}")
    from .other_launchers import words

    meant = words(shown, typed, names) if see in STARTING else ""
    close = [] if meant else _close(key, names)
    if close:
        meant = f"did you mean {either([f'--{name}' for name in close])}?"
    return UsageError(f"{shown}: unknown option{f' ({meant})' if meant else ''}; see {see}")


def _close(key: str, names: Iterable[str]) -> list[str]:
    near = nearest(key, [*names, "help", "version"])
    begun = [name for name in names if len(key) > 2 and name.startswith(key)]
    row = all_options().get(near)
    liked = row is not None and key in row.like
    return begun if 0 < len(begun) < SHOWN and not liked else [near] * bool(near)


def key_of(shown: str) -> str:
    """Return the name of an option as in the table."""
    return shown[2:].replace("-", "_") if shown.startswith("--") else shown


def nearest(key: str, names: Iterable[str]) -> str:
    """Return the name that a similar word probably means, or ""."""
    import difflib

    known = [name for name in names if name[0] != "-"]
    meant = [name for name, row in all_options().items() if key in row.like and name in known]
    if meant:
        return meant[0]
    close = difflib.get_close_matches(key.lstrip("-"), known, 3)
    return next((one for one in close if _is_near(key.lstrip("-"), one)), "")


def _is_near(key: str, name: str) -> bool:
    """Return whether a word may be a mistyped name, or has the parts of a name in another order."""
    from difflib import SequenceMatcher

    parts = {*key.split("_")}, {*name.split("_")}
    same = sum(block.size for block in SequenceMatcher(None, key, name).get_matching_blocks())
    slips = max(len(key), len(name)) - same
    return parts[0] == parts[1] or name.startswith(key) or slips <= max(1, len(name) // 4)


def record(
    name: str,
    spec: Option,
    text: str,
    shown: str,
    values: dict[str, object],
    *,
    again: bool = False,
) -> None:
    """Set the value of an option from its text, or add to it.

    Args:
        name: the option.
        spec: the option's row.
        text: the value.
        shown: the option's name in error messages.
        values: the values so far; changed here.
        again: whether the option has been given before in this place.

    Raises:
        UsageError: the value is invalid.
    """
    if text.startswith("~") and spec.metavar in PATHS:
        from ..common.account import at_home

        text = at_home(shown, text)
    if spec.none is not None and text == spec.none:
        values.pop(name, None)
    elif spec.kind == "list":
        earlier = values.get(name, ())
        values[name] = (*(earlier if isinstance(earlier, tuple) else ()), text)
    elif again and text and spec.separator and name in values:
        values[name] = f"{values[name]}{spec.separator}{text}"
    else:
        values[name] = _typed(spec, text, shown)


def _typed(spec: Option, text: str, shown: str) -> object:
    if spec.choices:
        return _chosen(spec, text, shown)
    if spec.kind == "str":
        return text
    with suppress(ValueError):
        value = int(text) if spec.kind == "int" else _seconds(text)
        if 0 <= value <= spec.most and (value or not spec.positive):
            return value
    # Other launchers and dsrun's own help use these words for all slots.
    out = "; leave it out for that" if text.lower() in {"all", "auto", "any", "max"} else ""
    raise UsageError(f"{shown}: expected {spec.valid or _valid(spec)}, not {text!r}{out}")


def _seconds(text: str) -> float:
    from .durations import seconds

    return seconds(text)


def _valid(spec: Option) -> str:
    """Return the valid numbers of an option, in words."""
    bounds = f"above 0, up to {spec.most}" if spec.positive else f"from 0 to {spec.most}"
    if spec.kind == "int":
        return f"a whole number {bounds}"
    from .durations import FORMS

    return f"a duration such as {FORMS}, {bounds} s"


def _chosen(spec: Option, text: str, shown: str) -> str:
    if text.lower() not in spec.choices:
        close = nearest(text.lower(), spec.choices) if text else ""
        meant = f" (did you mean {close}?)" if close else ""
        raise UsageError(f"{shown}: expected one of {', '.join(spec.choices)}, not {text!r}{meant}")
    return text.lower()


def from_environment(
    prefix: str,
    environ: Mapping[str, str],
    names: Mapping[str, tuple[str, Option]],
    base: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return `base` with the values of variables: `DSRUN_NUM_GPUS=2` is `--num_gpus 2`."""
    values: dict[str, object] = dict(base or {})
    for variable, text in environ.items():
        name, spec = names.get(variable.removeprefix(prefix).lower(), ("", None))
        if not variable.startswith(prefix) or spec is None or spec.no_variable:
            continue
        if not text and (spec.choices or spec.kind in {"int", "seconds"}):
            raise UsageError(f"{variable}: is empty; unset it, or give {_value_words(spec)}")
        if spec.kind == "bool":
            values[name] = _switch(variable, text)
        else:
            record(name, spec, text, variable, values)
    return {name: value for name, value in values.items() if value is not False}


def _value_words(spec: Option) -> str:
    return f"one of {', '.join(spec.choices)}" if spec.choices else spec.valid or _valid(spec)


def _switch(variable: str, text: str) -> bool:
    if text.lower() not in YES | NO:
        raise UsageError(f"{variable}: expected 1 or 0, not {text!r}")
    return text.lower() in YES


def name_variables(
    message: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    origins: Mapping[str, str] | None = None,
) -> str:
    """Return a message with options replaced by the variables that have set them.

    `origins` has the places in configuration files that set other options.
    """
    import re

    names = {key: found for key, found in table().items() if not found[1].no_variable}
    words = [word.partition("=")[0] if word.startswith("--") else word[:2] for word in argv]
    typed = {names[key][0] for key in map(key_of, words) if key in names}
    for variable in environ:
        prefix, _, key = variable.partition("_")
        field = names.get(key.lower(), ("",))[0] if prefix in {"DSRUN", "PET"} else ""
        if field and field not in typed:
            message = re.sub(rf"--{field}\b", variable, message)
    for field, where in (origins or {}).items():
        if field not in typed:
            place = f"{where}: {field}".replace("\\", "\\\\")
            message = re.sub(rf"--{field}\b", place, message)
    return message


def _options(values: Mapping[str, object]) -> Options:
    fields: dict[str, Any] = dict(values)
    return Options(**fields)
