"""The wait for all nodes: what is said of it, and of hosts that share a cause."""

from __future__ import annotations

import pytest

from dsrun.launcher.head.fleet.node_connection import Peer
from dsrun.launcher.head.fleet.startup import SAY_AFTER, Gathering, listed
from dsrun.launcher.head.output.console import Console
from dsrun.launcher.resources.ranges import expand, runs_of, spell
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program

from .clock import Clock


class Waiting:
    """A job that waits for one host, and what is said meanwhile."""

    def __init__(self, capfd: pytest.CaptureFixture[str], level: str = "info") -> None:
        self.clock = Clock()
        self._capfd = capfd
        self._console = Console(self.clock.loop, level=level)
        nodes = lay_out([Host("n1", (0,))])
        self.gathering = Gathering(
            Plan(nodes, Program("x.py"), "mpich", None, None),
            [Peer(node) for node in nodes],
            self.clock.loop,
            self._console,
            connect_timeout=10.0,
            start_timeout=300.0,
            batches=None,
            least=None,
            leave=print,
            ready=print,
            refuse=print,
        )

    def go(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.clock.go(0.1)

    def said(self) -> list[str]:
        self._console.close()
        return self._capfd.readouterr().err.splitlines()


def test_an_engines_own_words_come_with_the_first_line_that_says_wait(
    capfd: pytest.CaptureFixture[str],
) -> None:
    job = Waiting(capfd)
    job.gathering.said("mpiexec: no such file: ssh")
    job.go(SAY_AFTER + 1)
    job.gathering.said("mpiexec: again")
    assert job.said() == [
        "dsrun: 0/1 hosts, waiting for n1",
        "dsrun: mpiexec: no such file: ssh",
        "dsrun: mpiexec: again",
    ]


def test_of_a_start_without_a_wait_nothing_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    job = Waiting(capfd)
    job.gathering.said("mpiexec: a warning")
    job.go(SAY_AFTER - 1)
    job.gathering.close()
    job.gathering.said("mpiexec: another")
    job.go(SAY_AFTER)
    assert job.said() == []


def test_with_debug_they_come_at_once_and_once(capfd: pytest.CaptureFixture[str]) -> None:
    job = Waiting(capfd, "debug")
    job.gathering.said("mpiexec: a warning")
    job.go(SAY_AFTER + 1)
    job.gathering.close()
    job.gathering.said("mpiexec: another")
    assert job.said() == [
        "dsrun: mpiexec: a warning",
        "dsrun: 0/1 hosts, waiting for n1",
        "dsrun: mpiexec: another",
    ]


@pytest.mark.parametrize(
    ("causes", "lines"),
    [
        ({"n1": "x (n1:22)"}, ["n1: x (n1:22)"]),
        ({f"n{i}": f"x (n{i}:22)" for i in range(1, 65)}, ["n[1-64]: x (HOST:22)"]),
        ({"a": "by 10.0.0.1 port 22", "b": "by 10.9.9.9 port 22"}, ["a, b: by ADDRESS port 22"]),
        ({"n1": "to n10", "n2": "to n20"}, ["n1: to n10", "n2: to n20"]),
        ({"n1": "key SHA256:a", "n2": "key SHA256:b"}, ["n1: key SHA256:a", "n2: key SHA256:b"]),
        ({f"{c}{i}": "x" for c in "abcdefg" for i in (1, 2, 3)}, [
            "a[1-3], b[1-3], c[1-3], d[1-3], e[1-3] and 6 more: x"
        ]),
    ],
)  # fmt: skip
def test_hosts_that_share_a_cause_share_its_line(causes: dict[str, str], lines: list[str]) -> None:
    assert listed(causes) == lines


@pytest.mark.parametrize(
    ("names", "spelt"),
    [
        (["n1", "n2", "n3", "n5"], ["n[1-3]", "n5"]),
        (["n08", "n09", "n10"], ["n[08-10]"]),
        (["n9", "n10", "n11"], ["n[9-11]"]),
        (["n1.c2", "n1.c3", "n1.c4"], ["n1.c[2-4]"]),
        (["a", "a", "b"], ["a", "a", "b"]),
        (["n1", "n2"], ["n1, n2"]),
        (["n3", "n2", "n1"], ["n3", "n2", "n1"]),
        (["n01", "n2", "n03"], ["n01", "n2", "n03"]),
    ],
)
def test_runs_of_names(names: list[str], spelt: list[str]) -> None:
    assert [spell(run) for run in runs_of(names)] == spelt
    assert [one for text in spelt for part in text.split(", ") for one in expand(part)] == names
