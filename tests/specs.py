"""Workers for tests: small programs that start in a few milliseconds."""

from __future__ import annotations

import os
import sys
import textwrap

from dsrun.launcher.node.workers import Spec

PYTHON = os.fsencode(sys.executable)
ENV = {b"PATH": os.environb[b"PATH"], b"A": b"\xff\n"}


def python(text: str, rank: int = 0, **more: object) -> Spec:
    """One worker that runs this Python text; it starts in a few milliseconds."""
    argv = [PYTHON, b"-I", b"-S", b"-c", textwrap.dedent(text).encode()]
    return Spec(rank, argv, ENV, b"/", **more)  # type: ignore[arg-type]


def shell(text: str, rank: int = 0, **more: object) -> Spec:
    """One worker that runs this shell text."""
    return Spec(rank, [b"/bin/sh", b"-c", text.encode()], ENV, b"/", **more)  # type: ignore[arg-type]
