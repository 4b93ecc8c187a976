"""/proc, as text."""

from __future__ import annotations

import errno
import os
import posixpath
import signal
import socket
import stat
from typing import TYPE_CHECKING, NamedTuple

from .descriptors import Description, Null, PipeEnd
from .files import OpenFile, TextFile, status_of
from .process import error
from .sockets import row

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from .host import Host
    from .kernel import Kernel
    from .process import Process

_NAMESPACES = {"pid": 4026531836, "net": 4026531840, "mnt": 4026531841}
_TICK = 100


class Link(NamedTuple):
    """A symbolic link; that of a descriptor has what it refers to."""

    target: str
    description: Description | None = None


class Folder(NamedTuple):
    """A folder, with the user it belongs to."""

    names: list[str]
    uid: int = 0


if TYPE_CHECKING:
    Found: TypeAlias = bytes | Folder | Link


def is_proc(process: Process, path: str) -> bool:
    """Return whether a path is in /proc."""
    if not path.startswith("/"):
        path = posixpath.join(process.cwd, path)
    return path == "/proc" or path.startswith(("/proc/", "/dev/fd/"))


def find(me: Process, path: str) -> Found:
    """Return what is at a path in /proc.

    Raises:
        OSError: there is nothing, or it may not be seen.
    """
    path = path.replace("/dev/fd/", "/proc/self/fd/", 1)
    parts = [one for one in path.split("/") if one][1:]
    if not parts:
        names = [str(pid) for pid in sorted(me.host.processes)]
        return Folder([*names, "self", "thread-self", "loadavg", "net", "sys"])
    if parts[0] in {"self", "thread-self"} or parts[0].isdigit():
        return _of_process(me, parts)
    text = _GENERAL.get("/".join(parts))
    if text is None:
        raise error(errno.ENOENT, path)
    return text(me.host).encode()


def open_proc(kernel: Kernel, me: Process, path: str, flags: int) -> Description:
    """Open a file of /proc.

    Raises:
        OSError: it cannot be opened.
    """
    found = find(me, path)
    if isinstance(found, Link):
        return _reopened(kernel, found, flags)
    if isinstance(found, Folder):
        raise error(errno.EISDIR, path)
    if flags & os.O_ACCMODE != os.O_RDONLY:
        raise error(errno.EACCES, path)
    return TextFile(kernel.descriptors.inode(), path, found)


def status(me: Process, path: str, *, follow: bool) -> os.stat_result:
    """Return what stat(2) says of a path in /proc.

    Raises:
        OSError: there is nothing.
    """
    found = find(me, path)
    if isinstance(found, Folder):
        return status_of(stat.S_IFDIR | 0o555, 1, uid=found.uid)
    if isinstance(found, bytes):
        return status_of(stat.S_IFREG | 0o444, 1)
    if not follow:
        return status_of(stat.S_IFLNK | 0o777, 1)
    if found.description is not None:
        return descriptor_status(found.description)
    return status_of(stat.S_IFREG | 0o444, int(found.target.partition("[")[2].rstrip("]") or 1))


def descriptor_status(description: Description) -> os.stat_result:
    """Return what fstat(2) says."""
    if isinstance(description, OpenFile):
        return description.node.status()
    return status_of(description.mode, description.inode)


def _reopened(kernel: Kernel, link: Link, flags: int) -> Description:
    """Open again what a descriptor of some process refers to."""
    one, inode = link.description, kernel.descriptors.inode()
    if isinstance(one, OpenFile):
        if flags & os.O_TRUNC:
            kernel.process.host.files.truncate(one.node, 0)
        return OpenFile(one.node, one.path, flags)
    if isinstance(one, PipeEnd):
        return PipeEnd(one.inode, one.buffer, flags & (os.O_ACCMODE | os.O_NONBLOCK))
    if isinstance(one, Null):
        return Null(inode, flags)
    raise error(errno.ENXIO, link.target)


def _of_process(me: Process, parts: list[str]) -> Found:
    process = me.host.processes.get(int(parts[0])) if parts[0].isdigit() else me
    if process is None:
        raise error(errno.ENOENT)
    rest = parts[1:]
    if rest[:1] == ["task"] and len(rest) > 1:
        if rest[1] not in _tasks(process):
            raise error(errno.ENOENT)
        rest = rest[2:] if rest[1] == str(process.pid) or rest[2:] != ["children"] else ["nothing"]
    if not rest:
        return Folder([*_TEXTS, "fd", "task", "ns", "exe"], process.uid)
    return _entry(me, process, rest)


def _entry(me: Process, process: Process, rest: list[str]) -> Found:
    name = rest[0]
    if name == "task":
        return Folder(_tasks(process), process.uid)
    if name in {"fd", "ns", "exe", "environ", "io"}:
        if me.uid not in {0, process.uid}:
            raise error(errno.EACCES)
        return _private(process, rest)
    if name not in _TEXTS or len(rest) > 1:
        raise error(errno.ENOENT)
    return _TEXTS[name](process)


