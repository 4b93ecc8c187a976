"""Configuration files: options that a site, a person or a project sets once, in TOML.

A file has tables `[default]` and `[profile.NAME]`. Every table of a file is checked, even the
tables of other profiles than the chosen one.
"""

from __future__ import annotations

import os
import re

from ..common.errors import UsageError
from ..common.records import NamedTuple
from ..common.text import one_line
from . import toml_file
from .config_source import Unsafe, own, source
from .options import all_options, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .config_source import ConfigSource
    from .option import Option
    from .options import Options
    from .toml_file import Values

TABLES = ("default", "profile")

OF_PROGRAM = {
    **dict.fromkeys(
        ("script", "args", "command", "arguments"),
        "the script and its arguments belong on the command line",
    ),
    **dict.fromkeys(("name", "nodes", "workers", "env"), "a key of a role, in a --roles file"),
}
"""Keys that no option has, and the correct place of each setting."""

RIVALS = (
    ("on", "host", "hostfile", "host_discovery_script", "standalone"),
    ("host", "host_discovery_script", "standalone", "on", "watch_hostfile"),
    ("num_nodes", "nnodes"),
    ("num_gpus", "nproc_per_node"),
    ("include", "exclude"),
    ("module", "no_python"),
    ("local_rank", "no_local_rank"),
    ("strict", "no_check"),
    ("fold", "no_fold"),
    ("quiet", "log_level"),
    ("bind_cores_to_rank", "bind_to", "numa_binding"),
)
"""Options that contradict each other: an option displaces its rivals of lower precedence."""


class Config(NamedTuple):
    """The combined settings of the files.

    Attributes:
        values: the values of options, by name.
        origins: the file and line of each value, by name; several if values add up.
        skipped: a message about each file that was not read.
        profiles: each file in which no profile is chosen, and the names of its profiles.
    """

    values: dict[str, object]
    origins: dict[str, str]
    skipped: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()


class File(NamedTuple):
    """A file that has been checked: its settings by profile, `[default]` by ""."""

    path: str
    tables: dict[str, list[toml_file.Setting]]


def config(
    paths: Iterable[str],
    projects: Iterable[str],
    options: Options,
    given: frozenset[str],
    environ: Mapping[str, str],
) -> Config:
    """Return the settings of the files.

    Args:
        paths: the files of the machine and of the user, lowest precedence first.
        projects: the files of projects, the nearest first: the first safe one counts.
        options: the options of the command line and of variables about configuration files.
        given: options that the command line or a variable sets.
        environ: the environment.

    Raises:
        UsageError: a file is invalid, not safe or not trusted, or the profile does not exist.
    """
    read_files = [parsed(path, own(path).data) for path in paths]
    project, skipped = _nearest(projects)
    if project is not None:
        read_files.append(_trusted(project, environ, here=options.trust_here))
    if options.trust_here and skipped:
        raise UsageError(f"--trust_here: {skipped[0]}")
    profile = options.profile
    if profile:
        _check_profile(profile, read_files, skipped)
    values: Values = {}
    origins: dict[str, str] = {}
    for file in read_files:
        for name in ("", profile) if profile else ("",):
            _add(file.tables.get(name, []), values, origins)
    for name in _displaced(given, values) | _idle(given | values.keys()):
        values.pop(name, None)
    kept = {name: where for name, where in origins.items() if name in values}
    named = [(file.path, [name for name in file.tables if name]) for file in read_files]
    profiles = [f"{path}: {', '.join(map(one_line, names))}" for path, names in named if names]
    return Config(values, kept, tuple(skipped), () if profile else tuple(profiles))


def _idle(names: Iterable[str]) -> set[str]:
    """Return the options that do not apply to a job on held nodes, or only to one."""
    if "on" in names:
        return {name for name, row in all_options().items() if row.by_hold}
    return {"on_busy"}


def _displaced(given: Iterable[str], values: Mapping[str, object]) -> set[str]:
    """Return the values that give way to options of higher precedence."""
    names = set(given)
    return {name for rivals in RIVALS if names & {*rivals} for name in rivals} & (
        values.keys() - names
    )


def _add(settings: Iterable[toml_file.Setting], values: Values, origins: dict[str, str]) -> None:
    """Add the settings of a table, which has a higher precedence than the values so far."""
    settings = list(settings)
    for name in _displaced((one.name for one in settings), values):
        del values[name]
    for one in settings:
        adds = one.name in values and all_options()[one.name].kind == "list"
        origins[one.name] = f"{origins[one.name]}, {one.where}" if adds else one.where
        toml_file.record_setting(one, values)


