"""Start, readiness and end of a role, from its description. Pure."""

from __future__ import annotations

import re

from ...cli.toml_file import meant
from ...common.records import NamedTuple
from ...common.wording import either
from ...specs.role_words import LISTS, NAME, PORT, placeholders, unknown_words
from ...specs.roles import ENDS, READY, Ready

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...common.errors import UsageError
    from ...specs.role_words import Placeholder
    from .plan_table import RoleTable

RESTARTS = 3
"""Restarts of a role with `on_failure = "restart"` and no `max_restarts`."""

ENDS_WORDS = (
    '"job" (the job ends with it), "wait" (the job waits for it) or "never" (it is a service)'
)

READY_WORDS = "started, port:NAME, http:PATH, http:NAME/PATH, line:REGEX or file:PATH"


class Terms(NamedTuple):
    """The fields of a `RoleSpec` apart from its job."""

    ends: str
    after: tuple[str, ...]
    ready: Ready
    ports: tuple[str, ...]
    on_failure: str
    max_restarts: int


def terms(tables: Sequence[RoleTable]) -> dict[str, Terms]:
    """Return the terms of roles, by their names.

    Raises:
        UsageError: a name, a port or a term is invalid, or the roles do not fit together.
    """
    _check_names(tables)
    known = {one.name: _terms(one) for one in tables}
    for table in tables:
        for name in known[table.name].after:
            _check_other(table, name, known)
    _check_cycles(tables, known)
    _check_end(tables, known)
    for table in tables:
        _check_placeholders(table, known)
    return known


def _terms(table: RoleTable) -> Terms:
    ends = table.get("ends")
    if ends is None:
        raise table.error("ends", f"ends is missing; expected {ENDS_WORDS}")
    ports = table.items("ports")
    for name in ports:
        _check_name(table, "ports", name)
    if len({*ports}) < len(ports):
        raise table.error("ports", "a name is listed twice")
    restarts = table.values.get("max_restarts")
    return Terms(
        ends=ends,
        after=tuple(dict.fromkeys(table.items("after"))),
        ready=_ready(table, ports),
        ports=ports,
        on_failure=table.get("on_failure"),
        max_restarts=RESTARTS if restarts is None else restarts,
    )


# -- ready ----------------------------------------------------------------------------------------


def _ready(table: RoleTable, ports: tuple[str, ...]) -> Ready:
    """Return when a role is ready.

    Raises:
        UsageError: the condition is invalid, or can never hold.
    """
    kind, colon, what = table.get("ready").partition(":")
    timeout = table.get("ready_timeout")
    if kind not in READY or bool(what) != (kind != "started") or (colon and not what):
        raise table.error("ready", f"expected {READY_WORDS}, not {table.get('ready')!r}")
    if kind == "port":
        return Ready(kind, _port(table, what, ports), timeout=timeout)
    if kind == "http":
        name, slash, path = what.partition("/")
        if not slash:
            raise table.error("ready", f"expected a path, such as http:/health, not {what!r}")
        return Ready(kind, _port(table, name, ports), f"/{path}", timeout)
    if kind == "line":
        _check_line(table, what)
    return Ready(kind, what=what, timeout=timeout)


def _port(table: RoleTable, name: str, ports: Sequence[str]) -> str:
    """Return the port that is tried: the named one, else the only one, or the one called http."""
    if not ports:
        ask = f'ports = ["{name or "http"}"]'
        raise table.error("ready", f"can never be true: the role reserves no port; add {ask}")
    if name and name not in ports:
        hint = meant(name, ports)
        raise table.error(
            "ready", f"can never be true: no port {name}{hint}; expected {_of(ports)}"
        )
    if name:
        return name
    if len(ports) > 1 and "http" not in ports:
        raise table.error("ready", f"which port? write http:NAME/PATH with {_of(ports)}")
    return "http" if "http" in ports else ports[0]


def _of(names: Iterable[str]) -> str:
    return either([*names])


