"""All of it is written, in however many parts the kernel takes it."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import closing
from pathlib import Path

import pytest

from dsrun.launcher.common.write_all import write_all


def test_more_than_is_taken_at_once_arrives() -> None:
    """A signal handler that runs meanwhile is why write(2) to a pipe takes only a part."""
    ours, theirs = os.pipe()
    data, got = os.urandom(1 << 20), []
    main = threading.main_thread().ident
    assert main is not None
    signal.signal(signal.SIGUSR1, lambda *_: None)

    def read() -> None:
        while block := os.read(ours, 1 << 12):
            got.append(block)
            signal.pthread_kill(main, signal.SIGUSR1)

    reader = threading.Thread(target=read)
    reader.start()
    write_all(theirs, data)
    os.close(theirs)
    reader.join()
    os.close(ours)
    assert b"".join(got) == data


def test_a_full_disk_is_an_error() -> None:
    with (
        closing(Path("/dev/full").open("wb", buffering=0)) as full,
        pytest.raises(OSError, match="space"),
    ):
        write_all(full.fileno(), b"x")
