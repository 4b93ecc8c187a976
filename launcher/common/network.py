"""The addresses of this machine, and which of them lead to a host; nothing is ever sent."""

from __future__ import annotations

import fcntl
import socket
import struct
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SIOCGIFADDR = 0x8915
"""ioctl(2): the address of an interface (netdevice(7))."""

LOOKED_UP = 3
"""Hosts whose names are looked up: a dead name server would cost seconds for each."""


def own_addresses() -> tuple[str, ...]:
    """Return this machine's IPv4 and global IPv6 addresses, loopback left out.

    The address on the default route comes first; /proc/net/fib_trie and if_inet6 (proc(5)) list
    the rest without a helper program.
    """
    found = dict.fromkeys([*_routed(), *_ipv4(), *_ipv6()])
    return tuple(address for address in found if not address.startswith("127."))


def _routed() -> list[str]:
    """Return the source address of the default route; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return []
        return [str(probe.getsockname()[0])]


def _ipv4() -> list[str]:
    found = []
    previous = ""
    for line in lines_of("/proc/net/fib_trie"):
        if "/32 host LOCAL" in line:
            found.append(previous.rpartition(" ")[2])
        previous = line
    return found


def _ipv6() -> list[str]:
    found = []
    for line in lines_of("/proc/net/if_inet6"):
        digits, _index, _prefix, scope, _flags, _name = line.split()
        if scope == "00":
            packed = bytes.fromhex(digits)
            found.append(socket.inet_ntop(socket.AF_INET6, packed))
    return found


def lines_of(path: str) -> list[str]:
    """Return the lines of a file of the kernel's, none where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def any_address() -> socket.socket:
    """Return a TCP socket that, bound to "", takes connections over IPv6 and IPv4 alike."""
    try:
        both = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return both


def addresses_towards(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return this machine's addresses, those on the routes to some of the hosts first."""
    some = dict.fromkeys([*hosts[:1], *hosts[len(hosts) // 2 :][:1], *hosts[-1:]])
    routed = [address for host in list(some)[:LOOKED_UP] if (address := _towards(host))]
    return tuple(dict.fromkeys([*routed, *own_addresses()]))


def _towards(host: str) -> str:
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def interface_of(address: str) -> str:
    """Return the name of the interface that has this IPv4 address, "" for none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # an interface without an address
                request = struct.pack("256s", name.encode())
                found = fcntl.ioctl(probe, SIOCGIFADDR, request)[20:24]
                if socket.inet_ntoa(found) == address:
                    return name
    return ""


def same_host(one: str, other: str) -> bool:
    """Return whether two names are one host's: the same, or one is the short form of the other."""
    if one == other:
        return True
    short = "." not in one or "." not in other
    return short and not _numeric(one) and one.partition(".")[0] == other.partition(".")[0]


def _numeric(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()
