"""Read a file of roles: TOML, with a table `[[role]]` for each."""

from __future__ import annotations

from ...cli import toml_file
from ...cli.options import of_roles
from ...cli.toml_file import Setting
from ...common import files
from ...common.errors import UsageError, reason
from ...common.text import one_line
from ...common.wording import either
from .plan_table import RoleTable, unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

ALSO = {"nodes": "num_nodes", "hosts": "host", "workers": "num_gpus"}
"""Keys of a file that differ from the names of their options."""

PROGRAMS = {
    "script": {"module": False},
    "module": {"module": True, "no_python": False},
    "command": {"module": False, "no_python": True},
}
"""Keys that name the program, and the options that follow from each."""

MEANT = {
    **dict.fromkeys(("cmd", "entrypoint", "exec"), "command"),
    **dict.fromkeys(("arguments", "argv", "script_args"), "args"),
    **dict.fromkeys(("environment", "envs", "variables"), "env"),
    **dict.fromkeys(("replicas", "count", "num_hosts", "node_count"), "nodes"),
    **dict.fromkeys(("num_workers", "procs", "num_procs", "processes", "nproc"), "workers"),
    **dict.fromkeys(("gpus", "gpu", "num_devices", "gpus_per_worker"), "devices"),
    **dict.fromkeys(("depends_on", "depends", "needs", "requires", "wait_for"), "after"),
    **dict.fromkeys(("health", "healthcheck", "readiness", "ready_when"), "ready"),
    **dict.fromkeys(("restart", "restart_policy", "on_exit"), "on_failure"),
    **dict.fromkeys(("cwd", "dir", "working_dir", "directory"), "workdir"),
    **dict.fromkeys(("end", "on_end", "kind"), "ends"),
    **dict.fromkeys(("with", "colocate", "same_as"), "beside"),
    "port": "ports",
}
"""Keys of other programs' files, and ours for them."""

OWN = ("name", *PROGRAMS, "args", "env")
"""The other keys of a role, which are not options."""


def read(path: str) -> list[RoleTable]:
    """Return the roles of a file.

    Raises:
        UsageError: the file cannot be read, or is invalid; the message names the line.
    """
    try:
        data = files.read(path, toml_file.LIMIT)
    except OSError as error:
        raise UsageError(f"--roles {path}: {reason(error)}") from None
    return parsed(path, data)


def parsed(path: str, data: bytes) -> list[RoleTable]:
    """Return the roles in the contents of a file.

    Raises:
        UsageError: the roles are invalid.
    """
    document, lines = toml_file.read(path, data)
    for key in document:
        if key != "role":
            where = f"{path}:{toml_file.line(lines, (key,))}"
            raise UsageError(f"{where}: {one_line(key)}: {_stray(key)}")
    tables = document.get("role", [])
    if isinstance(tables, dict):
        place = toml_file.line(lines, ("role",))
        raise UsageError(f"{path}:{place}: role: write [[role]], once for each role")
    if not tables or not isinstance(tables, list):
        raise UsageError(f"{path}: no roles; write a table [[role]] for each")
    return [_role(_Reader(path, lines, at), keys) for at, keys in enumerate(tables)]


def _stray(key: str) -> str:
    if key in _NAMES or key in of_roles() - {"roles"}:
        return "write it below [[role]], the table of a role"
    hint = toml_file.meant(key, ("role",))
    return f"expected only tables [[role]]{hint}; options of the whole job go on the command line"


class _Reader:
    """Reads the keys of one table, and knows their lines."""

    def __init__(self, path: str, lines: toml_file.Lines, at: int) -> None:
        self._path = path
        self._lines = lines
        self._header = ("role", str(at))

    def where(self, *keys: str) -> str:
        """Return file and line of a key of the table, or of the table itself."""
        return f"{self._path}:{toml_file.line(self._lines, (*self._header, *keys))}"

    def error(self, key: str, expected: str, value: object) -> UsageError:
        found = toml_file.shown(value)
        return UsageError(f"{self.where(key)}: {key}: expected {expected}, not {found}")

    def text(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise self.error(key, "a string", value)
        return value

    def words(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise self.error(key, 'a list of words, ["...", "..."]', value)
        return tuple(self.word(key, one) for one in value)

    def word(self, key: str, value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise self.error(key, "strings and numbers", value)
        if "\0" in str(value):
            raise UsageError(f"{self.where(key)}: {key}: a string with a zero byte")
        return str(value)

    def variables(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, dict):
            raise self.error(key, 'a table of variables, { NAME = "..." }', value)
        return tuple(f"{name}={self.word(key, one)}" for name, one in value.items())

    def setting(self, key: str, value: object) -> Setting:
        if key == "program":
            raise UsageError(f"{self.where(key)}: program: write {either([*PROGRAMS])} instead")
        if key in MEANT:
            raise UsageError(f"{self.where(key)}: {key}: unknown key (did you mean {MEANT[key]}?)")
        return toml_file.setting(self.where(key), key, value, unfit, _NAMES)


_NAMES = {**ALSO, **dict.fromkeys(OWN, "program")}
"""All further keys; those that are not options are listed for error messages."""


def _role(reader: _Reader, keys: Any) -> RoleTable:
    if not isinstance(keys, dict):
        raise UsageError(f"{reader.where()}: role: expected a table [[role]]")
    if "name" not in keys:
        raise UsageError(f'{reader.where()}: role: no name; write name = "..."')
    name = reader.text("name", keys["name"])
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for one in _settings(reader, keys):
        if one.name in origins and one.name != "export":
            raise UsageError(f"{one.where}: {one.key}: given twice, also at {origins[one.name]}")
        origins[one.name] = f"{one.where}: {one.key}"
        toml_file.record_setting(one, values)
    kind, program = _program(reader, keys)
    words = "args" if "args" in keys else kind
    origins["program"] = f"{reader.where(words)}: {words}"
    return RoleTable(
        name, f"{reader.where()}: role {name}", program, {**PROGRAMS[kind], **values}, origins
    )


def _settings(reader: _Reader, keys: dict[str, Any]) -> Iterator[Setting]:
    if "env" in keys:
        variables = reader.variables("env", keys["env"])
        yield Setting("export", reader.where("env"), "env", list(variables))
    for key, value in keys.items():
        if key not in OWN:
            yield reader.setting(key, value)


def _program(reader: _Reader, keys: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the key that names the program, and its words."""
    kinds = [kind for kind in PROGRAMS if kind in keys]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "no program"
        raise UsageError(
            f"{reader.where(*kinds[1:])}: {found}: expected one of {', '.join(PROGRAMS)}"
        )
    (kind,) = kinds
    read_words: Callable[[str, object], Any] = reader.words if kind == "command" else reader.text
    found = read_words(kind, keys[kind])
    words = found if isinstance(found, tuple) else (found,)
    if not any(words[:1]):
        raise UsageError(f"{reader.where(kind)}: {kind}: empty; expected a program")
    return kind, (*words, *reader.words("args", keys.get("args", [])))
