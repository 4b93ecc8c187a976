"""What is read of the kernel's messages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsrun.launcher.features.diagnosis.node_kernel_log import KernelLog

KMSG = Path("/dev/kmsg")


def test_nothing_can_be_read_where_it_is_not_allowed(tmp_path: Path) -> None:
    log = KernelLog(str(tmp_path / "none"))
    assert not log.readable
    assert log.read() == []
    log.close()


@pytest.mark.skipif(not os.access(KMSG, os.W_OK), reason="needs root and /dev/kmsg")
def test_what_programs_have_written_does_not_count() -> None:
    log = KernelLog()
    forged = f"Out of memory: Killed process {os.getpid()} (forged)"
    with KMSG.open("w") as file:
        file.write(f"{forged}\n")
    assert forged not in "".join(log.read())
    log.close()
    assert not log.readable


def test_messages_of_the_kernel_that_matter(tmp_path: Path) -> None:
    """A pipe in packet mode gives a record at a time, as the device does."""
    ours, theirs = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)
    log = KernelLog(str(tmp_path / "none"))
    log._fd = ours
    for text in (
        b"6,1,100,-;port284: entered promiscuous mode\n",
        b"4,2,101,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n SUBSYSTEM=pci\n",
        b"12,3,102,-;Xid that a program has written\n",
        b"garbage about a segfault",
    ):
        os.write(theirs, text)
    assert log.read() == ["NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."]
    assert log.read() == []
    os.close(theirs)
    log.close()
