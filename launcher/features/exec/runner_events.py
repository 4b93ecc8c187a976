"""The reports of a transport about the hosts on which it runs a command."""

from __future__ import annotations

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol, TypeAlias


class HostOutput(NamedTuple):
    """Output of the command on a host; `stream` is 1 or 2."""

    host: str
    stream: int
    data: bytes


class HostEnded(NamedTuple):
    """The end of a command on a host, with an exit code as in a shell."""

    host: str
    code: int


class HostFailed(NamedTuple):
    """A host that could not be reached or, if the command has started, was lost."""

    host: str
    cause: str
    began: bool


class HostNote(NamedTuple):
    """A warning about a host, such as a new host key that was accepted."""

    host: str
    text: str


class HostCommand(NamedTuple):
    """The command that is run on every host.

    Attributes:
        argv: the program and its arguments.
        workdir: the folder to run it in; "" for the home folder.
        readers: the hosts on which it reads the given input; on others there is no input.
    """

    argv: tuple[str, ...]
    workdir: str = ""
    readers: frozenset[str] = frozenset()


if TYPE_CHECKING:
    HostEvent: TypeAlias = HostOutput | HostEnded | HostFailed | HostNote
    OnEvent: TypeAlias = Callable[[HostEvent], None]

    class Transport(Protocol):
        """Runs one command on several hosts.

        Attributes:
            hosts: the names of the hosts, in order.
            on_event: called from the loop with every event; each host ends once.
            on_room: called from the loop when input has been sent and `backlog` is smaller.
        """

        hosts: Sequence[str]
        on_event: OnEvent
        on_room: Callable[[], None]

        def start(self, command: HostCommand) -> None:
            """Start the command on all hosts.

            Raises:
                DsrunError: the command cannot be started on any host.
            """
            ...

        def send(self, data: bytes) -> None:
            """Send input to the hosts that read input; b"" ends it."""
            ...

        def backlog(self) -> int:
            """Return the number of bytes of input that the slowest host has not read."""
            ...

        def pause(self, paused: bool) -> None:
            """Stop reading the hosts' output, or continue."""
            ...

        def stop(self) -> None:
            """Stop the command on all hosts; each host's end is still reported."""
            ...

        def close(self) -> None:
            """Give up at once on commands that have not ended."""
            ...
