"""`--on_event`: a shell command for every event of a job, one after another, during the job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import deque

from ...common.errors import reason
from ...common.poll import ready
from ...common.unexpected import unexpected
from ...head.run.events import JobEnded
from .runner_event_json import event_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import IO

    from ...common.loop import Loop
    from ...common.unexpected import Log
    from ...head.run.events import RunEvent
    from ...specs.job import JobSpec
    from ...specs.policies import HookPolicy

LIMIT = 30.0
"""Seconds that a command may take for one event."""

LAST_WAIT = 5.0
"""Seconds from the end of the job until commands that are not done are ended."""

LONGEST = 4096
"""Bytes of the end of its standard error in which its last line is looked for."""

MOST = 100
"""Events that may wait; after that the oldest is left out."""


class EventCommands:
    """Runs the command for the events of a job."""

    def __init__(self, spec: JobSpec, loop: Loop, log: Log, began: Callable[[], float]) -> None:
        """Prepare for a job; `began` returns the time of its start, on the loop's clock."""
        self._job_id, self._loop, self._began = spec.job_id, loop, began
        self._log_here = log
        loop.open_to_threads()
        own = os.environ if spec.environ is None else spec.environ
        environ = {**own, "DSRUN_JOB_ID": spec.job_id}
        self._queue = CommandQueue(spec.hooks, environ, self._log)

    def close(self) -> None:
        """Wait a while for the last commands, then end them."""
        self._queue.close(LAST_WAIT)

    def on_event(self, event: RunEvent, role: str = "") -> None:
        """Run the command for an event of a role, if the policy asks for such events."""
        fields = event_json(event, self._job_id, self._loop.clock() - self._began(), role)
        if fields is not None:
            self._queue.put(fields)
        if type(event) is JobEnded:
            self._queue.finish()

    def _log(self, text: str, level: str) -> None:
        """Print a message, from the thread of the queue."""
        self._loop.call_soon_threadsafe(lambda: self._log_here(text, level))


class CommandQueue:
    """Runs one command for each of some values, in their order, in a separate thread."""

    def __init__(self, hooks: HookPolicy, environ: Mapping[str, str], log: Log) -> None:
        """Begin without values; `log` is called from the thread, to warn of the first failure."""
        self._hooks = hooks
        self._environ = environ
        self._log = log
        self._failed = False
        self._values: deque[Mapping[str, object]] = deque()
        self._left_out = 0
        self._ended = self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="on_event", daemon=True)
        self._thread.start()

    def put(self, value: Mapping[str, object]) -> None:
        """Run the command for a value soon. Never waits."""
        with self._ready:
            if len(self._values) >= MOST:
                self._values.popleft()
                self._left_out += 1
            self._values.append({**value, "time": time.time()})
            self._ready.notify()

    def finish(self) -> None:
        """Expect no more values."""
        with self._ready:
            self._ended = True
            self._ready.notify()

    def close(self, seconds: float) -> None:
        """Wait at most this number of seconds for the commands for all values, then end them."""
        self.finish()
        self._thread.join(seconds)
        with self._ready:
            self._values.clear()
            if self._process is not None:
                self._closed = True
                self._kill()
        self._thread.join(1.0)

    def _work(self) -> None:
        while (value := self._take()) is not None:
            problem = self._problem(value)
            if problem and not self._failed:
                self._failed = True
                self._log(f"--on_event for {value['event']}: {problem}", "warning")

    def _take(self) -> dict[str, object] | None:
        """Wait for the next value; return None at the end."""
        with self._ready:
            while not self._values and not self._ended:
                self._ready.wait()
            if not self._values:
                return None
            left_out, self._left_out = self._left_out, 0
            value = dict(self._values.popleft())
            return {**value, "left_out": left_out}

    def _problem(self, value: Mapping[str, object]) -> str:
        """Run the command for a value; return what went wrong, in words.

        Whatever it is, the command is tried for the next value, too.
        """
        try:
            return self._run_for(value)
        except OSError as error:
            return f"cannot start sh in {self._hooks.folder}: {reason(error)}"
        except Exception as error:
            return unexpected(error, self._log)

    def _run_for(self, value: Mapping[str, object]) -> str:
        with _in_memory() as given, _in_memory() as errors:
            given.write(json.dumps(value).encode() + b"\n")
            given.seek(0)
            code = self._wait(self._start(str(value["event"]), given, errors))
            if self._closed:
                return "was still running some seconds after the job ended, and was killed"
            if code is None:
                return f"was killed after {LIMIT:g} s"
            last = _tail(errors).decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"exit code {code}{f': {last}' if last else ''}" if code else ""

    def _start(self, event: str, given: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the command; files take the place of pipes, which it might not read or close."""
        with self._ready:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", self._hooks.on_event],
                cwd=self._hooks.folder,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**self._environ, "DSRUN_EVENT": event},
                start_new_session=True,
            )
            return self._process

    def _wait(self, process: subprocess.Popen[bytes]) -> int | None:
        """Wait for its end; return its exit code, None if it had to be ended."""
        in_time = False
        try:
            in_time = _has_ended(process.pid, LIMIT)
        finally:
            with self._ready:
                if not in_time:
                    self._kill()
                self._process = None
            code = process.wait()
        return code if in_time else None

    def _kill(self) -> None:
        """End the command, with all of its process group; it is not reaped before."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)


def _in_memory() -> IO[bytes]:
    """Return a file that needs no room on a disk."""
    return open(os.memfd_create("on_event"), "w+b")


def _tail(file: IO[bytes]) -> bytes:
    fd = file.fileno()
    return os.pread(fd, LONGEST, max(0, os.fstat(fd).st_size - LONGEST))


def _has_ended(pid: int, seconds: float) -> bool:
    """Wait for the end of a child; return whether it came within this number of seconds."""
    fd = os.pidfd_open(pid)
    try:
        return bool(ready([fd], seconds))
    finally:
        os.close(fd)
