"""The requests `program`, `program_input` and `program_stop` of a hold.

They run a program of dsrun on one node, beside the runs there. `features/exec/runner_hold_programs`
sends them. It gets output as chunks, and an event at the end. A program ends when its caller
disconnects.
"""

from __future__ import annotations

from functools import partial

from ...common.errors import LOST, UsageError
from ...common.exit_codes import as_shell
from ...control import frames
from ...head.fleet.commands import CommandEnded, CommandLost, CommandOutput, CommandSpec
from .runner_exec_requests import check_serving, commands_of, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...head.fleet.commands import CommandEvent, RunningCommands
    from ..jobs.runner_server import LocalCaller, Message
    from .runner import Hold

MOST_NUMBER = (1 << 32) - 1


class HeldProgram:
    """A program on one node, for one caller."""

    def __init__(
        self, caller: LocalCaller, number: int, over: Callable[[HeldProgram], None]
    ) -> None:
        """Prepare a program; `over` is called at its end."""
        self.number = number
        self._caller = caller
        self._over = over
        self._running: RunningCommands | None = None

    def start(self, hold: Hold, host: str, spec: CommandSpec) -> None:
        """Start the program on a host.

        Raises:
            UsageError: the host is not held.
            NodeError: the host is lost at present.
        """
        nodes = hold.nodes.connections([host])
        self._running = hold.fleet.commands.run(nodes, spec, self._on_event)

    def feed(self, data: bytes) -> None:
        """Send input; b"" marks its end."""
        if self._running is not None:
            self._running.feed(data)

    def stop(self) -> None:
        """Stop the program."""
        if self._running is not None:
            self._running.stop()

    def _on_event(self, event: CommandEvent) -> None:
        assert self._running is not None
        match event:
            case CommandOutput(_, stream, data):
                body = frames.output_body(self.number, stream, data)
                self._caller.chunk(body, partial(self._running.took, event))
            case CommandEnded(_, code, hint):
                self._finish(as_shell(code), hint)
            case CommandLost(_, reason):
                self._finish(LOST, reason)

    def _finish(self, code: int, why: str) -> None:
        ended = {"event": "program_ended", "program": self.number, "code": code, "why": why}
        self._caller.event(ended)
        self._over(self)


def start(hold: Hold, caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Run a program on a node; the number of the request becomes the program's.

    Raises:
        UsageError: the request is invalid, or the host is not held.
        NodeError: the node is lost at present.
    """
    name, host, number = (request.get(field) for field in ("program", "host", "id"))
    arguments = words_of(request, "arguments")
    if not (isinstance(name, str) and name and isinstance(host, str) and _is_number(number)):
        raise UsageError("invalid request to run a program")
    check_serving(hold)
    commands = commands_of(hold)
    held = HeldProgram(caller, int(number or 0), commands.finish)
    held.start(hold, host, CommandSpec(arguments, stdin=True, program=name))
    commands.add(held, caller)
    return {}


def feed(hold: Hold, caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Send input to a program of the caller; ignore one that has ended."""
    data = request.get("data")
    if not isinstance(data, str):
        raise UsageError("invalid request to send input to a program")
    for program in _named(hold, caller, request):
        program.feed(data.encode("utf-8", "surrogateescape"))
    return {}


def stop(hold: Hold, caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Stop a program of the caller."""
    for program in _named(hold, caller, request):
        program.stop()
    return {}


def _named(hold: Hold, caller: LocalCaller, request: Message) -> list[HeldProgram]:
    running = commands_of(hold).of(caller)
    programs = [one for one in running if isinstance(one, HeldProgram)]
    return [one for one in programs if one.number == request.get("program")]


def _is_number(value: object) -> bool:
    return type(value) is int and 0 < value <= MOST_NUMBER
