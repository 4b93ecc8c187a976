"""The reason why the kernel refused a port, in words; imported only after that."""

from __future__ import annotations

import errno

from . import system
from .account import user_words
from .errors import reason
from .network import lines_of

FIRST_FREE = "ip_unprivileged_port_start"
"""The first port that users other than root may use (Documentation/networking/ip-sysctl)."""


def refusal(port: int, error: OSError) -> str:
    """Return why this user cannot bind to a port."""
    if error.errno != errno.EACCES:
        return reason(error)
    who = f"{user_words(system.geteuid())} may not use port {port}"
    first = next(iter(lines_of(f"/proc/sys/net/ipv4/{FIRST_FREE}")), "")
    if first.isdigit() and port < int(first):
        return f"{who} (below {first}), which is reserved for root ({FIRST_FREE})"
    return f"{who}: {reason(error)}, perhaps because of a security module such as SELinux"