def _check_line(table: RoleTable, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise table.error("ready", f"{pattern!r}: not a regular expression: {error}") from None
    if table.get("redirects") == "3":
        raise table.error("ready", "can never be true: no output reaches dsrun with redirects 3")


# -- how roles fit together -----------------------------------------------------------------------


def _check_names(tables: Sequence[RoleTable]) -> None:
    seen: dict[str, RoleTable] = {}
    for table in tables:
        _check_name(table, "", table.name)
        if table.name == PORT or table.name.startswith(f"{PORT}_"):
            raise table.error("", f"a role cannot be called {table.name}; {{port.NAME}} is a port")
        if table.name in seen:
            raise table.error("", f"this name is already taken by {seen[table.name].where}")
        seen[table.name] = table


def _check_name(table: RoleTable, option: str, name: str) -> None:
    if re.fullmatch(NAME, name) is None or len(name) > 64:
        expected = "a lower-case letter, then lower-case letters, digits and _"
        raise table.error(option, f"{name[:80]!r} is not a name: expected {expected}")


def _check_other(table: RoleTable, name: str, known: Mapping[str, Terms]) -> None:
    if name not in known:
        raise _unknown(table, "after", name, known)
    if name == table.name:
        raise table.error("after", "a role cannot start after itself")


def _unknown(
    table: RoleTable, option: str, name: str, known: Iterable[str], start: str = ""
) -> UsageError:
    names = [one for one in known if one != table.name]
    there = f"the roles are {', '.join(known)}" if names else "there is no other role"
    return table.error(option, f"{start}no role {name}{meant(name, names)}; {there}")


def _check_cycles(tables: Sequence[RoleTable], known: Mapping[str, Terms]) -> None:
    by_name = {table.name: table for table in tables}
    done: set[str] = set()
    for name in known:
        circle = _circle(name, known, done)
        if circle:
            shown = " -> ".join([*circle, circle[0]])
            text = f"roles wait for each other, so none can start: {shown}"
            raise by_name[circle[0]].error("after", text)


def _circle(start: str, known: Mapping[str, Terms], done: set[str]) -> list[str]:
    """Return the first circle that is reached from a role, or []."""
    path: list[str] = []
    ways = [iter([start])]
    while ways:
        name = next((one for one in ways[-1] if one not in done), None)
        if name is None:
            ways.pop()
            if path:
                done.add(path.pop())
        elif name in path:
            return path[path.index(name) :]
        else:
            path.append(name)
            ways.append(iter(known[name].after))
    return []


def _check_end(tables: Sequence[RoleTable], known: Mapping[str, Terms]) -> None:
    if any(one.ends != "never" for one in known.values()):
        return
    valid = either(ENDS[:2])
    raise tables[0].error(
        "ends", f"all roles have ends = never, so the job never ends; one needs {valid}"
    )


def _check_placeholders(table: RoleTable, known: Mapping[str, Terms]) -> None:
    """Check that each placeholder of a role stands for something."""
    for option, words in (("program", table.program), ("export", table.get("export"))):
        for one in placeholders(words):
            _check_placeholder(table, option, one, known)
        for role, what in unknown_words(words):
            _check_word(table, option, role, what, known)


def _check_word(
    table: RoleTable, option: str, role: str, what: str, known: Mapping[str, Terms]
) -> None:
    """Check that braces with the name of a role or a port have no other word; ignore other braces.

    Raises:
        UsageError: the braces have another word.
    """
    shown, name = f"{{{role}.{what}}}", role.lower()
    own = known[table.name].ports
    if name in {PORT, f"{PORT}s"}:
        if what.lower() in own:
            raise table.error(option, f"{shown}: write {{{PORT}.{what.lower()}}}")
        if role == PORT:
            there = f"its ports are {', '.join(own)}" if own else "the role reserves no port"
            raise table.error(option, f"{shown}: no port {what}; {there}")
    elif name in known:
        has = either([f"{{{name}.{one}}}" for one in (LISTS if known[name].ports else LISTS[:1])])
        more = "" if known[name].ports else f"; {{{name}.addrs}} once it reserves ports"
        raise table.error(option, f"{shown}: no such value; a role has {has}{more}")


def _check_placeholder(
    table: RoleTable, option: str, one: Placeholder, known: Mapping[str, Terms]
) -> None:
    own = known[table.name].ports
    if one.what == PORT:
        if one.name not in own:
            there = f"its ports are {', '.join(own)}" if own else "the role reserves no port"
            text = f"{one}: no port {one.name}{meant(one.name, own)}; {there}"
            raise table.error(option, text)
    elif one.name not in known:
        raise _unknown(table, option, one.name, known, f"{one}: ")
    elif one.what == "addrs" and not known[one.name].ports:
        raise table.error(option, f"{one}: {one.name} reserves no port; add ports to it")
