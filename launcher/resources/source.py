"""Hosts with the words for where they came from, and which of them is this machine."""

from __future__ import annotations

import os

from ..common.values import NamedTuple
from ..specs.host import Host

THIS_MACHINE = "localhost"


class Source(NamedTuple):
    """The hosts, and the words for where they came from."""

    hosts: list[Host]
    words: str


def this_machine() -> Source:
    """Return this machine by its own name, for a job whose other nodes are not ours to start."""
    return Source([Host(os.uname().nodename)], "this machine")


def is_here(host: Host) -> bool:
    """Return whether a host is the machine this runs on, so that it needs no ssh.

    By name, or by an address that is this machine's own; names are not looked up: that could take
    seconds a host. A host with a port or user of its own is never meant: it may be a container.
    """
    if host.port is not None or host.user is not None:
        return False
    here = os.uname().nodename
    if host.name in names_here() or host.name.startswith("127."):
        return True
    if ":" in host.name or host.name.replace(".", "").isdigit():
        return own_address(host.name)
    return "." not in here and host.name.partition(".")[0] == here


def names_here() -> tuple[str, ...]:
    """Return what this machine is called on itself."""
    here = os.uname().nodename
    return THIS_MACHINE, "127.0.0.1", "::1", here, here.partition(".")[0]


def own_address(name: str) -> bool:
    """Return whether a numeric address can be bound to here; looks nothing up."""
    import socket

    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((name, 0))
        except OSError:
            return False
        return True
