"""The resources that this machine gives to workers: limits, memory, processors, and disk space."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from ....accelerator.hardware import sysfs
from ...common import network, system
from ...common.network import lines_of
from ...control.facts import Space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


LIMITS = {
    "nofile": resource.RLIMIT_NOFILE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "nproc": resource.RLIMIT_NPROC,
    "stack": resource.RLIMIT_STACK,
}
"""The limits, by the names that limits.conf(5) uses."""

MOST_INTERFACES = 16
"""Network interfaces that are reported at most."""

NO_LIMIT = 1 << 60
"""Values from here on mean "no limit": the one of cgroup v1 is the largest multiple of a page."""


def limits() -> dict[str, int]:
    """Return the soft limits of this process, inherited by workers; -1 for none."""
    soft = {name: system.getrlimit(number)[0] for name, number in LIMITS.items()}
    return {name: limit if limit < NO_LIMIT else -1 for name, limit in soft.items()}


def memory(root: str = "/") -> int:
    """Return the bytes of memory of this machine, 0 if unknown (proc_meminfo(5))."""
    with suppress(OSError), system.open_file(f"{root}proc/meminfo", "rb", buffering=0) as file:
        told = file.read(4096).partition(b"MemTotal:")[2].split()
        return int(told[0]) * 1024 if told else 0
    return 0


def cgroup_memory(root: str = "/") -> int:
    """Return the smallest memory limit of the cgroups of this process, 0 for none.

    Source: the kernel's cgroup-v2.rst and cgroup-v1/memory.rst.
    """
    names = ("memory.max", "memory.limit_in_bytes")
    texts = (
        next(filter(None, (sysfs.line(f"{folder}/{name}") for name in names)), "")
        for folder in cgroups("memory", root)
    )
    found = (int(text) for text in texts if text.isdecimal())
    return min((limit for limit in found if limit < NO_LIMIT), default=0)


def cpus(root: str = "/") -> float:
    """Return the number of CPUs that this process may use at a time: its affinity, and quotas.

    The affinity that the kernel reports lies within the cpusets of all cgroups.
    """
    allowed = float(len(system.sched_getaffinity(0)))
    return min([allowed, *(quota for _, quota in quotas(root))])


def quotas(root: str = "/") -> Iterator[tuple[str, float]]:
    """Yield the cgroups of this process that limit its CPU time, innermost first: folder, CPUs."""
    for folder in cgroups("cpu", root):
        if quota := _quota(folder):
            yield folder, quota


def mtus() -> dict[str, int]:
    """Return the MTU of each active interface that has an address, without loopback."""
    names = [name for name, _ in network.interfaces() if name.isprintable()]
    return network.mtus(names[:MOST_INTERFACES])


def cgroups(controller: str, root: str = "/") -> Iterator[str]:
    """Yield the folders of this process's cgroup for a controller, and of the cgroups above it.

    A controller is either in its own hierarchy (v1) or in the shared one (v2). The mount point of
    the hierarchy has a conventional place, or else is in the table of mounts: in a container
    without a cgroup namespace, a path begins with folders that are not mounted there.

    Source: cgroups(7); systemd has v2 beside v1 (hybrid) in /sys/fs/cgroup/unified.
    """
    lines = [line.split(":", 2)[1:] for line in lines_of(f"{root}proc/self/cgroup")]
    own = [one for one in lines if controller in one[0].split(",")]
    for controllers, path in (own or [one for one in lines if not one[0]])[:1]:
        top = f"{root}sys/fs/cgroup/{controllers}".rstrip("/")
        if not controllers and len(lines) > 1 and system.isdir(f"{top}/unified"):
            top = f"{top}/unified"
        place = (top, path)
        if path != "/" and not system.isdir(f"{top}{path}"):
            place = _mounted(controller if controllers else "", path, root) or place
        yield from _upwards(*place)


def _upwards(top: str, path: str) -> Iterator[str]:
    """Yield a folder below `top`, and its parents up to `top`."""
    while path.startswith("/"):
        yield f"{top}{path}".rstrip("/")
        if path == "/":
            break
        path = os.path.dirname(path)


def _mounted(controller: str, path: str, root: str) -> tuple[str, str] | None:
    """Return the mount point of a controller's hierarchy, and a cgroup's path below it.

    The controller "" means v2. A cgroup outside of the mounted part has the path "/". The result is
    None if no such mount is visible. Source: proc_pid_mountinfo(5).
    """
    for line in lines_of(f"{root}proc/self/mountinfo"):
        left, _, right = line.partition(" - ")
        fields, (kind, *more) = left.split(" "), right.split(" ")
        if controller:
            wanted = kind == "cgroup" and controller in ",".join(more).split(",")
        else:
            wanted = kind == "cgroup2"
        if not wanted or len(fields) < 5:
            continue
        above, top = fields[3].rstrip("/"), f"{root}{fields[4].lstrip('/')}"
        inside = f"{path}/".startswith(f"{above}/") and ".." not in path.split("/")
        return top, path[len(above) :] or "/" if inside else "/"
    return None


def space(role: str, path: str) -> Space:
    """Return the space at a path, or in its nearest parent that exists."""
    while not system.isdir(path) and path not in {"", "/"}:
        path = os.path.dirname(path)
    try:
        found = system.statvfs(path)
    except OSError:
        return Space(role, path, 0, 0, -1, writable=False)
    writable = not found.f_flag & os.ST_RDONLY and system.access(path, os.W_OK | os.X_OK)
    return Space(role, path, *room(found), writable=writable)


def room(found: os.statvfs_result) -> tuple[int, int, int]:
    """Return total and free bytes, and free files (-1 for no limit), of a file system.

    Some network file systems report the largest number there is (CephFS: files, s3fs: blocks).
    """
    total, free = (
        min(blocks * found.f_frsize, NO_LIMIT) for blocks in (found.f_blocks, found.f_bavail)
    )
    return total, free, found.f_favail if found.f_files and found.f_favail < NO_LIMIT else -1


def spaces(
    workdir: str, log_dir: str, environ: Mapping[str, str], at: Callable[[str], object] = str
) -> tuple[Space, ...]:
    """Return the space in the folders of a job; a missing log folder is left out.

    `at` is called with each path before it is touched.
    """
    folders = {
        "work": workdir,
        "log": log_dir,
        "tmp": environ.get("TMPDIR") or "/tmp",
        "shm": "/dev/shm",
    }
    found = []
    for role, path in folders.items():
        if path:
            at(path)
            found.append(space(role, path))
    return tuple(found)


def _quota(folder: str) -> float:
    """Return the CPU time that a cgroup allows, in CPUs; 0 for no limit.

    Source: the kernel's cgroup-v2.rst, and scheduler/sched-bwc.rst for v1.
    """
    words = sysfs.text(f"{folder}/cpu.max").split()
    if not words and (quota := sysfs.line(f"{folder}/cpu.cfs_quota_us")).isdecimal():
        words = [quota, sysfs.line(f"{folder}/cpu.cfs_period_us")]
    known = len(words) == 2 and all(word.isdecimal() for word in words)
    return int(words[0]) / int(words[1]) if known and int(words[1]) else 0.0
