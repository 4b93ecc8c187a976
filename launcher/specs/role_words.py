"""Information for the roles of a job about each other: placeholders in words, and variables. Pure.

Placeholders are exactly `{port.NAME}` (a port of the role itself on its node), `{ROLE.addrs}` and
`{ROLE.hosts}`; any other brace is left alone, as JSON and Hydra use them. Variables are
`DSRUN_PORT_<NAME>`, `DSRUN_<ROLE>_HOSTS` and `DSRUN_<ROLE>_ADDRS`. Commas separate the items of a
list. A single argument or variable may have 128 KiB (MAX_ARG_STRLEN, execve(2)); a longer list
is written to a file, and `@/path/of/the/file` takes its place. `DSRUN_ROLES_FILE` names a file with
all lists as JSON, which is replaced when a role has been restarted elsewhere.
"""

from __future__ import annotations

import json
import os
import re

from ..common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

NAME = r"[a-z][a-z0-9_]*"
"""A pattern for the names of roles and of ports."""

PORT = "port"
"""The beginning of a port's placeholder, reserved: no role has this name."""

LISTS = ("hosts", "addrs")
"""The lists that placeholders have for each role."""

LONGEST = 100 << 10
"""Bytes of the longest list that is put into an argument or a variable."""

FILE = "DSRUN_ROLES_FILE"
"""The variable that names the file of `document`."""

_BRACES = r"(?<!\$)\{([A-Za-z_]\w*)\.([A-Za-z_]\w*)\}"

_PLACEHOLDER = rf"\{{(?:port\.({NAME})|({NAME})\.(hosts|addrs))\}}"


class Peers(NamedTuple):
    """The addresses of a role's workers.

    Attributes:
        hosts: for each of the role's nodes, an address that other nodes can reach, by node rank.
        ports: for each of these nodes, the first of its ports; empty for a role without ports.
    """

    hosts: tuple[str, ...]
    ports: tuple[int, ...] = ()

    @property
    def addrs(self) -> tuple[str, ...]:
        """Address and port of each of its nodes, `10.0.0.1:8000` or `[fe80::1]:8000`."""
        return tuple(map(address, self.hosts, self.ports))


class Placeholder(NamedTuple):
    """A placeholder: of the role's own port `name`, or of the list `what` of the role `name`."""

    name: str
    what: str

    def __str__(self) -> str:
        shown = (PORT, self.name) if self.what == PORT else (self.name, self.what)
        return f"{{{'.'.join(shown)}}}"


def address(host: str, port: int) -> str:
    """Return host and port as one text, with brackets around an IPv6 address (RFC 3986)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def texts(
    peers: Mapping[str, Peers], write: Callable[[str, str], str], longest: int = LONGEST
) -> dict[str, str]:
    """Return the lists of all roles as texts: `rollout.addrs` to the list, or to `@/path`.

    Args:
        peers: the addresses of each role, by its name.
        write: writes a file of this name and text, and returns its path.
        longest: bytes of the longest list that needs no file.
    """
    found: dict[str, str] = {}
    for role, one in peers.items():
        for what, items in zip(LISTS, (one.hosts, one.addrs), strict=True):
            name, text = f"{role}.{what}", ",".join(items)
            if len(os.fsencode(text)) > longest:
                text = "@" + write(name, f"{text}\n")
            found[name] = text
    return found


def fill(
    words: Iterable[str], ports: Mapping[str, int], texts: Mapping[str, str]
) -> tuple[str, ...]:
    """Return words with their placeholders filled in; unknown ones are left alone.

    Args:
        words: a program's arguments.
        ports: the ports of the role on the node, by name.
        texts: the lists of all roles, as `texts` returns them.
    """

    def filled(match: re.Match[str]) -> str:
        port, role, what = match.groups()
        value = ports.get(port) if port else texts.get(f"{role}.{what}")
        return match[0] if value is None else str(value)

    return tuple(re.sub(_PLACEHOLDER, filled, word) if "{" in word else word for word in words)


def document(peers: Mapping[str, Peers]) -> str:
    """Return the lists of all roles as JSON, for a file that is replaced when they change."""
    lists_of = {name: {"hosts": one.hosts, "addrs": one.addrs} for name, one in peers.items()}
    return f"{json.dumps(lists_of)}\n"


def variables(ports: Mapping[str, int], texts: Mapping[str, str], file: str = "") -> dict[str, str]:
    """Return the variables of the workers of a role on one node.

    A role without ports has no `DSRUN_<ROLE>_ADDRS`.

    Args:
        ports: as for `fill`.
        texts: as for `fill`.
        file: the path of `document` on the node, or "".
    """
    own = {f"DSRUN_PORT_{name.upper()}": str(port) for name, port in ports.items()}
    known = {name: text for name, text in texts.items() if text}
    of_roles = {variable(*name.split(".")): text for name, text in known.items()}
    return {**own, **of_roles, **({FILE: file} if file else {})}


def variable(role: str, what: str) -> str:
    """Return the name of the variable that has a list of a role."""
    return f"DSRUN_{role.upper()}_{what.upper()}"


def is_variable(name: str) -> bool:
    """Return whether a variable may be one of these."""
    form = r"DSRUN_(?:PORT_[A-Z][A-Z0-9_]*|[A-Z][A-Z0-9_]*_(?:HOSTS|ADDRS)|ROLES_FILE)"
    return re.fullmatch(form, name) is not None


def placeholders(words: Sequence[str]) -> Iterator[Placeholder]:
    """Yield the placeholders in words, in their order."""
    for word in words:
        for port, role, what in re.findall(_PLACEHOLDER, word):
            yield Placeholder(port, PORT) if port else Placeholder(role, what)


def unknown_words(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield `A` and `B` of each `{A.B}` in words that is no placeholder; `${A.B}` is Hydra's."""
    for word in words:
        for match in re.finditer(_BRACES, word):
            if not re.fullmatch(_PLACEHOLDER, match[0]):
                yield match[1], match[2]
