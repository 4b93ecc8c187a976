"""The faults: what each does to a job, and what heals the hosts from it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias, cast

from ..cluster.cable import cable_to
from ..cluster.test_concurrency import beside, holder
from ..support.limits import wait_for
from .rows import LOGS, SILENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from .played import HeldJob, PlayedJob, RolesJob

    Strike: TypeAlias = Callable[[PlayedJob], AbstractContextManager[None]]

KILL, STOP, TERM, INT = signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT

A_WHILE = 2.0
"""Seconds for which a job goes on after a fault that must not end it."""


def _signal(number: int, *which: Callable[[PlayedJob], int]) -> Strike:
    """Send a signal to processes, at one instant if it is SIGKILL."""

    @contextmanager
    def strike(job: PlayedJob) -> Iterator[None]:
        pids = [one(job) for one in which]
        for each in [STOP, KILL] if number == KILL and len(pids) > 1 else [number]:
            for pid in pids:
                os.kill(pid, each)
        yield

    return strike


def _runner(job: PlayedJob) -> int:
    return job.runner()


def _guard(job: PlayedJob) -> int:
    return job.guard()


def _launcher(job: PlayedJob) -> int:
    return job.launcher()


def _client(job: PlayedJob) -> int:
    return job.client()


def _session(job: PlayedJob) -> int:
    return job.session()


def _worker(job: PlayedJob) -> int:
    return job.workers()[-1]


def _other_worker(job: PlayedJob) -> int:
    return job.workers()[0]


def _hold(job: PlayedJob) -> int:
    return cast("HeldJob", job).hold()


def _server(job: PlayedJob) -> int:
    return cast("RolesJob", job).server()


@contextmanager
def _nothing(job: PlayedJob) -> Iterator[None]:
    time.sleep(2 * SILENCE if job.row.options else A_WHILE)
    yield


def _order(word: str, *ranks: int) -> Strike:
    """Have ranks raise, or exit with a code, which is one higher for each."""

    @contextmanager
    def strike(job: PlayedJob) -> Iterator[None]:
        for rank in ranks:
            code = word if word == "raise" else f"{int(word) + rank - ranks[0]}"
            draft = job.folder / f"draft-{rank}"
            draft.write_text(code)
            draft.rename(job.folder / f"order-{rank}")
        yield

    return strike


@contextmanager
def _stop_runner(job: PlayedJob) -> Iterator[None]:
    """Stop dsrun until the hosts have ended its workers without it."""
    os.kill(job.runner(), STOP)
    try:
        wait_for(lambda: not job.pids(), "the end of the workers", 10 * SILENCE)
    finally:
        os.kill(job.runner(), signal.SIGCONT)
    yield


@contextmanager
def _stop_guard(job: PlayedJob) -> Iterator[None]:
    os.kill(job.guard(), STOP)
    time.sleep(2 * SILENCE)
    yield


@contextmanager
def _stop_client(job: PlayedJob) -> Iterator[None]:
    os.kill(job.client(), STOP)
    if job.row.promise.goes_on:
        time.sleep(2 * SILENCE)
    yield


@contextmanager
def _power(job: PlayedJob) -> Iterator[None]:
    off = job.slurm.powered_off(job.n2) if job.slurm else job.n2.powered_off()
    with off:
        yield


@contextmanager
def _freeze(job: PlayedJob) -> Iterator[None]:
    """Stop all processes of the second host but its first one."""
    pids = [p.pid for p in job.cluster.processes() if p.host == "n2" and p.pid != job.n2.pid]
    _each(pids, STOP)
    try:
        yield
    finally:
        _each(pids, signal.SIGCONT)


def _each(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


@contextmanager
def _cut(job: PlayedJob) -> Iterator[None]:
    with job.n2.unplugged():
        yield


@contextmanager
def _cut_login(job: PlayedJob) -> Iterator[None]:
    with job.cluster.login.unplugged():
        yield


def _one_way(only: int) -> Strike:
    @contextmanager
    def strike(job: PlayedJob) -> Iterator[None]:
        with cable_to(job.cluster, "n2") as cable:
            cable.set(loss=1.0, only=only)
            yield

    return strike


def _bad_cable(delay: float, loss: float) -> Strike:
    @contextmanager
    def strike(job: PlayedJob) -> Iterator[None]:
        with cable_to(job.cluster, "n2") as cable:
            cable.set(delay, loss)
            time.sleep(2 * SILENCE)
            job.finish()
            yield

    return strike


@contextmanager
def _heals(job: PlayedJob) -> Iterator[None]:
    with job.n2.unplugged():
        time.sleep(SILENCE / 3)
    yield


@contextmanager
def _reader(job: PlayedJob) -> Iterator[None]:
    job.close_output()
    yield


def _small(path: str, options: str) -> Strike:
    """Have a file system there that is full, or cannot be written."""

    @contextmanager
    def strike(job: PlayedJob) -> Iterator[None]:
        full = f"dd if=/dev/zero of={path}/full bs=4k count=99999 2>/dev/null || true"
        mount = f"mount -t tmpfs -o X-mount.mkdir,size=64k disk {path}"
        job.n2.administer(mount, full, f"mount -o remount,{options} {path}")
        try:
            yield
        finally:
            job.n2.administer(f"umount --lazy {path}")
            if path == LOGS:
                job.n2.administer(f"rmdir {path}")
                job.cluster.host("n1").administer(f"rm -r {path}")

    return strike


def _sshd(**options: str) -> Strike:
    @contextmanager
    def strike(job: PlayedJob) -> Iterator[None]:
        with job.n2.sshd(**options):
            yield

    return strike


@contextmanager
def _port(job: PlayedJob) -> Iterator[None]:
    with beside(job.cluster.host("n1"), holder(29500)):
        yield


def _slurm(*words: str, healing: tuple[str, ...] = ()) -> Strike:
    """Run a command of Slurm's, and another one to heal it."""

    @contextmanager
    def strike(job: PlayedJob) -> Iterator[None]:
        assert job.slurm is not None
        job.slurm.run(*(word.format(job.allocated) for word in words))
        time.sleep(A_WHILE)
        try:
            yield
        finally:
            if healing:
                job.slurm.run(*healing)

    return strike


