"""A job of roles from its spec to its exit code; its nodes are played by the test."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.backends.base import Part
from dsrun.launcher.backends.events import SessionEnded
from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.control import frames, local
from dsrun.launcher.features.roles.runner_launch import programs_of
from dsrun.launcher.head.job.start import PreparedStart, launch
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.policies import OutputPolicy
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.roles import RoleSpec, RolesSpec

from ...support.fake_nodes import FakeNodes, dispositions
from ...support.local_control import received, request
from ...support.pictures import embedded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ...support.fake_nodes import FakeNode

    Steps = Iterator[Callable[[], bool]]
    Nodes = Sequence[FakeNode]


def job(*hosts: str, **more: Any) -> JobSpec:
    plan = Plan(lay_out([Host(host, (0, 1)) for host in hosts]), Program("x"), "ssh", None, None)
    return JobSpec("j", plan, "/work", **more)


class Played:
    """Plays jobs of a server on n0 and a trainer on n1."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.file, self._capfd = folder / "report.json", capfd

    def __call__(self, history: Callable[[Nodes], Steps]) -> tuple[int, str]:
        """Return the exit code, and what was said."""
        whole = job("n0", "n1", held=True, output=OutputPolicy(report_file=str(self.file)))
        roles = RoleSpec("server", job("n0"), "never"), RoleSpec("trainer", job("n1"), "job")
        parts = [Part(FakeNodes(history), list(whole.plan.nodes))]
        with dispositions():
            start = PreparedStart(whole.plan, parts)
            code = launch(whole, start, programs=programs_of(RolesSpec(whole, roles)))
        return code, self._capfd.readouterr().err

    @property
    def report(self) -> dict[str, Any]:
        """What --report_file has."""
        told: dict[str, Any] = json.loads(self.file.read_text())
        return told


@pytest.fixture
def play(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Played:
    return Played(tmp_path, capfd)


def started(nodes: Nodes) -> Steps:
    for node in nodes:
        yield node.got(frames.JOB)
    for node in nodes:
        node.hello(port=29500)
    for node in nodes:
        yield node.got(frames.START)


def test_a_job_that_ends_well(play: Played) -> None:
    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        server, trainer = nodes
        for rank in (0, 1):
            trainer.exits(rank, 0)
        trainer.done()
        yield server.got(frames.STOP)
        server.stops(0, 1)
        yield server.got(frames.END)

    code, said = play(history)
    assert code == 0
    opening, done = said.splitlines()
    assert opening == "dsrun: 2 nodes from this program over ssh; job j"
    assert re.fullmatch(r"dsrun: done after [\d.]+ s: 4 workers of 2 roles on 2 hosts", done)
    assert play.report["roles"]["server"]["state"] == "ended"


def test_its_end_is_told_to_those_who_wait(play: Played) -> None:
    line, fd = socket.socket(socket.AF_UNIX), os.memfd_create("report")

    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        line.connect(f"\0{local.address(local.JOB, 'j')}")
        socket.send_fds(line, [request(do="wait", id=1, fds=1)], [fd])
        yield lambda: received(line) == [(frames.EVENT, {"event": "Waiting"})]
        server, trainer = nodes
        trainer.exits(0, 5)
        trainer.exits(1, -15, told=True)
        trainer.done()
        yield server.got(frames.STOP)
        server.stops(0, 1)
        yield server.got(frames.END)

    code, said = play(history)
    assert code == 5
    assert received(line) == [(frames.ANSWER, {"ok": True, "code": 5, "id": 1})]
    line.close()
    told = json.loads(os.pread(fd, 1 << 16, 0))
    os.close(fd)
    assert said.endswith(f"{told['text']}\n")
    assert told["report"] == play.report


def test_its_picture_has_all_roles(play: Played, tmp_path: Path) -> None:
    play.file = tmp_path / "r.html"

    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        server, trainer = nodes
        for rank in (0, 1):
            trainer.exits(rank, 0)
        trainer.done()
        yield server.got(frames.STOP)
        server.stops(0, 1)
        yield server.got(frames.END)

    play(history)
    data = embedded(play.file.read_text())
    assert data["hosts"] == ["server/n0", "trainer/n1"]
    assert data["counts"] == {"roles": 2, "hosts": 2, "ranks": 4}


def test_a_job_that_fails(play: Played) -> None:
    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        server, trainer = nodes
        server.exits(1, 9)
        server.exits(0, -15, told=True)
        server.done()
        yield trainer.got(frames.STOP)
        trainer.stops(0, 1)

    code, said = play(history)
    assert code == 9
    assert "dsrun: server: rank 1 (n0, local rank 1, pid 4001) exited with code 9" in said
    assert play.report["first_failure"]["exit_code"] == 9


def test_a_job_that_cannot_start(play: Played) -> None:
    def history(nodes: Nodes) -> Steps:
        yield nodes[0].got(frames.JOB)
        nodes[1].emit(SessionEnded(1, "no route to host"))
        nodes[0].hello(port=29500)
        yield nodes[0].got(frames.END)

    with pytest.raises(NodeError, match="role trainer: the job cannot start"):
        play(history)
    assert play.report["exit_code"] == 69


def test_a_signal_ends_it(play: Played) -> None:
    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        os.kill(os.getpid(), signal.SIGTERM)
        for node in nodes:
            yield node.got(frames.STOP)
            node.stops(0, 1)

    code, said = play(history)
    assert code == 128 + signal.SIGTERM
    assert "SIGTERM: stopping all roles, dependants first" in said
