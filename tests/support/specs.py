"""Workers for tests: small programs that start in a few milliseconds."""

from __future__ import annotations

import os
import sys
import textwrap

from dsrun.launcher.node.workers.spawn import WorkerSpec

PYTHON = os.fsencode(sys.executable)
ENV = {b"PATH": os.environb[b"PATH"], b"A": b"\xff\n"}


def python(text: str, rank: int = 0, **more: object) -> WorkerSpec:
    """One worker that runs this Python text; it starts in a few milliseconds."""
    argv = [PYTHON, b"-I", b"-S", b"-c", textwrap.dedent(text).encode()]
    return WorkerSpec(rank, argv, ENV, b"/", **more)  # type: ignore[arg-type]


def shell(text: str, rank: int = 0, **more: object) -> WorkerSpec:
    """One worker that runs this shell text."""
    return WorkerSpec(rank, [b"/bin/sh", b"-c", text.encode()], ENV, b"/", **more)  # type: ignore[arg-type]


BOMB_LASTS = 600.0
"""Seconds after which a fork bomb ends by itself: long after a test has given up."""

BOMB = """
import fcntl, os, random, signal, time
last, seats, mine, misses = time.monotonic() + {lasts}, {seats}, -1, 0
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while time.monotonic() < last:
    seat = os.open(f"{folder}/{{random.randrange(seats)}}", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(seat, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        misses += 1
        if misses == 99 and not os.path.exists("{folder}/full"):
            os.close(os.open("{folder}/full", os.O_CREAT))
            os.write(1, b"full\\n")
    else:
        misses = 0
        if os.fork() == 0:
            mine, seat = seat, mine
            os.setsid()
    if seat >= 0:
        os.close(seat)
"""
"""Forks for ever, and nothing else; as many live at a time as there are seats.

A seat is a locked file. The kernel frees it when its process dies, so whoever is killed alone makes
room for another. It says "full" once there is none.
"""


def bomb(folder: object, seats: int) -> str:
    """Return the text of a fork bomb that keeps to so many processes."""
    return BOMB.format(folder=folder, seats=seats, lasts=BOMB_LASTS)