def _check_profile(profile: str, read_files: Iterable[File], skipped: Iterable[str]) -> None:
    known = sorted({name for file in read_files for name in file.tables if name})
    if profile in known:
        return
    names = ", ".join(map(one_line, known))
    there = f"known: {names}" if known else "no configuration file defines one"
    raise UsageError(
        f"--profile {one_line(profile)}: no such profile{toml_file.meant(profile, known)};"
        f" {'; '.join([there, *skipped])}"
    )


# -- the file of a project ------------------------------------------------------------------------


def _nearest(projects: Iterable[str]) -> tuple[ConfigSource | None, list[str]]:
    """Return the first file that no other user could have written, and messages on skipped ones.

    Raises:
        UsageError: the file cannot be read.
    """
    skipped = list[str]()
    for path in projects:
        try:
            return source(path), skipped
        except Unsafe as error:
            why = f"not read, as other users could have written it: {error}"
            skipped.append(f"{one_line(path)}: {why}")
    return None, skipped


def _trusted(project: ConfigSource, environ: Mapping[str, str], *, here: bool) -> File:
    """Return the file of a project.

    Raises:
        UsageError: the file is invalid, or sets options that need trust without having it.
    """
    file = parsed(project.path, project.data)
    settings = guarded(file)
    if settings and not here:
        import shlex

        from .trust import distrust

        why = distrust(project, file, environ)
        if why:
            keys = ", ".join(f"{one.where}: {one_line(one.key)}" for _, one in settings)
            folder = one_line(shlex.quote(os.path.dirname(project.path)))
            raise UsageError(
                f"{keys}: {'needs' if len(settings) == 1 else 'need'} trust, and {why}; read it,"
                f" then run: dsrun --trust {folder}"
            )
    return file


def guarded(file: File) -> list[tuple[str, toml_file.Setting]]:
    """Return the settings of a project's file that need trust, each with its profile."""
    return [
        (profile, one)
        for profile, settings in file.tables.items()
        for one in settings
        if not _is_harmless(one)
    ]


def _is_harmless(one: toml_file.Setting) -> bool:
    form = all_options()[one.name].untrusted
    values = one.value if isinstance(one.value, list) else [one.value]
    return bool(form) and all(
        text.isprintable() and re.fullmatch(form, text) for text in map(str, values)
    )


# -- one file -------------------------------------------------------------------------------------


def parsed(path: str, data: bytes) -> File:
    """Return the settings in the contents of a file.

    Raises:
        UsageError: the settings are invalid.
    """
    path = one_line(path)
    document, lines = toml_file.read(path, data)
    for name, value in document.items():
        _check_table(path, lines, name, value)
    profiles = document.get("profile", {})
    tables = {"": _settings(path, lines, ("default",), document.get("default", {}))}
    for name, keys in profiles.items():
        if not name:
            raise UsageError(
                f"{path}:{toml_file.line(lines, ('profile',))}: a profile without a name"
            )
        tables[name] = _settings(path, lines, ("profile", name), keys)
    return File(path, tables)


def _check_table(path: str, lines: toml_file.Lines, name: str, value: object) -> None:
    where = f"{path}:{toml_file.line(lines, (name,))}"
    if name not in TABLES:
        meant = toml_file.meant(name, TABLES)
        if name == "script":
            meant = "; the script belongs on the command line"
        elif not isinstance(value, dict):
            known = () if name.replace("-", "_") in table() else [*table()]
            meant = f"{toml_file.meant(name, known)}; options go below one of these"
        raise UsageError(f"{where}: {one_line(name)}: not [default] or [profile.NAME]{meant}")
    if not isinstance(value, dict):
        raise UsageError(f"{where}: {name}: expected a table, [default] or [profile.NAME]")


def _settings(
    path: str, lines: toml_file.Lines, header: tuple[str, ...], keys: object
) -> list[toml_file.Setting]:
    if not isinstance(keys, dict):
        where = f"{path}:{toml_file.line(lines, header)}"
        *_, name = names = [*map(one_line, header)]
        raise UsageError(f"{where}: {name}: expected a table [{'.'.join(names)}] of options")
    stray = next((key for key in keys if key in OF_PROGRAM), None)
    if stray is not None:
        where = f"{path}:{toml_file.line(lines, (*header, stray))}"
        raise UsageError(f"{where}: {stray}: {OF_PROGRAM[stray]}")
    found = [
        toml_file.setting(f"{path}:{toml_file.line(lines, (*header, key))}", key, value, _unfit)
        for key, value in keys.items()
    ]
    values: Values = {}
    for one in found:
        toml_file.record_setting(one, values)
    return found


def _unfit(row: Option) -> str:
    """Return why a configuration file cannot set an option, "" if it can."""
    if row.only_role:
        return "only for a role, in a --roles file"
    return "only on the command line, not in a file" if row.only_typed else ""
