"""The request `exec` of a hold: a command on some nodes, beside the runs there.

`dsrun-exec` sends the request (`features/exec/runner_hold_hosts`). It gets output as chunks, and an
event for the end on each node. The command ends when its caller disconnects.
"""

from __future__ import annotations

from ...common.errors import UsageError
from ...control import frames
from ...head.fleet.commands import WINDOW, FleetCommands
from ..exec.runner_events import HostCommand, HostEnded, HostFailed, HostOutput
from ..exec.runner_node_commands import NodeCommands
from ..exec.runner_pipes import InPipe
from .runner import HoldPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..exec.runner_events import HostEvent
    from ..jobs.runner_server import LocalCaller, Message
    from .runner import Hold
    from .runner_program_requests import HeldProgram

MOST_WORDS = 100_000
"""Maximum number of words, or of hosts, in one request."""


class HeldCommands:
    """The commands that run on the nodes of a hold."""

    def __init__(self, hold: Hold) -> None:
        self._running: dict[HeldCommand | HeldProgram, LocalCaller] = {}
        self._hold = hold

    def start(self, caller: LocalCaller, command: HostCommand, hosts: list[str], fd: int) -> None:
        """Start a command for a caller; `fd` is the command's input, -1 for none."""
        held = HeldCommand(self._hold, caller, hosts, self.finish)
        self.add(held, caller)
        held.start(self._hold.fleet.commands, command, fd)

    def add(self, held: HeldCommand | HeldProgram, caller: LocalCaller) -> None:
        """Register a command or program, and stop it when its caller disconnects."""
        self._running[held] = caller
        self._hold.enter()
        caller.on_close.append(held.stop)

    def of(self, caller: LocalCaller) -> list[HeldCommand | HeldProgram]:
        """Return the commands and programs of a caller."""
        return [held for held, its_caller in self._running.items() if its_caller is caller]

    def stop(self, caller: LocalCaller | None = None) -> None:
        """Stop the commands and programs of a caller, or of all callers."""
        for held in tuple(self._running) if caller is None else self.of(caller):
            held.stop()

    def finish(self, held: HeldCommand | HeldProgram) -> None:
        """Unregister a command or program that has ended."""
        del self._running[held]
        self._hold.release()


class HeldCommand:
    """A command of one caller."""

    def __init__(
        self,
        hold: Hold,
        caller: LocalCaller,
        hosts: list[str],
        on_over: Callable[[HeldCommand], None],
    ) -> None:
        """Prepare a command; `on_over` is called when it has ended on all hosts."""
        self._hold = hold
        self._caller = caller
        self._places = {host: place for place, host in enumerate(hosts)}
        self._left = dict.fromkeys(hosts)
        self._on_over = on_over
        self._commands: NodeCommands | None = None
        self._input: InPipe | None = None

    def start(self, fleet_commands: FleetCommands, command: HostCommand, fd: int) -> None:
        """Start the command; report hosts that are lost at present as failed."""
        self._commands = NodeCommands(fleet_commands, self._on_event, self._pump)
        if fd >= 0:
            self._input = InPipe(self._hold.loop, fd, self._on_input, lambda: self._on_input(b""))
        lost = {host: why for host in self._places if (why := self._hold.nodes.lost(host))}
        here = [host for host in self._places if host not in lost]
        self._commands.start(self._hold.nodes.connections(here), command)
        for host, why in lost.items():
            self._on_event(HostFailed(host, why, began=False), _nothing)

    def stop(self) -> None:
        """Stop the command on all hosts."""
        if self._commands is not None:
            self._commands.stop()

    def _on_input(self, data: bytes) -> None:
        if self._commands is not None:
            self._commands.send(data)
            self._pump()

    def _pump(self) -> None:
        """Pause the input while the slowest host has too much unread."""
        if self._input is not None and self._commands is not None and self._input.open:
            self._input.pause(self._commands.unread >= WINDOW)

    def _on_event(self, event: HostEvent, taken: Callable[[], None]) -> None:
        match event:
            case HostOutput(host, stream, data):
                self._caller.chunk(frames.output_body(self._places[host], stream, data), taken)
            case HostEnded(host, code):
                self._on_host_end(host, {"event": "ended", "host": host, "code": code})
            case HostFailed(host, cause, began):
                failed = {"event": "failed", "host": host, "cause": cause, "began": began}
                self._on_host_end(host, failed)

    def _on_host_end(self, host: str, event: Message) -> None:
        self._caller.event(event)
        del self._left[host]
        if not self._left:
            if self._input is not None:
                self._input.close()
            self._on_over(self)


def execute(hold: Hold, caller: LocalCaller, request: Message, fds: list[int]) -> Message:
    """Run a command on some nodes; events follow.

    Raises:
        UsageError: the request is invalid, a host is not held, or the hold is not serving.
    """
    argv, hosts, readers = (words_of(request, name) for name in ("argv", "hosts", "readers"))
    workdir = request.get("workdir", "")
    folder = isinstance(workdir, str) and "\0" not in workdir
    valid = argv and hosts and folder and set(readers) <= set(hosts)
    if not valid or len(set(hosts)) < len(hosts) or len(fds) != bool(readers):
        raise UsageError("invalid request to run a command")
    check_serving(hold)
    hold.nodes.check_known(hosts)
    command = HostCommand(tuple(argv), workdir, frozenset(readers))
    commands_of(hold).start(caller, command, hosts, fds[0] if fds else -1)
    return {"hosts": len(hosts)}


def check_serving(hold: Hold) -> None:
    """Check that a hold's nodes can be used.

    Raises:
        UsageError: the hold is starting or ending.
    """
    if hold.phase is not HoldPhase.SERVING:
        raise UsageError(f"hold {hold.spec.name} is {hold.phase.value}")


def commands_of(hold: Hold) -> HeldCommands:
    """Return the commands of a hold."""
    if hold.commands is None:
        hold.commands = HeldCommands(hold)
    return hold.commands


def words_of(request: Message, name: str) -> list[str]:
    """Return the list of words in a field of a request.

    Raises:
        UsageError: the field is not a list of words.
    """
    words = request.get(name, [])
    if not isinstance(words, list) or len(words) > MOST_WORDS:
        raise UsageError("invalid request to run a command")
    if not all(isinstance(word, str) and "\0" not in word for word in words):
        raise UsageError("invalid request to run a command")
    return words


def _nothing() -> None:
    """Do nothing."""
