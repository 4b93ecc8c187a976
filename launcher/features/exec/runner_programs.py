"""Programs of dsrun on hosts (`node.programs`), each with separate arguments and input.

They print lines. `FleetPrograms` runs them over a fleet, `HoldPrograms` over a hold.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol, TypeAlias

    from ...common.loop import Loop

    OnLine: TypeAlias = Callable[[str, bytes], None]
    OnEnd: TypeAlias = Callable[[str, int, str], None]

    class RunningProgram(Protocol):
        """A program that was started on some hosts."""

        def send(self, host: str, line: bytes) -> None:
            """Send a line to its input on a host, with its line feed; b"" ends the input."""
            ...

        def stop(self) -> None:
            """Stop the program on all hosts; each host's end is still reported."""
            ...

    class NodePrograms(Protocol):
        """Runs programs on hosts that are connected; several may run at a time.

        Attributes:
            names: the hosts, in order.
            loop: the loop for callbacks.
        """

        names: Sequence[str]
        loop: Loop

        def start(
            self,
            program: str,
            arguments: Mapping[str, Sequence[str]],
            on_line: OnLine,
            on_end: OnEnd,
        ) -> RunningProgram:
            """Start a program on some hosts.

            Args:
                program: its name.
                arguments: the arguments for each host of the program.
                on_line: called from the loop with a host, and a line that the program has printed
                    there, without its line feed.
                on_end: called from the loop once for each host, with its exit code as a shell has
                    it, and why in words if it has failed. A host that is lost has ended with the
                    code `LOST`.
            """
            ...


LONGEST = 8 * 1024 * 1024
"""Bytes of a line: a program that prints a longer one is ended."""

TAIL = 2000
"""Bytes kept of a program's standard error."""


class ProgramOutput:
    """The output of one program on one host, until its end."""

    def __init__(self, host: str, on_line: OnLine, on_end: OnEnd) -> None:
        self._host = host
        self._on_line = on_line
        self._on_end = on_end
        self._rest = bytearray()
        self._errors = b""
        self._ended = False

    def add(self, stream: int, data: bytes) -> bool:
        """Take output of stream 1 or 2; return whether the program may continue."""
        if stream == 2:
            self._errors = (self._errors + data)[-TAIL:]
            return True
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line(bytes(self._rest) + line)
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > LONGEST:
            self._rest.clear()
            self.finish(1, "it printed a line that is too long")
        return not self._ended

    def finish(self, code: int, why: str) -> None:
        """Report the end, unless already done; by default the reason is the last line of errors."""
        if self._rest:
            self._line(bytes(self._rest))
        if self._ended:
            return
        self._ended = True
        if code and not why:
            printed = self._errors.decode("utf-8", "replace").strip().split("\n")[-1]
            why = printed or f"it exited with code {code}"
        self._on_end(self._host, code, why)

    def _line(self, line: bytes) -> None:
        if not self._ended:
            self._on_line(self._host, line)
