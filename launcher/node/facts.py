"""What a node says of itself in its HELLO, and what stands in the way of the job there."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time

from .. import __version__
from ..common import executable
from ..common.network import lines_of, own_addresses, same_host
from ..control.messages import Hello

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..control.messages import Task
    from ..specs.program import Program
    from .devices import Devices


def machine() -> str:
    """Return what two names of one machine share: boot and network namespace."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}/{os.uname().nodename}"
    except OSError:
        return os.uname().nodename


def host_problem(name: str) -> str:
    """Return why this machine is not the host of that name, or ""; what cannot be known passes."""
    here = os.uname().nodename
    if same_host(name, here) or same_host(name, os.environ.get("SLURMD_NODENAME", here)):
        return ""
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except OSError:
        return ""
    if found & set(own_addresses()) or all(one.startswith("127.") for one in found):
        return ""
    return f"the engine started its part on another host, {here}"


def folder_problem(workdir: bytes) -> str:
    """Return why the workers cannot run in that folder, or ""."""
    name = os.fsdecode(workdir)
    if not os.path.isdir(workdir):
        return f"no such folder: {name} (--workdir names another)"
    if not os.access(workdir, os.X_OK):
        return f"folder {name} may not be entered by this user"
    return ""


def program_problem(
    program: Program, python: bytes, script: bytes, workdir: bytes, path: bytes
) -> str:
    """Return why the program cannot be started here, or ""."""
    if program.no_python:
        return _executable_problem(script, workdir, path)
    if not os.access(python, os.X_OK):
        return f"no python at {os.fsdecode(python)} (--python names another)"
    if program.module:
        return ""
    full = os.path.join(workdir, script)
    if not os.path.exists(full):
        return f"no such script: {os.fsdecode(full)}"
    if not os.access(full, os.R_OK):
        return f"script {os.fsdecode(full)} may not be read by this user"
    return ""


def _executable_problem(script: bytes, workdir: bytes, path: bytes) -> str:
    folders = [workdir] if b"/" in script else path.split(b":")
    full = [os.fsdecode(os.path.join(folder, script.removeprefix(b"./"))) for folder in folders]
    there = [one for one in full if os.path.exists(one)]
    faults = [executable.fault(one) for one in there]
    if "" in faults:
        return ""
    if not there:
        return f"no such program: {os.fsdecode(script)} (--no_python runs an executable file)"
    return f"--no_python {there[0]}: {faults[0]}"


def version_problem(runner: str) -> str:
    """Return the two versions in words when they differ, or ""."""
    if runner == __version__:
        return ""
    return f"dsrun {__version__} is installed here, the runner is {runner}: install the same"


def hello(
    task: Task,
    devices: Devices,
    slots: int,
    port: int | None,
    problems: Sequence[str],
    log_dir: str,
) -> Hello:
    """Return this node's HELLO."""
    return Hello(
        dsrun=__version__,
        hostname=os.uname().nodename,
        machine=machine(),
        python=f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}",
        accelerator=devices.kind,
        devices=devices.visible,
        slots=slots,
        port=port,
        addresses=own_addresses() if task.elastic or task.port is not None else (),
        problems=tuple(problem for problem in problems if problem),
        clock=time.monotonic(),
        log_dir=log_dir,
        pids=(os.getppid(), os.getpid()),
    )


def leftovers() -> list[str]:
    """Return, in words, processes of this user whose node launcher is gone.

    Every worker carries the pid and start time of its node launcher; a process whose launcher is
    no longer that one was left behind by a job whose guard was killed as well.
    """
    from . import processes

    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        owner = _launcher_of(name)
        if owner and processes.started(owner[0]) != owner[1] and _numbered_as_here(name):
            found.append(f"pid {name} of a dsrun job that is over")
    return found


def _numbered_as_here(pid: str) -> bool:
    """Tell whether a process counts pids as this one does; those of containers do not."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def _launcher_of(pid: str) -> tuple[int, int] | None:
    name = b"DSRUN_NODE_LAUNCHER="
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read()
    except OSError:
        return None
    at = environ.find(b"\0" + name)
    if at < 0:
        return None
    launcher, _, start = environ[at + 1 + len(name) :].partition(b"\0")[0].partition(b":")
    return (int(launcher), int(start)) if launcher.isdigit() and start.isdigit() else None


def out_of_memory_kills() -> int:
    """Return how often the kernel has killed for want of memory on this machine since boot."""
    for line in lines_of("/proc/vmstat"):
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return 0


def hint(number: int, kills_before: int) -> str:
    """Say what this machine knows of why a worker died of a signal, "" where that is nothing.

    Args:
        number: the signal's.
        kills_before: `out_of_memory_kills()` at the start.
    """
    kills = out_of_memory_kills() - kills_before if number == signal.SIGKILL else 0
    if kills > 0:
        return f"out of memory: the kernel's OOM killer struck here (oom_kill +{kills})"
    if number == signal.SIGBUS and shared_memory_full():
        return "/dev/shm is full"
    return ""


def shared_memory_full() -> bool:
    """Tell whether /dev/shm has less than 1 % left, the usual cause of a SIGBUS in training."""
    try:
        stat = os.statvfs("/dev/shm")
    except OSError:
        return False
    return stat.f_blocks > 0 and stat.f_bavail * 100 < stat.f_blocks
