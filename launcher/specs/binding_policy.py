"""How the workers of a node are bound to its cores, memory and NICs, as the options ask. Pure."""

from __future__ import annotations

import re

from ..common.cpu_list import parse_core_list
from ..common.errors import UsageError, conflict
from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..cli.options import Options

TORCHRUN_WAYS = {"node": "numa", "socket": "socket", "exclusive": "exclusive"}
"""torchrun's names for some ways, where they are not ours (`--numa_binding`)."""

_ONE_LIST = re.compile(r"[0-9,\s-]*")


class Manner(NamedTuple):
    """How to bind.

    Attributes:
        way: `none`, or which cores a worker gets: `core`, `numa`, `socket`, `exclusive` or
            `core-complex`.
        core_list: only these cpus, as in `1,3-5`; "" for all that may be used.
        smt: whether a core's other hardware threads are used beside its first.
        memory: `auto`, `bind`, `preferred`, `interleave` or `none`.
        nics: whether workers are told which NICs are near.
        report: whether the node tells, once the workers run, what they are bound to.
    """

    way: str = "none"
    core_list: str = ""
    smt: bool = True
    memory: str = "auto"
    nics: bool = False
    report: bool = False


def manner(options: Options) -> Manner:
    """Return how to bind, but for the core list, which may be another on every host.

    Raises:
        UsageError: two options ask for different ways, or one for a part of none.
    """
    way = _way(options)
    if way == "none":
        _refuse_parts(options)
    return Manner(
        way=way,
        smt=options.bind_smt == "yes",
        memory=options.bind_memory,
        nics=options.bind_nic,
        report=options.report_bindings,
    )


def binds(options: Options) -> bool:
    """Tell whether cores are bound at all.

    Raises:
        UsageError: as `manner`.
    """
    return manner(options).way != "none"


def core_lists(text: str, hosts: Collection[str]) -> Callable[[str], str]:
    """Return what gives each host's core list: one for all, or `host:0-3@host:4-7`.

    Raises:
        UsageError: a list is malformed, or a host is not one of the job's or named twice.
    """
    where = "--bind_core_list"
    if _ONE_LIST.fullmatch(text):
        if text:
            parse_core_list(text, where)
        return lambda _host: text
    lists: dict[str, str] = {}
    for part in text.split("@"):
        host, colon, cpus = part.rpartition(":")
        if not colon or host not in hosts:
            known = ", ".join(hosts)
            raise UsageError(f"{where}: '{part}': expected cpus, or host:cpus for one of: {known}")
        if host in lists:
            raise UsageError(f"{where}: host '{host}' is named twice")
        parse_core_list(cpus, where)
        lists[host] = cpus
    return lambda host: lists.get(host, "")


def _way(options: Options) -> str:
    numa = options.numa_binding
    asked = {
        "--bind_cores_to_rank": "core" if options.bind_cores_to_rank else None,
        f"--bind_to {options.bind_to}": options.bind_to,
        f"--numa_binding {numa}": TORCHRUN_WAYS.get(numa, numa) if numa else None,
    }
    ways = {name: way for name, way in asked.items() if way}
    if len(set(ways.values())) > 1:
        raise conflict(*ways)
    return next(iter(ways.values()), "core" if options.bind_core_list else "none")


def _refuse_parts(options: Options) -> None:
    parts = {
        "--bind_core_list": bool(options.bind_core_list),
        "--bind_smt no": options.bind_smt == "no",
        f"--bind_memory {options.bind_memory}": options.bind_memory not in {"auto", "none"},
    }
    for name, given in parts.items():
        if given:
            raise UsageError(f"{name}: nothing is bound; add --bind_cores_to_rank")
