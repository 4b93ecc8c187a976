"""Watches the source of an elastic job's hosts: a hostfile, or a program that prints hosts.

Reads it every second, as Horovod does. A list that cannot be read or parsed causes one warning, and
the hosts stay as they are: an editor may be in the middle of writing it.
"""

from __future__ import annotations

import os
import signal
from functools import partial

from ...backends.child import Child, signal_all, spawn
from ...common import files, system
from ...common.errors import UsageError, reason
from ...head.run.run_view import RunPhase
from ...resources import discovery
from ...resources.select import read_update
from . import runner_policy as policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop, Timer
    from ...head.run.run import Handle, Run
    from ...head.run.run_view import RunView
    from ...specs.host import Host
    from ...specs.host_updates import HostUpdates

    Answer = Callable[[bytes, str], None]
    Source = Callable[[Answer], Callable[[], None]]

EVERY = 1.0
"""Seconds from an answer to the next request."""


class HostWatch:
    """Reads the source periodically, and passes on lists that differ from the one before."""

    def __init__(
        self,
        loop: Loop,
        source: Source,
        read: Callable[[bytes], list[Host]],
        take: Callable[[Sequence[Host]], bool],
        warn: Callable[[str], None],
    ) -> None:
        """Start watching.

        Args:
            loop: runs the timers.
            source: calls its argument with the text of the list, or with an error message; returns
                a function that cancels the request.
            read: parses a text, and raises UsageError if it is invalid.
            take: gets every list that differs from the last; returns False if it has to get it
                again later.
            warn: prints a warning for the user.
        """
        self._loop = loop
        self._source = source
        self._read = read
        self._take = take
        self._warn = warn
        self._known: list[Host] | None = None
        self._text: bytes | None = None
        self._wrong = ""
        self._closed = self._told = False
        self._slow: Timer | None = None
        self._end: Callable[[], None] = _nothing
        self._again()

    def close(self) -> None:
        """Stop watching, and end a request that is under way."""
        self._closed = True
        self._stop_clock()
        self._end()

    def _again(self) -> None:
        if not self._closed:
            self._loop.call_later(EVERY, self._ask_now)

    def _ask_now(self) -> None:
        if not self._closed:
            self._slow = self._loop.call_later(discovery.SLOW, self._tell)
            self._end = self._source(self._answered)

    def _tell(self) -> None:
        """Warn of a missing answer, once until the next answer."""
        if not self._told:
            self._told = True
            self._warn(
                f"--host_discovery_script has not answered for {discovery.SLOW:g} s, and"
                f" will be stopped after {discovery.PATIENCE:g} s; the hosts stay as they are"
            )

    def _stop_clock(self) -> None:
        if self._slow is not None:
            self._slow.cancel()

    def _answered(self, text: bytes, wrong: str) -> None:
        if self._closed:
            return
        self._stop_clock()
        self._told = self._told and bool(wrong)
        if wrong or text != self._text:
            wrong = wrong or self._update(text)
        if wrong and wrong != self._wrong:
            self._warn(f"{wrong}; the hosts stay as they are")
        self._wrong = wrong
        self._again()

    def _update(self, text: bytes) -> str:
        """Pass on the hosts of a list; return the problem of the list, or "".

        Unchanged text is not parsed again: that is slow for thousands of hosts.
        """
        try:
            hosts = self._read(text)
        except UsageError as error:
            return str(error).partition("\n")[0]
        if hosts == self._known or self._take(hosts):
            self._known, self._text = hosts, text
        return ""


def watch(run: Run) -> None:
    """Watch the list of hosts of an elastic run until it is being stopped."""

    def warn(text: str) -> None:
        run.log(text, "warning")

    assert run.spec.updates is not None
    take = partial(list_hosts, run.view, run.handle)
    run.effects.close_too(of(run.spec.updates, run.loop, take, warn).close)


def list_hosts(view: Callable[[], RunView], handle: Handle, hosts: Sequence[Host]) -> bool:
    """Make an elastic run use these hosts; return False before the start, when it cannot yet."""
    running = view().phase is RunPhase.RUNNING
    if running:
        handle(policy.list_hosts, hosts)
    return running


def of(
    updates: HostUpdates,
    loop: Loop,
    take: Callable[[Sequence[Host]], bool],
    warn: Callable[[str], None],
) -> HostWatch:
    """Watch the program or the hostfile that a job names; for `take` and `warn` see `HostWatch`."""
    source = of_program(updates.script, loop) if updates.script else of_file(updates.hostfile)
    return HostWatch(loop, source, partial(read_update, updates), take, warn)


def of_file(path: str) -> Source:
    """Return a source that reads a file."""

    def read(answer: Answer) -> Callable[[], None]:
        try:
            text, wrong = files.read(path, pipes=False), ""
        except OSError as error:
            text, wrong = b"", f"{path}: {reason(error)}"
        answer(text, wrong)
        return _nothing

    return read


def of_program(command: str, loop: Loop) -> Source:
    """Return a source that runs a program each time."""
    argv = discovery.argv(command)

    def run(answer: Answer) -> Callable[[], None]:
        try:
            return _ProgramRun(
                argv, loop, lambda text, wrong: answer(text, wrong and f"{command}: {wrong}")
            ).stop
        except OSError as error:
            answer(b"", f"{command}: {reason(error)}")
            return _nothing

    return run


def _nothing() -> None:
    """Do nothing: there is nothing to end."""


class _ProgramRun:
    """One run of the program."""

    def __init__(self, argv: Sequence[str], loop: Loop, answer: Answer) -> None:
        self._loop = loop
        self._answer = answer
        self._text = b""
        self._wrong = ""
        self._end: tuple[int, str] | None = None
        self._child = Child(spawn(argv, os.environ), loop, self._ended)
        system.close(self._child.stdin)
        loop.add_reader(self._child.stdout, self._read_output)
        self._last = loop.call_later(discovery.PATIENCE, lambda: self._stop(discovery.LATE))

    def stop(self) -> None:
        """Kill the program with its children, if it has not ended."""
        if self._end is None:
            self._stop("")

    def _read_output(self) -> None:
        data = system.read(self._child.stdout, 65536)
        self._text += data
        if not data:
            self._close()
        elif len(self._text) > files.LIMIT:
            self._stop(f"its answer is longer than {files.LIMIT >> 20} MiB")

    def _stop(self, wrong: str) -> None:
        """Kill the program with its children, and ignore the rest of its output."""
        self._wrong = wrong
        signal_all(self._child.open_children(), signal.SIGKILL)
        self._child.send_signal(signal.SIGKILL)
        self._close()

    def _close(self) -> None:
        if self._child.stdout >= 0:
            self._loop.remove(self._child.stdout)
            system.close(self._child.stdout)
            self._child.stdout = -1
            self._answer_when_ended()

    def _ended(self, code: int, errors: str) -> None:
        self._end = code, errors
        self._answer_when_ended()

    def _answer_when_ended(self) -> None:
        """Answer once the program has ended and its output has been read."""
        if self._end is not None and self._child.stdout < 0:
            self._last.cancel()
            code, errors = self._end
            wrong = discovery.failure(code, errors.encode()) if code else ""
            self._answer(self._text, self._wrong or wrong)
