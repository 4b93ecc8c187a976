"""Keeps an eye on where an elastic job's hosts come from: a hostfile, or a program that names them.

Looks every second, as Horovod does. A list that cannot be read or understood is told once, and the
hosts stay as they are: an editor may be half-way through its work.
"""

from __future__ import annotations

import os
import signal

from ...backends.child import Child, spawn
from ...common import files
from ...common.errors import UsageError, reason
from ...resources import discovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop
    from ...specs.host import Host

    Answer = Callable[[bytes, str], None]
    Ask = Callable[[Answer], None]

EVERY = 1.0
"""Seconds from an answer to the next question."""


class HostWatch:
    """Asks again and again, and tells what is new."""

    def __init__(
        self,
        loop: Loop,
        ask: Ask,
        read: Callable[[bytes], list[Host]],
        take: Callable[[Sequence[Host]], bool],
        warn: Callable[[str], None],
    ) -> None:
        """Begin.

        Args:
            loop: that it runs on.
            ask: has its argument called with the text, or with what went wrong.
            read: makes hosts of a text, and raises UsageError where it cannot.
            take: is given the hosts whenever they are others; False: not now, ask again.
            warn: a line for the user.
        """
        self._loop = loop
        self._ask = ask
        self._read = read
        self._take = take
        self._warn = warn
        self._known: list[Host] | None = None
        self._text: bytes | None = None
        self._wrong = ""
        self._closed = False
        self._again()

    def close(self) -> None:
        """Ask no more."""
        self._closed = True

    def _again(self) -> None:
        if not self._closed:
            self._loop.call_later(EVERY, self._ask_now)

    def _ask_now(self) -> None:
        if not self._closed:
            self._ask(self._answered)

    def _answered(self, text: bytes, wrong: str) -> None:
        if self._closed:
            return
        if wrong or text != self._text:
            wrong = wrong or self._take_in(text)
        if wrong and wrong != self._wrong:
            self._warn(f"{wrong}; the hosts stay as they are")
        self._wrong = wrong
        self._again()

    def _take_in(self, text: bytes) -> str:
        """Have another list's hosts taken in; returns what is wrong with it.

        One that is as it was is not read again: of thousands of hosts that takes its time.
        """
        try:
            hosts = self._read(text)
        except UsageError as error:
            return str(error).partition("\n")[0]
        if hosts == self._known or self._take(hosts):
            self._known, self._text = hosts, text
        return ""


def of_file(path: str) -> Ask:
    """Return what asks a file."""

    def ask(answer: Answer) -> None:
        try:
            text, wrong = files.read(path, pipes=False), ""
        except OSError as error:
            text, wrong = b"", f"{path}: {reason(error)}"
        answer(text, wrong)

    return ask


def of_program(command: str, loop: Loop) -> Ask:
    """Return what asks a program, which is run each time."""
    argv = discovery.argv(command)

    def ask(answer: Answer) -> None:
        try:
            _Question(argv, loop, lambda text, wrong: answer(text, wrong and f"{command}: {wrong}"))
        except OSError as error:
            answer(b"", f"{command}: {reason(error)}")

    return ask


class _Question:
    """One run of a program."""

    def __init__(self, argv: Sequence[str], loop: Loop, answer: Answer) -> None:
        self._loop = loop
        self._answer = answer
        self._text = b""
        self._wrong = ""
        self._end: tuple[int, str] | None = None
        self._child = Child(spawn(argv, os.environ), loop, self._ended)
        os.close(self._child.stdin)
        loop.add_reader(self._child.stdout, self._heard)
        self._last = loop.call_later(discovery.PATIENCE, lambda: self._stop(discovery.LATE))

    def _heard(self) -> None:
        data = os.read(self._child.stdout, 65536)
        self._text += data
        if not data:
            self._shut()
        elif len(self._text) > files.LIMIT:
            self._stop(f"its answer is longer than {files.LIMIT >> 20} MiB")

    def _stop(self, wrong: str) -> None:
        """End it, with what it has started itself, and wait for nothing more that it may say."""
        self._wrong = wrong
        self._child.signal_children(signal.SIGKILL)
        self._child.send_signal(signal.SIGKILL)
        self._shut()

    def _shut(self) -> None:
        if self._child.stdout >= 0:
            self._loop.remove(self._child.stdout)
            os.close(self._child.stdout)
            self._child.stdout = -1
            self._tell()

    def _ended(self, code: int, errors: str) -> None:
        self._end = code, errors
        self._tell()

    def _tell(self) -> None:
        """Answer once the program has ended, and all that it has written is here."""
        if self._end is not None and self._child.stdout < 0:
            self._last.cancel()
            code, errors = self._end
            wrong = discovery.failure(code, errors.encode()) if code else ""
            self._answer(self._text, self._wrong or wrong)
