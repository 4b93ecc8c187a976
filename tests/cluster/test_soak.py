"""A training that things happen to: workers, launchers, cables and whole hosts die and come back.

`make test-all` and `make soak` have a hundred things happen; without them it is three.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from .command import CHECKOUT
from .rounds import node_launcher, torch_agent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from .command import Dsrun, Running
    from .hosts import Cluster

pytestmark = pytest.mark.tier("all")

EXAMPLE = str(CHECKOUT / "examples" / "train_ddp.py")
SMALL = ("--batch", "48", "--lr", "0.002", "--log_every", "1", "--seed", "3")
HOSTS = ("n1", "n2", "n3")
FAULTS = int(os.environ.get("DSRUN_SOAK", "3"))
SEED = int(os.environ.get("DSRUN_SOAK_SEED", "1"))

LEASE = 5.0
"""Seconds of silence until a node counts as lost."""
SURE = 4
"""Steps beyond the last one that show that the training goes on."""


class Watch:
    """What rank 0 has told of the training so far."""

    def __init__(self, running: Running) -> None:
        self._running = running

    @property
    def step(self) -> int:
        """The last step that was told."""
        steps = re.findall(r"(?m)^n\d:0\| step +(\d+) ", self._running.stdout)
        return int(steps[-1]) if steps else 0

    @property
    def world(self) -> int:
        """The world size of the last round that was told of."""
        sizes = re.findall(r"(?m)^n\d:0\| world size (\d+)", self._running.stdout)
        return int(sizes[-1]) if sizes else 0

    @property
    def losses(self) -> list[tuple[int, float]]:
        """Every step that was done, some more than once."""
        found = re.findall(r"(?m)^n\d:0\| step +(\d+) +loss ([\d.]+)$", self._running.stdout)
        return [(int(step), float(loss)) for step, loss in found]

    def goes_on(self, after: str) -> float:
        """Seconds until the training has gone on.

        Raises:
            AssertionError: it has not in time.
        """
        last, began = self.step, time.monotonic()
        self.wait(lambda: self.step > last + SURE, f"steps after: {after}")
        return time.monotonic() - began

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something while the job runs.

        Raises:
            AssertionError: it has not come in time, or the job has ended; with what dsrun said.
        """
        try:
            wait_for(lambda: self._ended or condition(), what)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self._running.stderr}") from None
        assert not self._ended, f"ended before: {what}\n{self._running.stderr}"

    @property
    def _ended(self) -> bool:
        return self._running.process.poll() is not None


# -- what happens: a context manager each, at whose end everything is whole again ----------------


@contextmanager
def kills(pid: int) -> Iterator[None]:
    """A process is killed."""
    os.kill(pid, signal.SIGKILL)
    yield


@contextmanager
def freezes(pid: int, cluster: Cluster) -> Iterator[None]:
    """A process does nothing for longer than is allowed; it may be ended meanwhile."""
    handle = os.pidfd_open(pid)
    signal.pidfd_send_signal(handle, signal.SIGSTOP)
    time.sleep(LEASE + 1)
    try:
        yield
    finally:
        if any(one.pid == pid for one in cluster.processes()):
            signal.pidfd_send_signal(handle, signal.SIGCONT)
        os.close(handle)


@contextmanager
def blinks(cluster: Cluster, host: str) -> Iterator[None]:
    """A cable is out for a moment that nobody should notice."""
    with cluster.host(host).unplugged():
        time.sleep(LEASE / 8)
    yield


def worker(cluster: Cluster, host: str) -> int:
    """The worker on a host; the node launcher if there is none just now."""
    found = [p.pid for p in cluster.processes() if p.host == host and p.job and EXAMPLE in p.argv]
    return found[0] if found else node_launcher(cluster, host)


WHAT: dict[str, Callable[[Cluster, str], AbstractContextManager[None]]] = {
    "worker killed": lambda cluster, host: kills(worker(cluster, host)),
    "node launcher killed": lambda cluster, host: kills(node_launcher(cluster, host)),
    "torch's agent killed": lambda cluster, host: kills(torch_agent(cluster, host)),
    "node launcher frozen": lambda cluster, host: freezes(node_launcher(cluster, host), cluster),
    "cable out": lambda cluster, host: cluster.host(host).unplugged(),
    "cable out for a moment": blinks,
    "power out": lambda cluster, host: cluster.host(host).powered_off(),
}


def in_the_job(cluster: Cluster) -> list[str]:
    """The hosts on which there is a worker."""
    workers = [p.host for p in cluster.processes() if p.job and EXAMPLE in p.argv]
    return sorted(set(workers) & set(HOSTS))


def reference(steps: int) -> dict[int, float]:
    """The losses of as many steps when nothing happens."""
    command = [sys.executable, EXAMPLE, *SMALL, "--steps", str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {
        int(step): float(loss)
        for step, loss in re.findall(r"(?m)^step +(\d+) +loss ([\d.]+)$", done.stdout)
    }


@pytest.mark.usefixtures("torch_is_here")
def test_a_training_survives_what_happens_to_it(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No hang, the whole world size at the end, and every loss is that of an undisturbed run."""
    chance = random.Random(SEED)
    running = dsrun.start(
        "--host", ",".join(f"{host}:1" for host in HOSTS), "--elastic_training",
        "--min_wait", "60", "--restart_window", "5", "--cool_down", "10",
        "--heartbeat_timeout", f"{LEASE:g}",
        "--elastic_agent", agent, "--grace", "5", "--graceful_term_ok", "--accelerator", "cpu",
        "--export", f"TORCHINDUCTOR_CACHE_DIR={tmp_path}/inductor",
        EXAMPLE, *SMALL, "--steps", "1000000", "--checkpoint", str(tmp_path / "model.pt"),
        "--checkpoint_every", "1",
    )  # fmt: skip
    faults = [name for name in WHAT if agent == "torch" or not name.startswith("torch")]
    watch = Watch(running)
    watch.goes_on("the start")
    for number in range(FAULTS):
        happen(chance, cluster, watch, number, faults, capsys)
    watch.wait(lambda: watch.world == len(HOSTS), "all hosts")
    watch.goes_on("all hosts are back")
    running.process.terminate()
    assert running.wait().returncode == 0, str(running)
    told = watch.losses
    expected = reference(max(step for step, _ in told))
    assert [(s, loss) for s, loss in told if abs(expected[s] - loss) > 2e-4] == []


def happen(
    chance: random.Random,
    cluster: Cluster,
    watch: Watch,
    number: int,
    faults: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Let one or two things happen at once, to different hosts, and see the training go on."""
    there: list[str] = []

    def enough() -> bool:
        there[:] = in_the_job(cluster)
        return len(there) == watch.world > 1

    watch.wait(enough, "two hosts in a round, and no others on their way")
    victims = chance.sample(there, min(chance.choice((1, 1, 2)), len(there) - 1))
    named = {host: chance.choice(faults) for host in victims}
    text = ", ".join(f"{what} on {host}" for host, what in named.items())
    with ExitStack() as whole:
        for host, what in named.items():
            whole.enter_context(WHAT[what](cluster, host))
        seconds = watch.goes_on(text)
    with capsys.disabled():
        print(f"\n  {number + 1}: {text}: {seconds:.1f} s", end="", flush=True)
