"""A port that does not answer, for tests of who waits for it."""

from __future__ import annotations

import socket
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that does not answer: its queue is full."""
    with ExitStack() as opened:
        full = opened.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port: int = full.getsockname()[1]
        for _ in range(4):
            caller = opened.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(("127.0.0.1", port))
        yield port
