"""Configuration files: options that a site, a person or a project sets once, in TOML.

A file has tables `[default]` and `[profile.NAME]`. Every table of a file is checked, also those of
profiles that are not chosen.
"""

from __future__ import annotations

import os
import stat

from ..common import files
from ..common.errors import UsageError, reason
from ..common.values import NamedTuple
from . import toml_file
from .options import all_options, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .option import Option
    from .toml_file import Values

TABLES = ("default", "profile")

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
    ("bind_cores_to_rank", "bind_to", "numa_binding"),
)
"""Options that contradict each other: one of them displaces the others of lower precedence."""


class Config(NamedTuple):
    """What the files set together.

    Attributes:
        values: the values of options, by name.
        origins: the file and line of each, by name; several if their values add up.
    """

    values: dict[str, object]
    origins: dict[str, str]


class File(NamedTuple):
    """A file that has been checked: its settings by profile, `[default]` by ""."""

    path: str
    tables: dict[str, list[toml_file.Setting]]


def config(
    paths: Mapping[str, bool], profile: str, given: frozenset[str], environ: Mapping[str, str]
) -> Config:
    """Return what files set.

    Args:
        paths: the files, lowest precedence first; whether each is the file of a project.
        profile: the name of the profile, "" for none.
        given: options that the command line or a variable sets.
        environ: the environment.

    Raises:
        UsageError: a file is not valid or not safe, or there is no such profile.
    """
    read_files = [_checked(path, is_project, environ) for path, is_project in paths.items()]
    if profile:
        _check_profile(profile, read_files)
    values: Values = {}
    origins: dict[str, str] = {}
    for file in read_files:
        for name in ("", profile) if profile else ("",):
            _add(file.tables.get(name, []), values, origins)
    for name in _displaced(given, values) | _idle(given | values.keys()):
        values.pop(name, None)
    return Config(values, {name: where for name, where in origins.items() if name in values})


def _idle(names: Iterable[str]) -> set[str]:
    """Return the options that do not apply to a job on held nodes, or only to one."""
    if "on" in names:
        return {name for name, row in all_options().items() if row.by_hold}
    return {"on_busy"}


def _displaced(given: Iterable[str], values: Mapping[str, object]) -> set[str]:
    """Return which values give way to options of higher precedence."""
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


def _check_profile(profile: str, read_files: Iterable[File]) -> None:
    known = sorted({name for file in read_files for name in file.tables if name})
    if profile in known:
        return
    there = f"known: {', '.join(known)}" if known else "no configuration file has one"
    raise UsageError(
        f"--profile {profile}: no such profile{toml_file.meant(profile, known)}; {there}"
    )


# -- one file -------------------------------------------------------------------------------------


def _checked(path: str, is_project: bool, environ: Mapping[str, str]) -> File:
    """Return a file; that of a project may run programs only if it is trusted.

    Raises:
        UsageError: it is not valid, not safe, or not trusted.
    """
    data = contents(path)
    file = parsed(path, data)
    settings = [one for group in file.tables.values() for one in group]
    running = [one for one in settings if all_options()[one.name].runs_here]
    if is_project and running:
        import shlex

        from .trust import is_trusted

        if not is_trusted(path, data, environ):
            folder = shlex.quote(os.path.dirname(path))
            raise UsageError(
                f"{running[0].where}: {running[0].key}: runs a program on this machine, and this"
                f" file is not trusted; read it, then type: dsrun --trust {folder}"
            )
    return file


def contents(path: str) -> bytes:
    """Return the contents of a file that nobody else can change.

    Raises:
        UsageError: it cannot be read, or others can change it.
    """
    folders = {os.path.dirname(path), os.path.dirname(os.path.realpath(path))}
    try:
        for folder in sorted(folders):
            _check_safe(folder, os.stat(folder))
        return files.read(
            path, toml_file.LIMIT, pipes=False, check=lambda status: _check_safe(path, status)
        )
    except OSError as error:
        raise UsageError(f"{path}: {reason(error)}; --no_config reads no such file") from None


def _check_safe(path: str, status: os.stat_result) -> None:
    if status.st_uid not in {0, os.geteuid()}:
        raise UsageError(
            f"{path}: belongs to another user, who could have dsrun do anything; --no_config reads"
            " no configuration files"
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(
            f"{path}: other users can change it; run chmod go-w {path}, or --no_config reads no"
            " configuration files"
        )


def parsed(path: str, data: bytes) -> File:
    """Return the settings in the contents of a file.

    Raises:
        UsageError: they are not valid.
    """
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
        if name.replace("-", "_") in table():
            meant = "; write it below [default], or below [profile.NAME]"
        raise UsageError(f"{where}: {name}: not [default] or [profile.NAME]{meant}")
    if not isinstance(value, dict):
        raise UsageError(f"{where}: {name}: expected a table, [default] or [profile.NAME]")


def _settings(
    path: str, lines: toml_file.Lines, header: tuple[str, ...], keys: object
) -> list[toml_file.Setting]:
    if not isinstance(keys, dict):
        where = f"{path}:{toml_file.line(lines, header)}"
        raise UsageError(f"{where}: {header[-1]}: expected a table [{'.'.join(header)}] of options")
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
        return "only for a role, in a file of --roles"
    return "only on the command line, not in a file" if row.only_typed else ""
