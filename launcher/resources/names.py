"""Check host names, whatever their source, before they are used in commands."""

from __future__ import annotations

import re

from ..common.errors import UsageError
from .ranges import quoted

# ssh takes a plain number as an IPv4 address; in a list of hosts it is a mistake.
_NAME = re.compile(r"(?![0-9-]*$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_ZONE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_PORT = re.compile(r"[0-9]{1,5}")

LONGEST_LABEL = 63
"""Most characters between two dots of a name (RFC 1035); Python's resolver refuses more."""


def check_name(name: str) -> None:
    """Check that `name` is a host name, or an address without brackets.

    Raises:
        UsageError: the text is neither.
    """
    if ":" in name and not is_ipv6(name):
        meant = in_brackets(name)
        advice = f"; with a number after it, write {meant}" if meant else ""
        raise UsageError(f"{quoted(name)} is not an IPv6 address{advice}")
    if ":" in name:
        return
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{quoted(name)} is not a host name (letters, digits, '.', '_', '-'; not only digits)"
        )
    if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", name) and not _is_ipv4(name):
        raise UsageError(f"{quoted(name)} is not an IPv4 address: each of its numbers is 0 to 255")
    if bad_label(name):
        raise UsageError(f"{quoted(name)} is not a host name: {bad_label(name)}")


def _is_ipv4(name: str) -> bool:
    return all(len(one) <= 3 and int(one) <= 255 for one in name.split("."))


def bad_label(name: str) -> str:
    """Return the rule that a part of a name breaks, or "": no resolver takes such a name."""
    labels = name.removesuffix(".").split(".")
    if all(0 < len(one) <= LONGEST_LABEL for one in labels):
        return ""
    return f"each part between dots has 1 to {LONGEST_LABEL} characters"


def in_brackets(text: str) -> str:
    """Return an IPv6 address that is followed by a number in its bracketed form, or ""."""
    address, _, number = text.rpartition(":")
    return f"[{address}]:{number}" if _PORT.fullmatch(number) and is_ipv6(address) else ""


def is_ipv6(name: str) -> bool:
    """Return whether `name` is an IPv6 address, perhaps with a zone."""
    address, percent, zone = name.partition("%")
    return bool(_packed(address)) and (not percent or bool(_ZONE.fullmatch(zone)))


def lacks_zone(name: str) -> str:
    """Return why a link-local address needs an interface to lead to a host, or ""."""
    packed = _packed(name) if ":" in name else b""
    if not packed or packed[0] != 0xFE or packed[1] & 0xC0 != 0x80:  # fe80::/10 (RFC 4291)
        return ""
    return (
        f"{name} is a link-local address, which needs the network interface that leads to it;"
        f" write {name}%eth0, with a name that `ip -6 address` shows"
    )


def _packed(address: str) -> bytes:
    import socket

    try:
        return socket.inet_pton(socket.AF_INET6, address)
    except (OSError, ValueError):
        return b""
