"""This machine's addresses, and those on the route to a host. Nothing is sent."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
from contextlib import suppress

from . import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SIOCGIFMTU = 0x8921
"""ioctl(2): the largest packet of an interface, in bytes."""

SIOCGIFADDR = 0x8915
"""ioctl(2): the address of an interface (netdevice(7))."""

SIOCGIFFLAGS = 0x8913
"""ioctl(2): the flags of an interface."""

UP, LOOPBACK = 0x41, 0x8
"""IFF_UP and IFF_RUNNING; IFF_LOOPBACK (linux/if.h)."""

MAX_LOOKUPS = 3
"""Host names that are resolved at most: with a dead name server, each takes seconds."""


def own_addresses() -> tuple[str, ...]:
    """Return this machine's IPv4 and global IPv6 addresses, without loopback.

    The address on the default route comes first. /proc/net/fib_trie and if_inet6 (proc(5)) list the
    others without a helper program.
    """
    addresses = dict.fromkeys([*_routed(), *_ipv4(), *(one for one, _ in _global_ipv6())])
    return tuple(address for address in addresses if not address.startswith("127."))


def _routed() -> list[str]:
    """Return the source address of the default route; nothing is sent to find it."""
    with system.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
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


def _global_ipv6() -> list[tuple[str, str]]:
    """Return the global IPv6 addresses, each with the name of its interface."""
    addresses = []
    for line in lines_of("/proc/net/if_inet6"):
        digits, _index, _prefix, scope, _flags, name = line.split(None, 5)
        if scope == "00":
            packed = bytes.fromhex(digits)
            addresses.append((socket.inet_ntop(socket.AF_INET6, packed), name))
    return addresses


def lines_of(path: str) -> list[str]:
    """Return the lines of a file in /proc or /sys; [] if the file cannot be read.

    Only a line feed ends a line: in names that users choose, the kernel escapes no other character.
    """
    try:
        with system.open_file(path, encoding="utf-8", errors="replace", newline="\n") as file:
            return [line.removesuffix("\n") for line in file]
    except OSError:
        return []


def any_address() -> socket.socket:
    """Return a TCP socket that, bound to "", accepts connections over both IPv6 and IPv4."""
    try:
        both = system.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        return system.socket(socket.AF_INET, socket.SOCK_STREAM)
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
        with system.socket(family, kind) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def interface_of(address: str) -> str:
    """Return the name of the interface that has this IPv4 address, or ""."""
    with system.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        names = (name for _, name in system.if_nameindex() if _ipv4_of(probe, name) == address)
        return next(names, "")


def interfaces() -> tuple[tuple[str, str], ...]:
    """Return name and first address of every interface that is up, without loopback.

    The order is getifaddrs(3)'s: first interfaces with an IPv4 address, then the others with a
    global IPv6 address.
    """
    with system.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        names = [name for _, name in system.if_nameindex() if _is_up(probe, name)]
        old = {name: address for name in names if (address := _ipv4_of(probe, name))}
    new: dict[str, str] = {}
    for address, name in _global_ipv6():
        new.setdefault(name, address)
    only_new = {name: new[name] for name in names if name in new and name not in old}
    return (*old.items(), *only_new.items())


def mtus(names: Iterable[str]) -> dict[str, int]:
    """Return the largest packet, in bytes, of each of these interfaces that exists."""
    found: dict[str, int] = {}
    with system.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for name in names:
            with suppress(OSError):  # an interface that is gone
                packed = fcntl.ioctl(probe, SIOCGIFMTU, struct.pack("256s", os.fsencode(name)))
                found[name] = int.from_bytes(packed[16:20], sys.byteorder)
    return found


def _ipv4_of(probe: socket.socket, name: str) -> str:
    """Return the first IPv4 address of an interface, or ""."""
    with suppress(OSError):  # an interface without an address
        packed = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", os.fsencode(name)))
        return socket.inet_ntoa(packed[20:24])
    return ""


def _is_up(probe: socket.socket, name: str) -> bool:
    with suppress(OSError):  # an interface that is gone
        packed = fcntl.ioctl(probe, SIOCGIFFLAGS, struct.pack("256s", os.fsencode(name)))
        flags = int.from_bytes(packed[16:18], sys.byteorder)
        return flags & (UP | LOOPBACK) == UP
    return False


def same_host(one: str, other: str) -> bool:
    """Return whether two names mean one host: they are equal, or one is the other's short form.

    Case does not matter in names (RFC 1035) and in IPv6 addresses.
    """
    if one == other:
        return True
    one, other = one.lower(), other.lower()
    if one == other:
        return True
    short = "." not in one or "." not in other
    return short and not _numeric(one) and one.partition(".")[0] == other.partition(".")[0]


def _numeric(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()
