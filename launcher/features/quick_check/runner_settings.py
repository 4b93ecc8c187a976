"""Checks that clocks, limits, memory and variables are equal on all nodes, and suffice. Pure."""

from __future__ import annotations

import math

from ...control.facts import UNLIMITED
from .runner_findings import LONGEST, finding, outliers, size, typical
from .runner_versions import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .runner_findings import ComparedNode, Finding

SKEW = 1.0
"""Seconds that a clock may be off, beyond the error of the measurement."""

FEW_FILES = 1024
"""Open files: the soft limit of most distributions."""

ENOUGH_FILES = 4096
FEW_PROCESSES = 1024

LEAST_MEMORY = 256 << 20
"""Bytes per worker: torch alone takes about as much when it is imported."""

OF_ONE_MACHINE = (
    *("docker", "podman", "virbr", "veth", "br-", "cni", "cali", "flannel", "lxc", "lxd", "tun"),
    *("tap", "tailscale", "wg"),
)
"""Beginnings of the names of interfaces that lead to containers, virtual machines or tunnels."""

OF_A_NODE = (
    *("_IFNAME", "_HCA", "_DIR", "_HOME", "_CACHE", "_FILE", "_ADDR", "_HOSTNAME", "_HOST"),
    *("_VISIBLE_DEVICES", "_RANK", "_GID_INDEX"),
)
"""Ends of the names of variables that may well differ from node to node."""


def check_clocks(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    """Yield nodes whose clock is off: against this machine's, or against most if they agree."""
    known = {one.name: one.ahead for one in compared if one.ahead is not None}
    if len(known) < 2:
        return
    agree = [name for name, ahead in known.items() if not _beyond(ahead, (0.0, 0.0))]
    reference = (0.0, 0.0)
    if 2 * len(agree) < len(known):
        reference = sorted(known.values(), key=sum)[len(known) // 2]
    for name, ahead in known.items():
        seconds = _beyond(ahead, reference)
        if seconds:
            way = "ahead of" if seconds > 0 else "behind"
            yield finding("clock", [name], f"the clock is {_time(abs(seconds))} {way} the others")


def _beyond(ahead: tuple[float, float], reference: tuple[float, float]) -> float:
    """Return a clock's difference from the reference, 0 unless it certainly exceeds `SKEW`."""
    least, most = ahead[0] - reference[1], ahead[1] - reference[0]
    return (least + most) / 2 if least > SKEW or most < -SKEW else 0.0


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def check_limits(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    """Yield limits of open files, processes and locked memory that are too low."""
    usual = typical([_limit(one, "nofile") for one in compared])
    for one in compared:
        files, processes = _limit(one, "nofile"), _limit(one, "nproc")
        if files < FEW_FILES or files < min(ENOUGH_FILES, usual / 4):
            yield finding("nofile", [one.name], _low("open files", files, usual, _number))
        if processes < FEW_PROCESSES:
            yield finding("nproc", [one.name], _low("processes", processes, processes, _number))
    yield from _locked_memory([one for one in compared if one.has_gpus])


def _locked_memory(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    usual = typical([_limit(one, "memlock") for one in compared]) if compared else 0.0
    for one in compared:
        locked = _limit(one, "memlock")
        if locked < usual / 4:
            yield finding("memlock", [one.name], _low("locked memory", locked, usual, size))


def _low(what: str, own: float, usual: float, words: Callable[[float], str]) -> str:
    most = words(usual) if usual < math.inf else "none"
    return f"the limit of {what} is {words(own)}" + (
        f", but {most} on most nodes" if usual > own else ""
    )


def _number(count: float) -> str:
    return f"{count:,.0f}"


def _limit(one: ComparedNode, name: str) -> float:
    limit = one.facts.limits.get(name, UNLIMITED)
    return math.inf if limit < 0 else limit


def check_shares(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    """Yield nodes with much less memory, or fewer CPUs, than most."""
    memory = typical([_memory(one) for one in compared])
    cpus = typical([one.facts.cpus for one in compared])
    for one in compared:
        own = _memory(one)
        if own < memory / 2 < math.inf:
            text = f"{size(own)} of memory, but {size(memory)} on most nodes"
            yield finding("memory", [one.name], text)
        elif 0 < one.facts.cgroup_memory < LEAST_MEMORY * one.workers:
            each = size(one.facts.cgroup_memory / one.workers)
            text = f"the cgroup's memory limit leaves {each} for each worker"
            yield finding("memory", [one.name], text)
        if 0 < one.facts.cpus <= cpus / 2:
            unit = "CPU" if one.facts.cpus == 1 else "CPUs"
            text = f"{one.facts.cpus:g} {unit}, but {cpus:g} on most nodes"
            yield finding("cpus", [one.name], text)


def _memory(one: ComparedNode) -> float:
    """Return the bytes that the workers may use; infinite if unknown."""
    known = [count for count in (one.facts.memory, one.facts.cgroup_memory) if count > 0]
    return min(known, default=math.inf)


def check_mtus(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    """Yield nodes whose network interface of the same name has another MTU than on most."""
    having: dict[str, list[ComparedNode]] = {}
    for one in compared:
        for name in one.facts.mtus:
            if not name.startswith(OF_ONE_MACHINE):
                having.setdefault(name, []).append(one)
    for name, nodes in having.items():
        for outlier in outliers(nodes, lambda one, name=name: str(one.facts.mtus[name])):  # type: ignore[misc]
            yield finding("mtu", outlier.nodes, outlier.words(f"the MTU of {name[:LONGEST]} is"))


def check_variables(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    """Yield variables that differ, one finding per set of nodes."""
    names = {name for one in compared for name in one.facts.env if not name.endswith(OF_A_NODE)}
    texts: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(names):
        for outlier in outliers(compared, lambda one, name=name: one.facts.env.get(name, "")):  # type: ignore[misc]
            texts.setdefault(tuple(outlier.nodes), []).append(outlier.words(name[:LONGEST]))
    for nodes, found in texts.items():
        yield finding("env", nodes, listed(found, "; "))
