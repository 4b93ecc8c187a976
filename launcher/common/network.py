"""This machine's addresses, and which of them are on the route to a host. Nothing is sent."""

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

MAX_LOOKUPS = 3
"""Host names that are resolved: with a dead name server, each takes seconds."""


def own_addresses() -> tuple[str, ...]:
    """Return this machine's IPv4 and global IPv6 addresses without loopback.

    The address on the default route comes first; /proc/net/fib_trie and if_inet6 (proc(5)) list
    the rest without a helper program.
    """
    addresses = dict.fromkeys([*_routed(), *_ipv4(), *_ipv6()])
    return tuple(address for address in addresses if not address.startswith("127."))


def _routed() -> list[str]:
    """Return the source address of the default route; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return []
        return [str(probe.getsockname()[0])]


def _ipv4() -> list[str]:
    addresses = []
    previous = ""
    for line in lines_of("/proc/net/fib_trie"):
        if "/32 host LOCAL" in line:
            addresses.append(previous.rpartition(" ")[2])
        previous = line
    return addresses


def _ipv6() -> list[str]:
    addresses = []
    for line in lines_of("/proc/net/if_inet6"):
        digits, _index, _prefix, scope, _flags, _name = line.split()
        if scope == "00":
            packed = bytes.fromhex(digits)
            addresses.append(socket.inet_ntop(socket.AF_INET6, packed))
    return addresses


def lines_of(path: str) -> list[str]:
    """Return the lines of a file in /proc or /sys, [] if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def any_address() -> socket.socket:
    """Return a TCP socket that, bound to "", accepts connections over both IPv6 and IPv4."""
    try:
        both = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return both


def addresses_towards(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return this machine's addresses, those on the routes to a few of the hosts first."""
    some = dict.fromkeys([*hosts[:1], *hosts[len(hosts) // 2 :][:1], *hosts[-1:]])
    routed = [address for host in list(some)[:MAX_LOOKUPS] if (address := _towards(host))]
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
                packed = fcntl.ioctl(probe, SIOCGIFADDR, request)[20:24]
                if socket.inet_ntoa(packed) == address:
                    return name
    return ""


def same_host(one: str, other: str) -> bool:
    """Return whether two names mean the same host: equal, or one is the other's short form."""
    if one == other:
        return True
    short = "." not in one or "." not in other
    return short and not _numeric(one) and one.partition(".")[0] == other.partition(".")[0]


def _numeric(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()
