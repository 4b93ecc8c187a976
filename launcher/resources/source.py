"""Hosts with a description of their source, and a test for this machine among them."""

from __future__ import annotations

import os
from functools import lru_cache

from ..common.records import NamedTuple
from ..specs.host import Host

THIS_MACHINE = "localhost"


class HostSource(NamedTuple):
    """Hosts, their source as text for the user, and notes on oddities of that source."""

    hosts: list[Host]
    words: str
    notes: tuple[str, ...] = ()


def this_machine() -> HostSource:
    """Return this machine by its own name, for a job whose other nodes are started elsewhere."""
    return HostSource([Host(os.uname().nodename)], "this machine")


def is_here(host: Host) -> bool:
    """Return whether a host is this machine, and needs no ssh.

    It is recognized by its name, or by an address of this machine. Names are not resolved, which
    could take seconds each. A host with a port or a user may be a container, so it never matches.
    """
    if host.port is not None or host.user is not None:
        return False
    name, hostname = host.name.lower(), os.uname().nodename.lower()
    if name in _names_of(hostname) or name.startswith("127."):
        return True
    if ":" in name or name.replace(".", "").isdigit():
        return own_address(host.name)
    return "." not in hostname and name.partition(".")[0] == hostname


def names_here() -> tuple[str, ...]:
    """Return the names that this machine has for itself."""
    return _names_of(os.uname().nodename)


@lru_cache(1)
def _names_of(hostname: str) -> tuple[str, ...]:
    return THIS_MACHINE, "127.0.0.1", "::1", hostname, hostname.partition(".")[0]


def own_address(name: str) -> bool:
    """Return whether a numeric address belongs to this machine; nothing is resolved."""
    import socket

    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((name, 0))
        except OSError:
            return False
        return True