_NODE = ("scontrol", "update", "NodeName=n2")

STRIKES: dict[str, Strike] = {
    "none": _nothing,
    "none-watched": _nothing,
    "worker-sigkill": _signal(KILL, _worker),
    "worker-sigterm": _signal(TERM, _worker),
    "worker-hangs": _signal(STOP, _worker),
    "worker-exits": _order("7", 3),
    "worker-raises": _order("raise", 3),
    "all-fail": _order("40", 0, 1, 2, 3),
    "children": _order("7", 3),
    "two-workers-sigkill": _signal(KILL, _worker, _other_worker),
    "dsrun-sigkill": _signal(KILL, _runner),
    "dsrun-sigterm": _signal(TERM, _runner),
    "dsrun-sigint": _signal(INT, _runner),
    "dsrun-sigstop": _stop_runner,
    "launcher-sigkill": _signal(KILL, _launcher),
    "launcher-sigterm": _signal(TERM, _launcher),
    "launcher-sigstop": _signal(STOP, _launcher),
    "guard-sigkill": _signal(KILL, _guard),
    "guard-sigterm": _signal(TERM, _guard),
    "guard-sigstop": _stop_guard,
    "client-sigkill": _signal(KILL, _client),
    "client-sigstop": _stop_client,
    "session-sigkill": _signal(KILL, _session),
    "hold-sigkill": _signal(KILL, _hold),
    "server-sigkill": _signal(KILL, _server),
    "dsrun-launcher-sigkill": _signal(KILL, _runner, _launcher),
    "dsrun-client-sigkill": _signal(KILL, _runner, _client),
    "guard-launcher-sigkill": _signal(KILL, _guard, _launcher),
    "power": _power,
    "off": _power,
    "frozen": _freeze,
    "cut": _cut,
    "cut-login": _cut_login,
    "cut-out": _one_way(0),
    "cut-in": _one_way(1),
    "heals": _heals,
    "slow": _bad_cable(0.3, 0.0),
    "lossy": _bad_cable(0.0, 0.1),
    "reader-gone": _reader,
    "log-disk-full": _small(LOGS, "rw"),
    "drain": _slurm(*_NODE, "State=DRAIN", "Reason=test", healing=(*_NODE, "State=RESUME")),
    "scancel": _slurm("scancel", "{}"),
    "sshd-down": _sshd(Port="2222"),
    "no-key": _sshd(AuthorizedKeysFile="/dev/null"),
    "port-taken": _port,
    "tmp-full": _small("/tmp", "rw"),
    "tmp-read-only": _small("/tmp", "ro"),
    "shm-full": _small("/dev/shm", "rw"),
}
"""For each of `rows.FAULTS` what begins it and, at the end of the block, heals the hosts."""

VEILED = {"power", "off", "frozen"}
"""Faults before whose end nobody can tell what is left on the hosts."""
