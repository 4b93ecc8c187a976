"""The place where the kernel has put the memory of a crashed process (core(5))."""

from __future__ import annotations

import os
import re

from ...common import system
from ...common.network import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_HANDLERS = {
    "systemd-coredump": "coredumpctl dump {pid}",
    "apport": "/var/crash",
    "abrt-hook-ccpp": "abrt list",
}
"""The folders of programs that the kernel hands dumps to."""


def place(pid: int, number: int, workdir: str, root: str = "/") -> str:
    """Return the path of a process's core dump, with `*` for unknown parts.

    It is "" if the kernel's setting cannot be read, or names nothing.

    Args:
        pid: the process, which has dumped its memory (WCOREDUMP).
        number: the signal that has ended the process.
        workdir: the working folder of the process.
        root: the folder that contains /proc.
    """
    pattern = _line(f"{root}proc/sys/kernel/core_pattern")
    if pattern.startswith("|"):
        program = os.path.basename((pattern[1:].split() or [""])[0])
        return _HANDLERS.get(program, f"given to {program}").replace("{pid}", f"{pid}")
    if pattern.startswith("@"):
        return f"given to the program at {pattern.lstrip('@')}"
    if not pattern:
        return ""
    values = {"p": pid, "i": pid, "s": number, "h": system.uname().nodename, "%": "%"}
    values |= {"u": system.getuid(), "g": system.getgid()}
    name = _expanded(pattern, {key: f"{value}" for key, value in values.items()})
    with_pid = _line(f"{root}proc/sys/kernel/core_uses_pid") == "1" and "%p" not in pattern
    return os.path.join(workdir, f"{name}.{pid}" if with_pid else name)


def _expanded(pattern: str, values: Mapping[str, str]) -> str:
    return re.sub(r"%(.?)", lambda one: values.get(one[1], "*") if one[1] else "", pattern)


def _line(path: str) -> str:
    return next(iter(lines_of(path)), "")
