"""Other files in place of this process's standard output and error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def streams(out: int, err: int) -> Iterator[None]:
    """Let these descriptors be the standard output and error of this process meanwhile."""
    saved = os.dup(1), os.dup(2)
    os.dup2(out, 1), os.dup2(err, 2)
    try:
        yield
    finally:
        for fd, old in zip((1, 2), saved, strict=True):
            os.dup2(old, fd)
            os.close(old)
