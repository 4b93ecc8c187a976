"""A hold that a test plays: it takes requests as a real one, and runs nothing."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dsrun.launcher import __version__
from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.control import local
from dsrun.launcher.specs import codec
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.job import JobSpec

from .checkout import BIN, IMPORTABLE
from .local_control import Served, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dsrun.launcher.features.jobs.runner_server import LocalCaller


class FakeHold:
    """What a client has asked, and how it is answered.

    Attributes:
        requests: every request to run a job: (spec, request, descriptors).
        signals: every signal that was forwarded.
        gone: an item for each client that has left.
    """

    def __init__(self) -> None:
        self.served: Served
        self.requests: queue.Queue[tuple[JobSpec, dict[str, Any], list[int]]] = queue.Queue()
        self.signals: queue.Queue[int] = queue.Queue()
        self.gone: queue.Queue[bool] = queue.Queue()
        self.refusal = ""
        self.version = __version__
        self.starting = False
        self._streams: list[int] = []
        self._caller: LocalCaller
        self._request: dict[str, Any]

    @property
    def name(self) -> str:
        return self.served.name

    def verbs(self) -> dict[str, Any]:
        return {
            "describe": self.describe,
            "status": self.describe,
            "run": self.run,
            "signal": self.signal,
        }

    def describe(self, caller: LocalCaller, request: dict[str, Any], _: object) -> Any:
        if not self.starting:
            return self.description()
        self._caller, self._request = caller, request
        return None

    def ready(self) -> None:
        """Describe the nodes to the client that waits for it."""
        self.do(lambda: self._caller.answer(self.description(), self._request))

    def description(self) -> dict[str, Any]:
        """Two slots on this machine, and a host that is lost."""
        here = {"name": "localhost", "slots": [0, 1], "state": "free", "reason": ""}
        lost = {"name": "n2", "slots": [0], "state": "lost", "reason": "no route"}
        return {
            "name": self.name,
            "version": self.version,
            "since": 1.0,
            "launcher": "ssh",
            "hosts": [here, lost],
            "settings": codec.encode(BackendSettings()),
        }

    def run(self, caller: LocalCaller, request: dict[str, Any], fds: list[int]) -> None:
        if self.refusal:
            raise NodeError(self.refusal)
        self._caller, self._request = caller, request
        caller.on_close.append(lambda: self.gone.put(True))
        self._streams += fds
        self.requests.put((codec.decode(JobSpec, request["spec"]), request, list(fds)))

    def signal(self, _: LocalCaller, request: dict[str, Any], __: list[int]) -> dict[str, Any]:
        self.signals.put(request["number"])
        return {}

    def let_go(self) -> None:
        """Close the client's streams, as at the end of a job."""
        streams, self._streams = self._streams, []
        for fd in streams:
            os.close(fd)

    def end(self, code: int, **report: object) -> None:
        """Answer the last request: the job has ended."""
        self.let_go()
        answer = {"code": code, "report": {"exit_code": code, **report}}
        self.do(lambda: self._caller.answer(answer, self._request))

    def die(self) -> None:
        """End as a hold does that is killed."""
        self.let_go()
        self.do(self.served.server.close)

    def do(self, call: Any) -> None:
        self.served.loop.call_soon_threadsafe(call)

    def start(self, *words: str, folder: Path, **more: Any) -> subprocess.Popen[bytes]:
        """Start `dsrun --on` this hold."""
        environ = {name: value for name, value in os.environ.items() if "DSRUN" not in name}
        argv = [sys.executable, str(BIN / "dsrun"), f"--on={self.name}", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen(argv, cwd=folder, env={**environ, **IMPORTABLE}, **pipes)


@contextmanager
def playing() -> Iterator[FakeHold]:
    """Play a hold."""
    hold = FakeHold()
    with serving(hold.verbs(), local.HOLD) as hold.served:
        yield hold
