"""Find the host meant by a name, whatever names the host has itself.

A name may have a domain that the other lacks, and letters have no case (RFC 1035). Slurm knows a
node by its NodeName, and NodeHostname and NodeAddr may be other words (slurm.conf(5)); these only
`scontrol` tells, so it is asked only in a job, about names that are not recognised without it.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from ..common import executable
from ..common.network import same_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT = 10.0
"""Seconds for Slurm to answer."""

_FIELD = re.compile(r"(?<!\S)(NodeName|NodeAddr|NodeHostName)=(\S+)")


def meant(hosts: Iterable[str], nodes: Iterable[str]) -> dict[str, str]:
    """Return the node that each of these hosts means, for the hosts that are nodes.

    A name that fits several nodes means none. Outside of a Slurm job, only the short and
    the long form of a name are equivalent.
    """
    hosts, nodes = list(hosts), list(nodes)
    found = _recognised(hosts, zip(nodes, nodes, strict=True))
    rest = [host for host in hosts if host not in found]
    if not rest or "SLURM_JOB_ID" not in os.environ:
        return found
    slurms = {own: node for node, own in _recognised(nodes, _aliases()).items()}
    named = _recognised(rest, _aliases())
    return found | {host: slurms[own] for host, own in named.items() if own in slurms}


def _recognised(hosts: Iterable[str], known: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the node of each host whose name, or its long or short form, only one node has."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, node in known:
        alike.setdefault(_short(name), []).append((name, node))
    found = {}
    for host in hosts:
        pairs = alike.get(_short(host), [])
        exact = {node for name, node in pairs if name.lower() == host.lower()}
        nodes = exact or {node for name, node in pairs if same_host(name, host)}
        if len(nodes) == 1:
            found[host] = nodes.pop()
    return found


def _short(name: str) -> str:
    name = name.lower()
    return name if name.replace(".", "").isdigit() else name.partition(".")[0]


@lru_cache(1)
def _aliases() -> tuple[tuple[str, str], ...]:
    """Return all names of all nodes, each with its NodeName; () if Slurm does not tell."""
    import subprocess

    try:
        ran = subprocess.run(
            [executable.located("scontrol"), "--oneliner", "show", "nodes"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(parse(ran.stdout.decode("utf-8", "replace")))


def parse(text: str) -> list[tuple[str, str]]:
    """Return the names in each line of `scontrol --oneliner show nodes`, each with its NodeName."""
    lines = [dict(_FIELD.findall(line)) for line in text.split("\n")]
    return [
        (name, line["NodeName"]) for line in lines if "NodeName" in line for name in line.values()
    ]
