"""An editor, as far as a test needs one: it speaks the Debug Adapter Protocol over a socket.

https://microsoft.github.io/debug-adapter-protocol/specification
"""

from __future__ import annotations

import json
import socket
from typing import Any

from .limits import HANG


class Editor:
    """A connection to a debug adapter."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._input = line.makefile("rb")
        self._number = 0
        line.settimeout(HANG)

    @classmethod
    def at(cls, port: int) -> Editor:
        """Connect to a port of this machine."""
        return cls(socket.create_connection(("127.0.0.1", port)))

    def close(self) -> None:
        """Leave without a word."""
        self._input.close()
        self._line.close()

    def leave(self) -> None:
        """Leave without a word to an adapter that dsrun reads until it has ended."""
        self._line.shutdown(socket.SHUT_WR)

    def read(self) -> dict[str, Any]:
        """Return the next message; EOFError if there is none any more."""
        size = 0
        while (line := self._input.readline()) != b"\r\n":
            if not line:
                raise EOFError
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        message: dict[str, Any] = json.loads(self._input.read(size))
        return message

    def until(self, **fields: object) -> dict[str, Any]:
        """Read until a message has these fields; return its body."""
        while True:
            message = self.read()
            if all(message.get(name) == value for name, value in fields.items()):
                assert message.get("success", True), message
                return message.get("body") or {}

    def send(self, command: str, **arguments: object) -> int:
        """Send a request; return its number."""
        self._number += 1
        request = {"seq": self._number, "type": "request", "command": command}
        body = json.dumps({**request, "arguments": arguments}).encode()
        self._line.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        return self._number

    def ask(self, command: str, **arguments: object) -> dict[str, Any]:
        """Send a request; return the body of its answer."""
        return self.until(request_seq=self.send(command, **arguments))

    def attach(self, path: str, *lines: int, **configuration: object) -> None:
        """Do what an editor does first: set breakpoints in a file, and let the program begin."""
        self.ask("initialize", adapterID="debugpy", clientID="test")
        self.send("attach", **{"connect": {"host": "127.0.0.1", "port": 1}} | configuration)
        self.until(event="initialized")
        breakpoints = [{"line": line} for line in lines]
        self.ask("setBreakpoints", source={"path": path}, breakpoints=breakpoints)
        self.ask("configurationDone")

    def stopped(self) -> tuple[int, dict[str, Any]]:
        """Wait for a breakpoint; return the thread, and its newest frame."""
        thread = self.until(event="stopped")["threadId"]
        return thread, self.ask("stackTrace", threadId=thread)["stackFrames"][0]

    def locals(self, frame: dict[str, Any]) -> dict[str, str]:
        """Return the local variables of a frame as text."""
        scope = self.ask("scopes", frameId=frame["id"])["scopes"][0]
        reference = scope["variablesReference"]
        found = self.ask("variables", variablesReference=reference)["variables"]
        return {one["name"]: one["value"] for one in found}
