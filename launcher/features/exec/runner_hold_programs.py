"""Runs programs of dsrun on the nodes of a hold; see `runner_programs.NodePrograms`.

Each program on each host is a request. The hold sends output as chunks: the number of the request
(4 bytes), the stream (1), and the bytes.
"""

from __future__ import annotations

from ...common.errors import LOST, LostError
from ...control import frames
from .runner_programs import ProgramOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...common.loop import Loop
    from ...control.local_client import LocalClient, Message
    from .runner_programs import OnEnd, OnLine


class HoldPrograms:
    """The programs on some hosts of a hold."""

    def __init__(self, loop: Loop, client: LocalClient, names: Sequence[str]) -> None:
        """Use these hosts of the hold that a client is connected to."""
        self.names = names
        self.loop = loop
        self._client = client
        self._outputs: dict[int, ProgramOutput] = {}
        self._lost = False
        self._refused = 0
        loop.add_reader(client.fileno(), self._read)

    def start(
        self, program: str, arguments: Mapping[str, Sequence[str]], on_line: OnLine, on_end: OnEnd
    ) -> HoldProgram:
        """Start a program on some of the hosts."""
        numbers = {}
        for host, words in arguments.items():
            request = {"do": "program", "program": program, "host": host, "arguments": [*words]}
            number = self.ask(request)
            numbers[host] = number
            self._outputs[number] = ProgramOutput(host, on_line, on_end)
        return HoldProgram(self, numbers)

    def close(self) -> None:
        """Close the connection, which ends all programs."""
        self.loop.remove(self._client.fileno())
        self._client.close()

    def ask(self, request: Message) -> int:
        """Send a request; return its number. A hold that has disconnected does not answer."""
        cause = "the hold has ended"
        if not self._lost:
            try:
                return self._client.send(request)
            except LostError as error:
                cause = str(error)
        self._lost = True
        self._refused -= 1
        self.loop.call_later(0.0, lambda: self._lose(cause))
        return self._refused

    def _read(self) -> None:
        try:
            arrived = self._client.receive()
            if arrived is None:
                raise LostError("the hold has ended")
            for one in arrived:
                if one.kind == frames.CHUNK:
                    self._on_chunk(*frames.unpack_output(one.data))
                else:
                    self._on_message(one.message)
        except frames.BadFrame:
            self._lose("the hold sent an invalid message")
        except LostError as error:
            self._lose(str(error))

    def _on_chunk(self, number: int, stream: int, data: bytes) -> None:
        output = self._outputs.get(number)
        if output is not None and not output.add(stream, data):
            self.ask({"do": "program_stop", "program": number})

    def _on_message(self, message: Message) -> None:
        match message:
            case {"event": "program_ended", "program": int(number), "code": int(code), "why": why}:
                self._finish(number, code, str(why))
            case {"ok": False, "id": int(number), "error": str(error)}:
                self._finish(number, LOST, error)

    def _finish(self, number: int, code: int, why: str) -> None:
        output = self._outputs.pop(number, None)
        if output is not None:
            output.finish(code, why)

    def _lose(self, cause: str) -> None:
        self._lost = True
        self.loop.remove(self._client.fileno())
        for number in tuple(self._outputs):
            self._finish(number, LOST, cause)


class HoldProgram:
    """A program on some hosts, with a request for each."""

    def __init__(self, programs: HoldPrograms, numbers: Mapping[str, int]) -> None:
        self._programs = programs
        self._numbers = numbers

    def send(self, host: str, line: bytes) -> None:
        """Send a line to its input on a host; b"" ends the input."""
        data = line.decode("utf-8", "surrogateescape")
        number = self._numbers[host]
        self._programs.ask({"do": "program_input", "program": number, "data": data})

    def stop(self) -> None:
        """Stop the program on all hosts."""
        for number in self._numbers.values():
            self._programs.ask({"do": "program_stop", "program": number})
