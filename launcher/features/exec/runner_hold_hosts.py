"""Runs a command on the nodes of a hold.

The hold sends output as chunks: the host's place in the request (4 bytes), the stream (1), and the
bytes. It reads input from a pipe that comes with the request.
"""

from __future__ import annotations

import os

from ...common.errors import LostError
from ...common.unexpected import unexpected
from ...control import frames
from .runner_events import HostEnded, HostFailed, HostOutput
from .runner_pipes import OutPipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop
    from ...common.unexpected import Log
    from ...control.local_client import ArrivedFrame, LocalClient, Message
    from .runner_events import HostCommand, OnEvent

INVALID = "the hold sent an invalid message"


class HoldHosts:
    """The transport over a hold; see `runner_events.Transport`."""

    def __init__(self, loop: Loop, client: LocalClient, hosts: Sequence[str], log: Log) -> None:
        """Prepare to run a command on these hosts of the hold; `log` prints text and level."""
        self._log = log
        self.hosts = hosts
        self.on_event: OnEvent = _nothing
        self.on_room: Callable[[], None] = _nothing
        self._loop = loop
        self._client = client
        self._left = dict.fromkeys(hosts)
        self._input: OutPipe | None = None

    def start(self, command: HostCommand) -> None:
        """Send the request.

        Raises:
            LostError: the hold has ended.
        """
        request = {
            "do": "exec",
            "argv": command.argv,
            "workdir": command.workdir,
            "hosts": self.hosts,
            "readers": sorted(command.readers),
        }
        if command.readers:
            theirs, ours = os.pipe2(os.O_CLOEXEC)
            self._input = OutPipe(self._loop, ours, self.on_room)
            self._client.send(request, [theirs])
            os.close(theirs)
        else:
            self._client.send(request)
        self._loop.add_reader(self._client.fileno(), self._read)

    def send(self, data: bytes) -> None:
        """Send input to the hosts that read input."""
        if self._input is not None and data:
            self._input.send(data)
        elif self._input is not None:
            self._input.finish()

    def backlog(self) -> int:
        """Return the number of bytes of input that the hold has not read."""
        return self._input.backlog if self._input is not None else 0

    def pause(self, paused: bool) -> None:
        """Pause or resume reading from the hold."""
        if paused:
            self._loop.remove(self._client.fileno())
        elif self._left:
            self._loop.add_reader(self._client.fileno(), self._read)

    def stop(self) -> None:
        """Make the hold end the command; its end on each host is reported as usual."""
        try:
            self._client.send({"do": "exec_stop"})
        except LostError as error:
            self._lose(str(error))

    def close(self) -> None:
        """Close the connection, which ends the command."""
        self._loop.remove(self._client.fileno())
        if self._input is not None:
            self._input.close()
        self._client.close()

    def _read(self) -> None:
        try:
            arrived = self._client.receive()
        except LostError as error:
            self._lose(str(error))
            return
        if arrived is None:
            self._lose("the hold has ended")
            return
        for one in arrived:
            self._take(one)

    def _take(self, one: ArrivedFrame) -> None:
        """Handle a frame of the hold; a boundary: errors end only this command."""
        try:
            if one.kind == frames.CHUNK:
                self._on_chunk(one.data)
            else:
                self._on_message(one.message)
        except frames.BadFrame:
            self._lose(INVALID)
        except Exception as error:
            self._lose(f"{INVALID} ({unexpected(error, self._log)})")

    def _on_chunk(self, body: bytes) -> None:
        place, stream, data = frames.unpack_output(body)
        if place >= len(self.hosts):
            raise frames.BadFrame(INVALID)
        self.on_event(HostOutput(self.hosts[place], stream, data))

    def _on_message(self, message: Message) -> None:
        host = message.get("host")
        if isinstance(host, str) and host not in self.hosts:
            raise frames.BadFrame(INVALID)
        match message:
            case {"event": "ended", "host": str(host), "code": int(code)}:
                self._left.pop(host, None)
                self.on_event(HostEnded(host, code))
            case {"event": "failed", "host": str(host), "cause": str(cause), "began": bool(began)}:
                self._left.pop(host, None)
                self.on_event(HostFailed(host, cause, began))
            case {"ok": False, "error": str(error)}:
                self._fail(error, began=False)

    def _lose(self, cause: str) -> None:
        self._loop.remove(self._client.fileno())
        self._fail(cause, began=True)

    def _fail(self, cause: str, *, began: bool) -> None:
        for host in tuple(self._left):
            del self._left[host]
            self.on_event(HostFailed(host, cause, began))


def _nothing(*_: object) -> None:
    """Do nothing."""
