"""torch's elastic agent as a world plays it: `elastic/agent.py` without torch.

It does what torch's `LocalElasticAgent` does (torch 2.13): it joins a round, starts a shim for each
worker, looks after them, and joins another round if one fails or the node launcher wants another.
In a rendezvous of torch's the only node is this one, and the agent counts the restarts itself.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

from dsrun.launcher.common import system
from dsrun.launcher.common.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn

IMPORTS = 0.5
"""Seconds until torch is imported."""

INTERVAL = 0.05
"""Seconds from what happens until the agent looks."""

CLOSES = 30.0
"""Seconds for shims to end after SIGTERM."""

CONNECTS = 60.0
"""Seconds for the store of the first node to answer."""

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class TorchAgent:
    """One agent."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Play it with the settings that the node launcher gives it."""
        self._workers: int = settings["workers"]
        self._rendezvous: Mapping[str, Any] | None = settings["rendezvous"]
        self._barrier: float = settings["barrier"]
        self._restarts = 0
        self._changed = False
        self._rest = b""
        self._line = self._store = -1
        self._shims: dict[int, int] = {}

    def __call__(self) -> int:
        """Run to the end; return the exit code."""
        return _tried(self._run)

    def _run(self) -> int:
        system.sleep(IMPORTS)
        line, theirs = system.socketpair(socket.SOCK_STREAM)
        with system.socket(fileno=system.dup(0)) as entry, theirs:
            system.send_fds(entry, [b'{"agent": true}'], [theirs.fileno()])
        self._line = line.detach()
        while not self._round():
            self._restarts += 1
            if self._rendezvous and self._restarts > self._rendezvous["restarts"]:
                self._say(ended={"reason": ""})
                return 0
        if not self._rendezvous:
            system.sleep(self._barrier)
        self._say(ended=None)
        return 0

    def _round(self) -> bool:
        """Play a round; return whether its work is done."""
        for local, env in enumerate(self._join()):
            self._shims[system.fork(partial(_exit, partial(self._shim, env)))] = local
        while self._shims:
            failed = self._look()
            if failed or self._changed:
                self._stop()
                return False
        return True

    # -- the next round ----------------------------------------------------------------------

    def _join(self) -> list[dict[str, str]]:
        """Join a round, and return the environment of each worker."""
        if self._store >= 0:
            system.close(self._store)
        listener = system.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("", 0))
        listener.listen(128)
        port, self._store = int(listener.getsockname()[1]), listener.detach()
        if self._rendezvous:
            return [self._alone(local, port) for local in range(self._workers)]
        self._say(join=port)
        place = self._wait_for_place()
        if place["rank"]:
            self._meet(place["host"], place["port"])
        return [{"LOCAL_RANK": f"{local}"} for local in range(self._workers)]

    def _alone(self, local: int, port: int) -> dict[str, str]:
        assert self._rendezvous is not None
        return {
            "LOCAL_RANK": f"{local}",
            "RANK": f"{local}",
            "WORLD_SIZE": f"{self._workers}",
            "GROUP_RANK": "0",
            "GROUP_WORLD_SIZE": "1",
            "MASTER_ADDR": system.uname().nodename,
            "MASTER_PORT": f"{port}",
            "TORCHELASTIC_RESTART_COUNT": f"{self._restarts}",
            "TORCHELASTIC_MAX_RESTARTS": f"{self._rendezvous['restarts']}",
        }

    def _wait_for_place(self) -> dict[str, Any]:
        while True:
            found = self._hear()
            if "round" in found:
                self._changed = False
                place: dict[str, Any] = found["round"]
                return place

    def _meet(self, host: str, port: int) -> None:
        """Connect to the store of the first node, and end without it."""
        family, target = system.resolve(host, port)[0]
        with system.socket(family, socket.SOCK_STREAM) as one:
            one.setblocking(False)
            if one.connect_ex(target) in {0, errno.EINPROGRESS}:
                _ready(one.fileno(), select.POLLOUT, CONNECTS)

    # -- a round -----------------------------------------------------------------------------

    def _look(self) -> bool:
        """Wait until something happens; return whether a worker has failed."""
        if b"\n" in self._rest:  # it came together with the round
            self._changed |= "change" in self._hear()
            return any(self._reap())
        poll = system.poll()
        poll.register(self._line, select.POLLIN)
        ends = [system.pidfd_open(pid) for pid in self._shims]
        for fd in ends:
            poll.register(fd, select.POLLIN)
        poll.poll()
        for fd in ends:
            system.close(fd)
        system.sleep(INTERVAL)
        if _ready(self._line, select.POLLIN, 0.0):
            self._changed |= "change" in self._hear()
        return any(self._reap())

    def _reap(self) -> list[int]:
        """Return the statuses of shims that have ended."""
        found = []
        for pid in tuple(self._shims):
            ended, status = system.waitpid(pid, os.WNOHANG)
            if ended:
                found.append(status)
                del self._shims[pid]
        return found

    def _stop(self) -> None:
        """End the shims, as torch's PContext does."""
        until = system.monotonic() + CLOSES
        self._signal(signal.SIGTERM)
        while self._shims and system.monotonic() < until:
            system.sleep(INTERVAL)
            self._reap()
        self._signal(signal.SIGKILL)
        for pid in self._shims:
            system.waitpid(pid, 0)
        self._shims.clear()

    def _signal(self, number: int) -> None:
        for pid in self._shims:
            system.kill(pid, number)

    # -- messages ----------------------------------------------------------------------------

    def _say(self, **message: object) -> None:
        system.write(self._line, json.dumps(message).encode() + b"\n")

    def _hear(self) -> dict[str, Any]:
        """Return the next message; end if the node launcher has ended."""
        while b"\n" not in self._rest:
            data = system.read(self._line, 65536)
            if not data:
                system.exit_now(1)
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    # -- a shim ------------------------------------------------------------------------------

    def _shim(self, env: Mapping[str, str]) -> int:
        """Be there in place of a worker, as `shim.py`."""
        system.close(self._line)
        system.close(self._store)
        loop = Loop()
        mine, theirs = system.socketpair(socket.SOCK_STREAM)
        fd = mine.detach()

        def pass_on(number: int) -> None:
            try:
                system.write(fd, bytes([number]))
            except OSError:
                return

        loop.on_signals(SIGNALS, pass_on)  # first, as `shim.py`: its worker may start from then on
        with system.socket(fileno=system.dup(0)) as entry, theirs:
            system.send_fds(entry, [json.dumps(env).encode()], [theirs.fileno()])
        loop.add_reader(fd, loop.stop)
        loop.run()
        ended = system.read(fd, 4)
        code = int.from_bytes(ended, "big", signed=True) if ended else 1
        if code < 0:
            system.set_handler(-code, signal.SIG_DFL) if -code in SIGNALS else None
            system.kill(system.getpid(), -code)
        return code


def _tried(run: Callable[[], int]) -> int:
    """Return what a program returns, or 1 if an exception ends it, as in Python."""
    try:
        return run()
    except OSError:
        return 1


def _exit(run: Callable[[], int]) -> NoReturn:
    """Run a program in this process, and end."""
    system.exit_now(_tried(run))


def _ready(fd: int, events: int, seconds: float) -> bool:
    poll = system.poll()
    poll.register(fd, events)
    return bool(poll.poll(seconds * 1000))