def _private(process: Process, rest: list[str]) -> Found:
    if rest == ["environ"]:
        if not process.alive:
            raise error(errno.ESRCH)
        return b"".join(name + b"=" + value + b"\0" for name, value in process.environ.items())
    if rest == ["io"]:
        return f"rchar: {process.moved}\nwchar: 0\nread_bytes: 0\n".encode()
    if rest == ["exe"]:
        return Link("/usr/bin/" + (process.comm or "program"))
    if rest[0] == "ns" and len(rest) == 2 and rest[1] in _NAMESPACES:
        return Link(f"{rest[1]}:[{_NAMESPACES[rest[1]]}]")
    if rest == ["fd"]:
        return Folder([str(fd) for fd in sorted(process.slots)], process.uid)
    if rest[0] == "fd" and len(rest) == 2 and rest[1].isdigit():
        slot = process.slots.get(int(rest[1]))
        if slot is not None:
            return Link(slot.description.link(), slot.description)
    raise error(errno.ENOENT)


def _tasks(process: Process) -> list[str]:
    return [str(task.tid) for task in process.tasks] or [str(process.pid)]


def _stat(process: Process) -> bytes:
    fields = [0] * 50
    fields[1:4] = [process.ppid, process.pgid, process.sid]
    fields[11] = int(process.cpu * _TICK)
    fields[15] = 20
    fields[17] = max(1, len(process.tasks))
    fields[19] = process.start_ticks
    words = [process.state, *map(str, fields[1:])]
    return f"{process.pid} ({process.comm}) {' '.join(words)}\n".encode()


def _cmdline(process: Process) -> bytes:
    return b"".join(one + b"\0" for one in process.argv) if process.alive else b""


_STATES = {"R": "running", "S": "sleeping", "D": "disk sleep", "T": "stopped", "Z": "zombie"}


def _status(process: Process) -> bytes:
    handlers = process.handlers.items()
    ignored = [number for number, one in handlers if one == signal.SIG_IGN]
    caught = [n for n, one in handlers if one not in {signal.SIG_IGN, signal.SIG_DFL}]
    uid = "\t".join([str(process.uid)] * 4)
    rows = {
        "Name": process.comm,
        "Umask": f"{process.umask:04o}",
        "State": f"{process.state} ({_STATES.get(process.state, 'dead')})",
        "Tgid": process.pid,
        "Pid": process.pid,
        "PPid": process.ppid,
        "TracerPid": 0,
        "Uid": uid,
        "Gid": uid,
        "Threads": max(1, len(process.tasks)),
        "SigPnd": _mask(()),
        "ShdPnd": _mask([*process.pending]),
        "SigBlk": _mask(sorted(process.mask)),
        "SigIgn": _mask(ignored),
        "SigCgt": _mask(caught),
        "Cpus_allowed_list": ",".join(map(str, sorted(process.cpus))),
        "Mems_allowed_list": "0",
    }
    return "".join(f"{name}:\t{value}\n" for name, value in rows.items()).encode()


def _mask(numbers: list[int] | tuple[int, ...]) -> str:
    return f"{sum(1 << number - 1 for number in numbers):016x}"


def _children(process: Process) -> bytes:
    return b"".join(b"%d " % pid for pid in process.children)


def _wchan(process: Process) -> bytes:
    waits = [task.where for task in process.tasks if not task.scheduled]
    return (waits[0] if waits and waits[0] else "0").encode()


def _schedstat(process: Process) -> bytes:
    return b"%d 0 1\n" % int(process.cpu * 1e9)


_TEXTS: dict[str, Callable[[Process], bytes]] = {
    "stat": _stat,
    "status": _status,
    "cmdline": _cmdline,
    "comm": lambda process: process.comm.encode() + b"\n",
    "children": _children,
    "wchan": _wchan,
    "schedstat": _schedstat,
    "maps": lambda _: b"",
    "numa_maps": lambda _: b"",
}


def _loadavg(host: Host) -> str:
    return (
        f"{host.load:.2f} {host.load:.2f} {host.load:.2f} 1/{len(host.processes)} {host.last_pid}\n"
    )


def _tcp(host: Host, family: int) -> str:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
    sockets = [
        one
        for port in sorted(host.ports)
        for one in host.ports[port]
        if one.listening and one.family == family
    ]
    return head + "".join(row(number, one) for number, one in enumerate(sockets))


def _boot_id(host: Host) -> str:
    one = host.boot_id
    return f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}\n"


_GENERAL: dict[str, Callable[[Host], str]] = {
    "loadavg": _loadavg,
    "net/tcp": lambda host: _tcp(host, socket.AF_INET),
    "net/tcp6": lambda host: _tcp(host, socket.AF_INET6),
    "sys/kernel/random/boot_id": _boot_id,
    "meminfo": lambda _: "MemTotal: 64000000 kB\nMemFree: 32000000 kB\nMemAvailable: 48000000 kB\n",
    "stat": lambda host: f"btime {int(host.time() - host.monotonic())}\n",
    "uptime": lambda host: f"{host.monotonic():.2f} 0.00\n",
}
