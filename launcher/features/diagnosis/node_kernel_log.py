"""The kernel's own messages since a moment, from /dev/kmsg (Documentation/ABI/testing/dev-kmsg)."""

from __future__ import annotations

import os

from ...common import system

PATH = "/dev/kmsg"

MOST = 10_000
"""Records read at a time, more than the kernel keeps by default. A thousand take a millisecond, and
most nodes have none."""

ABOUT = (b"Killed process", b"oom-kill:", b"memory: usage", b"Xid", b"segfault", b"traps: ")
"""Texts in the messages that matter."""

RECORD = 8192
"""Bytes of the largest record."""


class KernelLog:
    """Reads kernel messages from its creation on; none if that is not permitted."""

    def __init__(self, path: str = PATH) -> None:
        self._fd = -1
        try:
            self._fd = system.open_fd(
                path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            )
            system.lseek(self._fd, 0, os.SEEK_END)
        except OSError:  # no such device, one that is a console, or only root may read it
            self.close()

    @property
    def readable(self) -> bool:
        """True if the kernel's messages can be read here."""
        return self._fd >= 0

    def read(self) -> list[str]:
        """Return new kernel messages that may explain an end."""
        found = []
        for _ in range(MOST if self._fd >= 0 else 0):
            try:
                record = system.read(self._fd, RECORD)
            except BrokenPipeError:
                continue  # older ones have been overwritten
            except OSError:  # the end
                break
            if any(word in record for word in ABOUT):
                found.append(record)
        return [text for record in found if (text := message(record))]

    def close(self) -> None:
        """Stop reading."""
        if self._fd >= 0:
            system.close(self._fd)
            self._fd = -1


def message(record: bytes) -> str:
    """Return the text of a record, "" if it comes from a program. Pure."""
    head, _, rest = record.decode("utf-8", "replace").partition(";")
    priority = head.partition(",")[0]
    kernels = len(priority) == 1 and priority in "01234567"  # facility 0 (syslog(2))
    return rest.partition("\n")[0] if kernels else ""
