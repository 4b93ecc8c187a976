"""Which program listens on the master port before rank 0: one of the job, or another user's."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.features.diagnosis.node_port_watch import PortWatch
from dsrun.launcher.node.machine import ports
from dsrun.launcher.node.workers.spawn import Process

from ...support.limits import HANG
from ...support.services import START, group, service_context
from ...support.specs import shell

if TYPE_CHECKING:
    from collections.abc import Iterator

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")

SOMEBODY = 54321
SERVE = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
one = socket.create_server(("", int(sys.argv[2])))
print("up", flush=True)
input()
"""
DIRECTLY = 'exec "$@"'
ELSEWHERE = 'exec 3<&0; "$@" <&3 3<&- &'
"""How a shell runs a command: as a child of the process that runs the shell, or detached."""


@pytest.fixture
def port() -> Iterator[int]:
    """A port that is held as for rank 0: others that set SO_REUSEADDR can listen there."""
    with closing(ports.Reservation(0)) as held:
        held.open_to_store()
        yield held.port


@contextmanager
def listening(how: str, uid: int, port: int) -> Iterator[None]:
    """A process listens on a port within the `with` block."""
    words = [sys.executable, "-I", "-S", "-c", SERVE, str(uid), str(port)]
    with subprocess.Popen(
        ["/bin/sh", "-c", how, "sh", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "up\n"
        yield
        process.stdin.write("\n")
        process.stdin.close()
        assert process.stdout.read() == ""


class Watched:
    """A watch on a port, on a real loop, which stops at its first report."""

    def __init__(self, port: int) -> None:
        self.loop = Loop()
        self.told = ""
        self.rank0 = Process(shell(""), 0, -1, -1, -1)
        self.watch = PortWatch(service_context(self.loop, stop=self._tell))
        self.watch.started(START._replace(master_port=port), group(self.rank0))

    def _tell(self, text: str) -> None:
        self.told = text
        self.loop.stop()


@needs_root
def test_a_stranger_who_listens_first_is_named(port: int) -> None:
    watched = Watched(port)
    watched.loop.call_later(HANG, watched.loop.stop)
    with listening(ELSEWHERE, SOMEBODY, port):
        watched.loop.run()
    here = os.uname().nodename
    assert watched.told == (
        f"port {port} on {here} was taken by uid {SOMEBODY} before rank 0 listened there:"
        " start the job again; without --master_port a free port is chosen"
    )
    assert watched.watch.problem() == ""  # told once


@needs_root
def test_a_name_is_told_where_the_machine_knows_it(port: int) -> None:
    watch = Watched(port).watch
    with listening(ELSEWHERE, 65534, port):
        assert "was taken by uid 65534 (nobody) before" in watch.problem()


@pytest.mark.parametrize(
    ("how", "uid"),
    [
        pytest.param(DIRECTLY, SOMEBODY, marks=needs_root, id="a worker that is another user"),
        pytest.param(ELSEWHERE, os.getuid(), id="what the same user runs elsewhere"),
    ],
)
def test_our_own_listener_is_no_stranger(port: int, how: str, uid: int) -> None:
    watch = Watched(port).watch
    assert watch.problem() == ""
    with listening(how, uid, port):
        assert watch.problem() == ""
    with listening(ELSEWHERE, uid, port):
        assert watch.problem() == "", "it has seen that rank 0 listened, and looks no more"


@needs_root
def test_nobody_looks_once_rank_0_has_ended(port: int) -> None:
    watched = Watched(port)
    watched.rank0.status = 0
    with listening(ELSEWHERE, SOMEBODY, port):
        watched.loop.call_later(0.3, watched.loop.stop)
        watched.loop.run()
    assert watched.told == ""
