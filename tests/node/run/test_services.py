"""What a run does if asked: who is given what. The services themselves have their own tests."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.messages import NodeJob, Probe
from dsrun.launcher.control.reach_messages import Reach
from dsrun.launcher.node.machine.devices import NodeDevices
from dsrun.launcher.node.run.services import Services
from dsrun.launcher.specs.program import Program

from ...support.specs import shell

if TYPE_CHECKING:
    from dsrun.launcher.node.workers.prepare import NodeSetup

SPEC = shell("exit 0", 3)


def services(sent: list[bytes], *, shard_queue: bool = False) -> Services:
    return Services(Loop(), sent.append, print, shard_queue=shard_queue)


def test_workers_of_other_jobs_have_no_lines_to_queues() -> None:
    with services([]).with_queues([SPEC], 1) as given:
        assert given == [SPEC]


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


class Setup:
    """What the services need to know of a task's setup."""

    def __init__(self, *, reach: bool = True, usable: bool = True) -> None:
        self.task = NodeJob("1", "j", "n0", Program("x"), "/", {}, (0,), None, reach=reach)
        self.usable = usable
        self.base = {"GLOO_SOCKET_IFNAME": "own"}
        self.devices = NodeDevices({"DSRUN_ACCELERATOR": "cpu"}, {})


def test_other_nodes_may_try_this_one_until_its_workers_start() -> None:
    setup: NodeSetup = Setup()  # type: ignore[assignment]
    one = services([])
    network = one.network(setup)
    assert network is not None
    socket.create_connection(("127.0.0.1", network.port)).close()
    one.started(elastic=True)
    socket.create_connection(("127.0.0.1", network.port)).close()
    one.started(elastic=False)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", network.port))
    one.close()


@pytest.mark.parametrize("unlike", [{"reach": False}, {"usable": False}])
def test_nobody_tries_a_node_without_need(unlike: dict[str, bool]) -> None:
    setup: NodeSetup = Setup(**unlike)  # type: ignore[assignment]
    one = services([])
    assert one.network(setup) is None
    one.started(elastic=False)
    with pytest.raises(frames.BadFrame, match="REACH without"):
        one.reach(b"{}", setup)


def test_without_a_port_nobody_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(24, "too many open files")

    monkeypatch.setattr("dsrun.launcher.node.checks.reach.any_address", full)
    assert services([]).network(Setup()) is None  # type: ignore[arg-type]


def test_variables_for_the_workers_are_kept() -> None:
    setup: NodeSetup = Setup()  # type: ignore[assignment]
    one = services([])
    one.network(setup)
    one.reach(messages.pack(frames.REACH, Reach(1, (), {"A": "b"}))[5:], setup)
    assert setup.base["A"] == "b"
    one.close()
