"""What a run does if asked: who is given what. The services themselves have their own tests."""

from __future__ import annotations

import os
import socket

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames
from dsrun.launcher.control.messages import Probe
from dsrun.launcher.node.services import Services
from dsrun.launcher.node.workers.group import StopPolicy, WorkerGroup

from ..support.specs import shell

SPEC = shell("exit 0", 3)


def services(sent: list[bytes], *, shard_queue: bool = False) -> Services:
    return Services(Loop(), sent.append, print, shard_queue=shard_queue)


def test_workers_are_given_what_the_job_has() -> None:
    one, group = services([]), WorkerGroup(Loop(), StopPolicy(), print)
    with one.with_queues([SPEC], 1) as same, one.with_calls([SPEC], "", group) as plain:
        assert (same, plain) == ([SPEC], [SPEC])
    with one.with_calls([SPEC], "eA==", group) as (called,):
        payload, report = called.fds
        assert called.argv[-2:] == [b"%d" % payload, b"%d" % report]
        assert os.pread(payload, 9, 0) == b"x"


def test_lines_to_the_queues_end_with_their_worker() -> None:
    one = services([], shard_queue=True)
    one.answer(1, b"late")  # nobody has asked
    with one.with_queues([SPEC], 2) as (given,):
        fd = os.dup(given.fds[0])
    line = socket.socket(fileno=fd)
    one.ended(9)
    one.ended(3)
    with line:
        assert line.recv(1) == b""
    one.close()


def test_addresses_are_probed() -> None:
    sent: list[bytes] = []
    one = services(sent)
    assert list(one.pids) == []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one.probe(Probe(("127.0.0.1",), listener.getsockname()[1]))
        while not sent:
            one._loop.call_later(0.01, one._loop.stop)
            one._loop.run()
    one.close()
    assert sent == [frames.pack_json(frames.PROBED, {"verdicts": [""]})]
