"""What the workers that are debugged are given."""

from __future__ import annotations

import os
import socket

import pytest

from dsrun.launcher.control import local
from dsrun.launcher.features.debug import node_sockets as sockets
from dsrun.launcher.node.workers.spawn import StartingWorkers, WorkerSpec

from .debugged import task

ENV = {b"A": b"1", b"PYTHONPATH": b"/mine:/yours"}
SPECS = [WorkerSpec(rank, [b"python"], ENV, b"/", fds=(9,)) for rank in (4, 5)]


def connect(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(f"\0{local.address('debug', name)}")


def test_only_they_get_a_socket_that_listens_until_they_have_it() -> None:
    job = task(5, 8)
    with sockets.outfit(SPECS, StartingWorkers(job)) as (four, five):
        assert four == SPECS[0]
        _, fd = five.fds
        assert five.env == {
            b"A": b"1",
            b"PYTHONPATH": sockets.HOOK + b":/mine:/yours",
            b"DSRUN_DEBUG": b"%d:wait" % fd,
        }
        connect(sockets.name(job.debug_secret, 5))
    with pytest.raises(ConnectionRefusedError):
        connect(sockets.name(job.debug_secret, 5))
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_all_of_them_that_do_not_wait() -> None:
    bare = [spec._replace(env={}) for spec in SPECS]
    with sockets.outfit(bare, StartingWorkers(task(wait=False))) as every:
        for spec in every:
            variable = b"%d:" % spec.fds[1]
            assert spec.env == {b"PYTHONPATH": sockets.HOOK, b"DSRUN_DEBUG": variable}


def test_a_name_that_is_taken_is_an_error_and_nothing_stays_open() -> None:
    job = task()
    taken = local.listener("debug", sockets.name(job.debug_secret, 5))
    with pytest.raises(OSError, match="in use"), sockets.outfit(SPECS, StartingWorkers(job)):
        pass
    taken.close()
    with sockets.outfit(SPECS, StartingWorkers(job)):
        pass
