"""Read the groups of near nodes of a cluster from `scontrol show topology`. Pure.

With Slurm's plugin topology/block a line has `BlockName=b1 BlockIndex=0 Nodes=n[01-18]`, with
topology/tree `SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-4]`, and switches above these have
`Level=1 ... Switches=s[1-2]` (topology.conf(5), scontrol(1) of Slurm 22 to 25).
"""

from __future__ import annotations

import re

from ..common.errors import UsageError
from .nodelist import expand_nodelist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = "scontrol show topology"


def blocks(text: str) -> dict[str, str]:
    """Return the block of each node, or its leaf switch; blocks come in the order of the network.

    Raises:
        UsageError: a list of nodes is malformed, or there are no blocks and no switches.
    """
    lines = [dict(re.findall(r"(?<!\w)(\w+)=(\S+)", line)) for line in text.split("\n")]
    found = {one["BlockName"]: one.get("Nodes", "") for one in lines if "BlockName" in one}
    if not found:
        switches = {one["SwitchName"]: one for one in lines if "SwitchName" in one}
        found = {name: switches[name].get("Nodes", "") for name in _leaves(switches)}
    if not found:
        raise UsageError(f"{SOURCE}: shows no blocks or switches; is a topology plugin configured?")
    return {
        node: block
        for block, nodes in found.items()
        if nodes
        for node in expand_nodelist(nodes, f"{SOURCE}: {block}")
    }


def _leaves(switches: dict[str, dict[str, str]]) -> Iterator[str]:
    """Yield the lowest switches; those below one switch follow each other."""
    below = {
        name: expand_nodelist(one["Switches"], f"{SOURCE}: {name}") if "Switches" in one else []
        for name, one in switches.items()
    }
    inner = {name for names in below.values() for name in names}
    seen: set[str] = set()
    rest = [name for name in reversed(switches) if name not in inner]
    while rest:
        name = rest.pop()
        if name in seen or name not in switches:
            continue
        seen.add(name)
        if below[name]:
            rest += reversed(below[name])
        else:
            yield name
