"""One run on a node as a test plays it: no session, no line, real workers."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames
from dsrun.launcher.node.checks.file_checks import check
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.run.run import NodeRun
from dsrun.launcher.node.run.run_state import NodeRunPhase

from .fake_nodes import NAMES
from .limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.control.messages import NodeJob

PATIENCE = HANG
"""Real seconds after which what does not come is given up."""


def run_until(loop: Loop, condition: Callable[[], bool], progress: Callable[[], object]) -> None:
    """Run a loop until a condition holds; if it is late, `progress` says how far it has come."""
    late = time.monotonic() + PATIENCE

    def look() -> None:
        assert time.monotonic() < late, f"late: {progress()}"
        if condition():
            loop.stop()
        else:
            loop.call_later(0.001, look)

    loop.call_later(0.0, look)
    loop.run()


class Played:
    """A run, and the frames that have come of it; time is real, but that some may be skipped."""

    def __init__(self, task: NodeJob) -> None:
        self.received: list[tuple[int, bytes]] = []
        self.ends = 0
        self._skipped = 0.0
        self.loop = Loop(lambda: time.monotonic() + self._skipped)
        self.run = NodeRun(self.loop, task, self._send, self._ended, check(task))
        self.loop.on_signals([signal.SIGCHLD], lambda _: self.run.on_reaped(processes.reap()))

    def _send(self, frame: bytes) -> None:
        self.received += frames.Decoder().feed(frame)

    def _ended(self) -> None:
        self.ends += 1

    def until(self, condition: Callable[[], bool]) -> None:
        """Run the loop until this holds."""
        run_until(self.loop, condition, self.names)

    def skip(self, seconds: float) -> None:
        """Let what is ready happen, then so much time pass, and what is due by then happen."""
        for more in (0.0, seconds, 0.0):
            self._skipped += more
            self.loop.call_later(0.0, self.loop.stop)
            self.loop.run()

    def done(self) -> dict[str, Any]:
        """Run until DONE; returns it."""
        self.until(lambda: self.ends > 0)
        assert (self.names()[-1], self.ends, self.run.phase) == ("DONE", 1, NodeRunPhase.ENDED)
        return self.all(frames.DONE)[0]

    def prints(self, text: str) -> None:
        """Run until the workers have printed this."""
        self.until(lambda: text in self.output())

    def output(self) -> str:
        """What the workers have printed."""
        found = [frames.unpack_output(body)[2] for kind, body in self.received if kind == 35]
        return b"".join(found).decode()

    def names(self) -> list[str]:
        """The frames by name, without output, which may be in pieces."""
        return [NAMES[kind] for kind, _ in self.received if kind != frames.OUTPUT]

    def all(self, kind: int) -> list[dict[str, Any]]:
        """The messages of this kind."""
        return [json.loads(body) for one, body in self.received if one == kind]

    def exits(self) -> list[tuple[int, int, bool]]:
        """(rank, code, signalled) of every EXIT."""
        return [(one["rank"], one["code"], one["signalled"]) for one in self.all(frames.EXIT)]

    def notes(self) -> list[tuple[str, int]]:
        """(text, signal) of every NOTE."""
        return [(one["text"], one["signal"]) for one in self.all(frames.NOTE)]

    def pids(self) -> list[int]:
        """The pids of the workers that were started last."""
        found: list[int] = self.all(frames.STARTED)[-1]["pids"]
        return found
