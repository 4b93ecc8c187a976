"""The MPI launcher of a world: one process that starts all node launchers, and ends them."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from dsrun.launcher.common import system

from .at_end import AtEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from .kernel import Host, Kernel, Process

TERM_TO_KILL = 1.0
"""Seconds from SIGTERM to SIGKILL for the tasks of an engine that ends."""

NOTICE = 0.05
"""Seconds until its agents on the hosts notice that it has ended."""

SILENCE = 300.0 + 9 * 20.0
"""Seconds until it misses a host without power, by default in Open MPI: `oob_tcp_keepalive_time`,
and then an `oob_tcp_keepalive_intvl` for each of the `oob_tcp_keepalive_probes`."""

WAITS, PAUSE = 20, 0.1
"""How often, and for how many seconds each time, the runner looks whether it has ended."""


class Engine:
    """An engine, as mpirun of Open MPI is one.

    It ends once all guards have ended, or are missed. If one fails, or is missed, it ends the
    others, unless it is `tolerant`. If it is killed, its agents end the guards; they know nothing
    of the node launchers.
    """

    def __init__(
        self, kernel: Kernel, login: Host, tell: Callable[[str, bool], None], *, tolerant: bool
    ) -> None:
        """Prepare it; `tell` is called with how it has ended, and whether it was killed."""
        self._kernel, self._login, self._tell, self._tolerant = kernel, login, tell, tolerant
        self._guards: dict[Process, Host] = {}
        self._awaited = 0
        self._failed = False
        self._code: int | None = None
        self._process: Process | None = None

    @property
    def starts(self) -> bool:
        """Whether it still starts guards."""
        return self._alive and self._code is None

    @property
    def _alive(self) -> bool:
        return self._process is not None and self._process.alive

    def begin(self, count: int) -> None:
        """Begin, for so many nodes."""
        self._awaited = count
        self._order, orders = self._kernel.network.channel(self._login, self._login)
        self._process = self._kernel.spawn(
            self._login, _wait, argv=[b"mpirun"], fds={0: orders}, role="engine", name="mpirun"
        )
        self._process.watchers.append(cast("Any", AtEnd(self._on_end)))

    def has_started(self, guard: Process, host: Host) -> None:
        """Take a guard that was started."""
        self._guards[guard] = host

    def has_ended(self, guard: Process | None, code: int) -> None:
        """Hear that a guard has ended, or could not be started (None)."""
        if guard is not None:
            self._guards.pop(guard, None)
        self._awaited -= 1
        self._failed = self._failed or bool(code)
        if code and not self._tolerant:
            self.abort()
        elif self._awaited <= 0 and self._code is None:
            self._end(int(self._failed))

    def loses_power(self, host: Host) -> None:
        """Miss the guards of a host, which is about to lose its power, some time later."""
        for guard, place in self._guards.items():
            if place is host and guard.alive:
                self._kernel.at(SILENCE, partial(self._miss, guard))

    def _miss(self, guard: Process) -> None:
        if guard in self._guards:
            self.has_ended(guard, 1)

    def abort(self) -> None:
        """End all guards, and then itself."""
        if not self.starts:
            return
        self._code = 1
        self._end_guards()
        self._kernel.at(TERM_TO_KILL + NOTICE, partial(self._end, 1))

    def close(self) -> None:
        """Wait for its end, and then have it end, as the runner."""
        for _ in range(WAITS):
            if not self._alive:
                return
            system.sleep(PAUSE)
        self.abort()
        while self._alive:
            system.sleep(PAUSE)

    def _end(self, code: int) -> None:
        self._code = code
        if self._alive:
            self._order.try_write(bytes([code]))

    def _on_end(self) -> None:
        assert self._process is not None
        killed = self._code is None
        status = os.waitstatus_to_exitcode(self._process.status or 0)
        if killed:
            self._kernel.at(NOTICE, self._end_guards)
        how = signal.Signals(-status).name if status < 0 else f"exit code {status}"
        self._tell(f"mpirun ended ({how})", killed)

    def _end_guards(self) -> None:
        for guard, host in self._guards.items():
            self._signal(guard, host, signal.SIGTERM)
            self._kernel.at(TERM_TO_KILL, partial(self._signal, guard, host, signal.SIGKILL))

    def _signal(self, guard: Process, host: Host, number: int) -> None:
        """Signal a guard, as soon as its host can be reached."""
        if self._kernel.network.is_cut(self._login, host):
            self._kernel.at(1.0, partial(self._signal, guard, host, number))
        elif guard.alive:
            what = "kill" if number == signal.SIGKILL else "signal"
            hit = {"fault": what, "target": "guard", "what": f"{what} guard"}
            fields = {**hit, "number": number, "by": "engine"}
            self._kernel.tell("fault", host.name, fields)
            host.signal(guard.pid, number)


def _wait() -> int:
    """Wait for an order to end; return the exit code."""
    return system.read(0, 1)[0]
