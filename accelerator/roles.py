"""The addresses of the other roles of a job, for training code: docs/roles.md describes roles.

Each call reads the present state: a role that has been restarted may have other ports.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def addrs(role: str) -> list[str]:
    """Return address and port of each node of a role, such as `10.0.0.1:8000`.

    The port is the first of the role's ports; a role without ports has no such addresses.

    Raises:
        LookupError: there is no such role, or this is no job of several roles.
    """
    return _lists(role, "addrs")


def hosts(role: str) -> list[str]:
    """Return an address of each node of a role that other nodes can reach.

    Raises:
        LookupError: there is no such role, or this is no job of several roles.
    """
    return _lists(role, "hosts")


def port(name: str) -> int:
    """Return a port of this role on this node.

    Raises:
        LookupError: the role asks for no port of this name.
    """
    variable = f"DSRUN_PORT_{name.upper()}"
    if variable not in os.environ:
        raise LookupError(f"no port {name!r}: {variable} is not set")
    return int(os.environ[variable])


def _lists(role: str, what: str) -> list[str]:
    path = os.environ.get("DSRUN_ROLES_FILE")
    if path is None:
        raise LookupError("no roles: DSRUN_ROLES_FILE is not set")
    with open(path, encoding="utf-8") as file:
        known: dict[str, Any] = json.load(file)
    if role not in known:
        raise LookupError(f"no role {role!r}; the roles are {', '.join(known)}")
    return list(known[role][what])
