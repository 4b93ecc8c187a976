"""torch's agent as a test plays it: the process is real, and does nothing but hand over its lines.

The test says what the agent and its shims say, and reads what they are told.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

from dsrun.launcher import __version__
from dsrun.launcher.control import messages
from dsrun.launcher.specs.program import Program

from .limits import HANG
from .tasks import task_of

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = f"""#!{sys.executable} -IS
import os, signal, socket, sys
print("printed", flush=True)
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["FAKE_AGENT"])
socket.send_fds(line, [sys.argv[-1].encode()], [0])
signal.pause()
"""


class Shim:
    """What torch starts in a worker's place."""

    def __init__(self, entry: socket.socket, environment: dict[str, str]) -> None:
        self._line, theirs = socket.socketpair()
        self._line.setblocking(False)
        with theirs:
            socket.send_fds(entry, [json.dumps(environment).encode()], [theirs.fileno()])

    def gets(self, number: int) -> None:
        """Pass on a signal that it got."""
        self._line.send(bytes([number]))

    def dies(self) -> None:
        """End without a word, as with SIGKILL."""
        self._line.close()

    @property
    def code(self) -> int | None:
        """How it was told to end, None where it was not."""
        try:
            told = self._line.recv(4, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        return int.from_bytes(told, "big", signed=True) if told else None

    def close(self) -> None:
        self._line.close()


class Agent:
    """One agent that was started.

    Attributes:
        settings: what it was started with.
    """

    def __init__(self, entry: socket.socket, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.shims: list[Shim] = []
        self._entry = entry
        self._line, theirs = socket.socketpair()
        self._line.setblocking(False)
        with theirs:
            socket.send_fds(entry, [b'{"agent": true}'], [theirs.fileno()])

    def says(self, **message: object) -> None:
        """Send a message to the node launcher."""
        self._line.send(json.dumps(message).encode() + b"\n")

    def requests(self, *locals_: int, **environment: str) -> list[Shim]:
        """Start shims for workers; returns them."""
        found = [Shim(self._entry, {"LOCAL_RANK": f"{one}", **environment}) for one in locals_]
        self.shims += found
        return found

    def leaves(self, **left: object) -> None:
        """End, having said why, if there is more than nothing to say."""
        self.says(ended=left or None)
        self._line.close()

    def dies(self) -> None:
        """End without a word."""
        self._line.close()

    def told(self) -> list[dict[str, Any]]:
        """What the node launcher has told it since the last time."""
        try:
            data = self._line.recv(65536)
        except (BlockingIOError, ConnectionError):
            return []
        return [json.loads(line) for line in data.splitlines()]

    def close(self) -> None:
        self._entry.close()
        self._line.close()
        for shim in self.shims:
            shim.close()


class FakeAgents:
    """Where the agents of a test are found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "agent"
        self.python.write_text(PROGRAM)
        self.python.chmod(0o755)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(HANG)
        self._listener.bind(str(folder / "line"))
        self._listener.listen()
        self._agents: list[Agent] = []

    def task(self, **fields: Any) -> messages.NodeJob:
        """Return an elastic task whose python is an agent's."""
        usual: dict[str, Any] = {
            "dsrun": __version__,
            "job_id": "j",
            "host": "n0",
            "program": Program("/bin/true", no_python=True, python=str(self.python)),
            "workdir": str(self.folder),
            "env": {"DSRUN_ACCELERATOR": "cpu", "FAKE_AGENT": str(self.folder / "line")},
            "slots": (0, 1),
            "port": None,
            "lease": 1e6,
            "elastic": True,
            "torch_agent": True,
        }
        return task_of(**usual | fields)

    def accept(self) -> Agent:
        """Wait for the next agent to have started."""
        line, _ = self._listener.accept()
        with line:
            line.settimeout(HANG)
            settings, fds, _, _ = socket.recv_fds(line, 65536, 1)
        agent = Agent(socket.socket(fileno=fds[0]), json.loads(settings))
        self._agents.append(agent)
        return agent

    def close(self) -> None:
        """Close all lines; the processes are their owner's."""
        for agent in self._agents:
            agent.close()
        self._listener.close()


def waited(pid: int) -> int:
    """Return how a child has ended, which it does soon."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
