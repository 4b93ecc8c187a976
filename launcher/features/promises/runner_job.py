"""One dsrun of `dsrun-check --promises`, as a child process whose output is read on the loop."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

from ...backends.child import open_children, signal_all
from ...common.death_signal import DeathSignal
from ...common.network import lines_of
from ...common.text import read_json
from .runner_rows import CLIENT, READER
from .runner_verdict import stand_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop
    from .runner_verdict import UpWorker

CLIENTS = frozenset(
    {
        *("ssh", "srun", "mpirun", "mpirun.openmpi", "orterun", "prterun"),
        *("mpiexec", "mpiexec.hydra", "mpiexec.mpich", "mpirun.mpich"),
    }
)
"""Programs by which a job ends if they are killed (`comm` of proc(5))."""

BLOCK = 1 << 16

LAST = 10.0
"""Seconds for a dsrun to end after SIGTERM, when its outcome no longer matters."""


class RunningJob:
    """One dsrun.

    Attributes:
        ups: its stand-ins that are up.
        output: its output so far.
        ended: whether it has ended.
        code: its exit code then, as Popen has it.
    """

    def __init__(self, loop: Loop, argv: Sequence[str], folder: str, name: str) -> None:
        """Start it; its files in the folder begin with the name."""
        self.ups: dict[int, UpWorker] = {}
        self.output = bytearray()
        self.ended, self.code = False, 0
        self._loop, self._files = loop, f"{folder}/{name}"
        self._changed: Callable[[], None] = lambda: None
        self._at = 0
        stdin, self._stdin = os.pipe()
        dies = DeathSignal(stdin, signal.SIGTERM)
        self._stdout, stdout = os.pipe()
        with open(f"{self._files}.err", "wb") as errors:
            self._process = subprocess.Popen(
                argv, stdin=stdin, stdout=stdout, stderr=errors, start_new_session=True
            )
        dies.send_to(self._process.pid)
        os.close(stdin)
        os.close(stdout)
        os.set_blocking(self._stdout, False)
        self._pidfd = os.pidfd_open(self._process.pid)
        loop.add_reader(self._pidfd, self._on_end)
        loop.add_reader(self._stdout, self._read)

    @property
    def is_up(self) -> bool:
        """True if all of its stand-ins are up."""
        return bool(self.ups) and len(self.ups) == next(iter(self.ups.values())).world

    @property
    def job_id(self) -> str:
        """The id of the job, "" before a stand-in is up."""
        return next((one.job for one in self.ups.values()), "")

    def on_change(self, call: Callable[[], None]) -> None:
        """Call this whenever a stand-in is up, and at the end; at once if it has ended."""
        self._changed = call
        call()

    def strike(self, what: str) -> str:
        """Do something to it; return why that is not possible, or ""."""
        if what == READER:
            self._close_output()
        elif what == CLIENT:
            return self._kill_client()
        elif not self.ended:
            self._process.send_signal(getattr(signal, what))
        return ""

    def report(self) -> dict[str, object]:
        """Return its report, {} without one."""
        with suppress(OSError, ValueError), open(f"{self._files}.json", "rb") as file:
            value = read_json(file.read())
            return value if isinstance(value, dict) else {}
        return {}

    def messages(self) -> tuple[str, ...]:
        """Return the lines that it has printed on standard error."""
        with open(f"{self._files}.err", "rb") as file:
            return tuple(file.read().decode("utf-8", "replace").splitlines())

    def lines(self) -> tuple[str, ...]:
        """Return the lines of its output."""
        return tuple(self.output.decode("utf-8", "replace").splitlines())

    def close(self) -> None:
        """Stop it, if it runs, and close everything."""
        self._changed = lambda: None
        if not self.ended:
            self._process.terminate()
            try:
                self._process.wait(LAST)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._finish()
        self._close_output()
        os.close(self._stdin)

    def _read(self) -> None:
        while self._stdout >= 0:
            try:
                data = os.read(self._stdout, BLOCK)
            except BlockingIOError:
                return self._look()
            if not data:
                self._look()
                return self._close_output()
            self.output += data
        return None

    def _look(self) -> None:
        """Find the stand-ins in new whole lines."""
        end = self.output.rfind(b"\n") + 1
        new, self._at = self.output[self._at : end], max(self._at, end)
        found = map(stand_in, new.decode("utf-8", "replace").splitlines() if b"@up" in new else ())
        ups = {one.rank: one for one in found if one is not None}
        if ups:
            self.ups.update(ups)
            self._changed()

    def _on_end(self) -> None:
        self.code = self._process.wait()
        self._read()
        self._finish()
        self._changed()

    def _finish(self) -> None:
        self.ended = True
        self._loop.remove(self._pidfd)
        os.close(self._pidfd)

    def _close_output(self) -> None:
        if self._stdout >= 0:
            self._loop.remove(self._stdout)
            os.close(self._stdout)
            self._stdout = -1

    def _kill_client(self) -> str:
        """Kill the latest of its children that are an ssh client or an engine."""
        pidfds = open_children(self._process.pid)
        clients = [pid for pid in pidfds if {*lines_of(f"/proc/{pid}/comm")} & CLIENTS]
        signal_all([pidfds.pop(max(clients))] if clients else [], signal.SIGKILL)
        for pidfd in pidfds.values():
            os.close(pidfd)
        return "" if clients else "dsrun has no ssh client or engine on this machine"
