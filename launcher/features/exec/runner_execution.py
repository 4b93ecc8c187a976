"""Runs one command on all hosts of a transport, from its start to the last host's end."""

from __future__ import annotations

import signal

from ...common.errors import LOST, NODE_UNUSABLE, OUTPUT, reason
from ...common.records import NamedTuple
from ...head.fleet.hosts import waiting_line
from .runner_events import HostEnded, HostFailed, HostNote, HostOutput
from .runner_results import TIMED_OUT, HostResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from ...common.loop import Loop
    from ...head.output.console import Console
    from .runner_events import HostCommand, HostEvent, Transport
    from .runner_input_broadcast import InputBroadcast

    class Receiver(Protocol):
        """Receives the output of one stream of one host."""

        def add(self, data: bytes) -> None:
            """Take a block."""
            ...


STOP = 5.0
"""Seconds for the hosts to end a stopped command."""

STATUS = 1.0
"""Seconds between two updates of the line about awaited hosts."""

UNENDED = "it did not confirm that the command ended"
"""The cause for hosts that did not answer in time."""


class StopCause(NamedTuple):
    """The cause of a stop, and the exit code of hosts where the command still ran."""

    cause: str
    code: int


class Execution:
    """One command on all hosts.

    Attributes:
        transport: reaches the hosts.
        console: prints notes, and the awaited hosts.
        results: the result of each host, in order.
        signal: the signal that ended it, 0 for none.
    """

    def __init__(
        self,
        loop: Loop,
        transport: Transport,
        console: Console,
        make_input: Callable[[Loop, Transport], InputBroadcast] | None = None,
        limit: float = 0.0,
    ) -> None:
        """Prepare to run a command.

        Args:
            loop: the loop for the command.
            transport: reaches the hosts.
            console: prints notes, and the awaited hosts.
            make_input: makes the source of input for the hosts that read input.
            limit: seconds after which the command is ended; 0 for none.
        """
        self._loop = loop
        self.transport = transport
        self.console = console
        self._input = make_input(loop, transport) if make_input else None
        self._limit = limit
        self._stop: StopCause | None = None
        self.signal = 0
        self.results = {host: HostResult(host) for host in transport.hosts}
        self._waiting = dict.fromkeys(self.results)
        self._receivers: dict[tuple[str, int], Receiver] = {
            (host, stream): output
            for host, result in self.results.items()
            for stream, output in result.outputs.items()
        }
        transport.on_event = self._on_event
        transport.on_room = self._pump

    def receive(self, receivers: Mapping[tuple[str, int], Receiver]) -> None:
        """Send the output of these hosts and streams to receivers instead of the results."""
        self._receivers |= receivers

    def run(self, command: HostCommand) -> None:
        """Run the command; return when all hosts have ended.

        Raises:
            DsrunError: the transport cannot start the command, or its input cannot be read.
        """
        try:
            self.transport.start(command)
            if self._limit:
                self._loop.call_later(self._limit, self._on_limit)
            self._loop.call_later(STATUS, self._show_status)
            self._pump()
            self._wait()
        except BaseException:
            self.stop(StopCause("stopped because of an error here", LOST))
            self._wait()
            raise
        finally:
            self.transport.close()
            self.console.status("")

    def on_signal(self, number: int) -> None:
        """Stop the command on all hosts; a second signal does not wait for them."""
        self.signal = self.signal or number
        if self._stop is not None:
            self._cancel()
        else:
            self.stop(StopCause(f"stopped by {signal.Signals(number).name}", 128 + number))

    def stop(self, why: StopCause) -> None:
        """End the command wherever it still runs."""
        if self._stop is not None:
            return
        self._stop = why
        if self._input is not None:
            self._input.close()
        self.transport.stop()
        self._loop.call_later(STOP, self._cancel)

    def _wait(self) -> None:
        if self._waiting:
            self._loop.run()

    def _cancel(self) -> None:
        for host in tuple(self._waiting):
            self.results[host].fail(UNENDED, LOST)
            self._done(self.results[host])

    def _on_limit(self) -> None:
        self.stop(StopCause(f"stopped after --timeout {self._limit:g} s", TIMED_OUT))

    def _pump(self) -> None:
        if self._input is not None and self._stop is None:
            self._input.pump()

    def _show_status(self) -> None:
        if self._waiting:
            line = waiting_line(len(self.results), list(self._waiting))
            self.console.status(f"dsrun: {line}")
            self._loop.call_later(STATUS, self._show_status)

    # -- events of the transport ------------------------------------------------------------

    def _on_event(self, event: HostEvent) -> None:
        match event:
            case HostOutput(host, stream, data):
                self._receive(host, stream, data)
            case HostEnded(host, code):
                self._on_end(self.results[host], code)
            case HostFailed(host, cause, began):
                self._fail(self.results[host], cause, LOST if began else NODE_UNUSABLE)
            case HostNote(host, text):
                self.console.log(f"{host}: {text}", "warning")

    def _receive(self, host: str, stream: int, data: bytes) -> None:
        if self._stop is not None and self._stop.code == OUTPUT:
            return
        try:
            self._receivers[host, stream].add(data)
        except OSError as error:
            self.stop(StopCause(f"its output cannot be stored: {reason(error)}", OUTPUT))

    def _on_end(self, result: HostResult, code: int) -> None:
        if self._stop is not None:
            self._fail(result, *self._stop)
            return
        result.code = code
        self._done(result)

    def _fail(self, result: HostResult, cause: str, code: int) -> None:
        result.fail(*(self._stop or (cause, code)))
        self._done(result)

    def _done(self, result: HostResult) -> None:
        self._waiting.pop(result.host, None)
        if not self._waiting:
            self._loop.stop()
