"""The network interfaces that gloo and NCCL choose here if no variable names one.

gloo (torch 2.13, `ProcessGroupGloo::createDefaultDevice`) takes the first address of this machine's
own name that can be bound, else the loopback. For a given interface, it takes the first IPv4
address, or else the first IPv6 address.

NCCL (NCCL_SOCKET_IFNAME in its documentation) takes interfaces whose names begin with `ib`, else
all but `docker*` and `lo*`, else the others. The first one carries the bootstrap, and the data as
well without InfiniBand or RoCE; in that case all of them carry data.
"""

from __future__ import annotations

import signal
import socket
from contextlib import suppress

from ...common import files, network, system
from ...common.network import lines_of
from ...common.poll import ready
from ...control.reach_messages import Interface, Network
from . import processes
from .blocking import write_in_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"

WITH_NCCL = {"cuda", "rocm"}
"""Accelerators whose workers use NCCL, or RCCL, which reads NCCL's variables."""

LOOPBACK = "127.0.0.1"
"""The address that gloo uses if this machine's name does not resolve to one of its addresses."""

SECONDS = 2.0
"""The time for this machine's own name to resolve."""

MOST = 16
"""Interfaces that are reported."""

ORDER = (
    lambda name: name.startswith("ib"),
    lambda name: not name.startswith(("docker", "lo", "virbr")),
    lambda name: name.startswith("docker"),
)
"""Tests of names, in order: NCCL uses the interfaces that pass the first test passed by any."""

RDMA = "/sys/class/infiniband"
NCCL_FILE = "/etc/nccl.conf"
"""The file in which sites set variables of NCCL; users have `.nccl.conf` in their home folders."""


def network_of(env: Mapping[str, str], accelerator: str, port: int, token: str) -> Network:
    """Return the network of this node.

    Args:
        env: the variables of the workers.
        accelerator: the kind of devices here.
        port: the port on which this node listens for others.
        token: the token that identifies this node.
    """
    found = tuple(Interface(*one) for one in network.interfaces() if one[0].isprintable())[:MOST]
    used = accelerator in WITH_NCCL and not (NCCL in env or _in_files(env))
    return Network(
        port=port,
        token=token,
        gloo="" if GLOO in env else own_address(),
        nccl=nccl_default([one.name for one in found], rdma=_has_rdma()) if used else (),
        interfaces=found,
    )


def nccl_default(names: Sequence[str], *, rdma: bool) -> tuple[str, ...]:
    """Return the interfaces that NCCL uses, given all in order, and whether data uses RDMA."""
    for kind in ORDER:
        if taken := [name for name in names if kind(name)]:
            return tuple(taken[:1] if rdma else taken)
    return ()


def _has_rdma() -> bool:
    try:
        return bool(system.listdir(RDMA))
    except OSError:
        return False


def _in_files(env: Mapping[str, str]) -> bool:
    own = [f"{home}/.nccl.conf"] if (home := files.home()) else []
    paths = [env.get("NCCL_CONF_FILE", ""), *own, NCCL_FILE]
    return any(line.startswith(NCCL) for path in paths for line in lines_of(path))


def own_address() -> str:
    """Return the address of this machine's name as gloo finds it; "" if that takes too long.

    A name service may take minutes, and can be asked safely only in a separate process.
    """
    name = system.uname().nodename
    return _bindable(name) if _is_in_file(name) else _asked(name)


def _is_in_file(name: str) -> bool:
    """Return whether /etc/hosts, which is read before any service, has this name."""
    orders = [line.split() for line in lines_of("/etc/nsswitch.conf")]
    first = next((words[1] for words in orders if words[:1] == ["hosts:"] and words[1:]), "files")
    rows = (line.partition("#")[0].split() for line in lines_of("/etc/hosts"))
    return first == "files" and any(name in row[1:] for row in rows)


def _asked(name: str) -> str:
    """Return the result of a child process, "" if it takes longer than `SECONDS`."""
    try:
        pid, answer = write_in_child(lambda pipe: pipe.write(_bindable(name)))
    except OSError:
        return ""
    try:
        address = system.read(answer, 256).decode() if ready([answer], SECONDS) else ""
    finally:
        system.close(answer)
    processes.send(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        system.waitpid(pid, 0)
    return address


def _bindable(name: str) -> str:
    """Return the first address of a name that this machine has, or the loopback."""
    try:
        found = system.resolve(name, 0)
    except (OSError, UnicodeError):
        return LOOPBACK
    for family, target in found:
        with suppress(OSError), system.socket(family, socket.SOCK_STREAM) as one:
            one.bind(target)
            return str(target[0])
    return LOOPBACK
