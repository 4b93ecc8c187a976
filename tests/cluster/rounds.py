"""Elastic jobs on real hosts: a worker that tells of its rounds, and who is in which."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from ..support.limits import HANG
from .jobs import launchers
from .scripts import TRACEBACK

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun, Running
    from .hosts import Cluster

both_agents = pytest.mark.parametrize(
    "agent", ["dsrun", pytest.param("torch", marks=pytest.mark.tier("ci"))], indirect=True
)
"""Also with torch's agent in CI: for one test of each thing that an agent has to do."""

torchs_agent = pytest.mark.parametrize("agent", ["torch"], indirect=True)
"""For what only torch's agent does."""

IMPORT = HANG
"""Seconds for torch's agent to import torch on each node of a busy machine."""

WORKER = """
import os, signal, sys, time

folder = os.path.dirname(sys.argv[0])
names = ("RANK", "WORLD_SIZE", "GROUP_RANK", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT",
         "TORCHELASTIC_MAX_RESTARTS", "MASTER_ADDR")
where = f"{folder}/alive-{os.uname().nodename}-{os.environ['LOCAL_RANK']}"

def stop(number, frame):
    print("hears", signal.Signals(number).name, flush=True)
    os._exit(0)

def live():
    with open(where, "a") as file:
        file.write(f"{time.monotonic()}\\n")

signal.signal(signal.SIGTERM, stop)
live()
print("up", *(os.environ[name] for name in names), os.getpid(), flush=True)
while not os.path.exists(f"{folder}/end"):
    live()
    if os.path.exists("-".join((f"{folder}/fail", os.environ[names[0]], os.environ[names[4]]))):
        os._exit(7)
    time.sleep(0.02)
"""


def elastic(dsrun: Dsrun, work: str, hosts: str, *more: str) -> Running:
    """Start an elastic job without waiting for it."""
    common = ("--grace", "2", "--heartbeat_timeout", "6", "--accelerator", "cpu")
    return dsrun.start("--host", hosts, *common, *more, work)


def up(running: Running, count: int, world: int, restarts: int = 0) -> list[tuple[str, int]]:
    """(host, rank) of the workers of a round, once there are so many of that world and restart."""
    pattern = rf"(?m)^(\w+):\d+\| up (\d+) {world} \d+ \d+ {restarts} .*$"
    for number in range(count):
        running.wait_for_output(
            rf"(?s)(up \d+ {world} \d+ \d+ {restarts} .*){{{number + 1}}}", IMPORT
        )
    return [(host, int(rank)) for host, rank in re.findall(pattern, running.stdout)][-count:]


def placed(*hosts: str) -> list[tuple[str, int]]:
    return [(host, rank) for rank, host in enumerate(hosts)]


def ended(running: Running, folder: Path, code: int = 0) -> str:
    """Let the job end; returns what dsrun has said."""
    (folder / "end").touch()
    done = running.wait(IMPORT)
    assert done.returncode == code, str(running)
    assert TRACEBACK not in done.stderr
    return done.stderr


def node_launcher(cluster: Cluster, host: str) -> int:
    """The node launcher on a host, the last of several: a lost one may not have ended yet."""
    return launchers(cluster, host)[-1][1]


def torch_agent(cluster: Cluster, host: str) -> int:
    """Torch's agent on a host."""
    (found,) = [
        p.pid
        for p in cluster.processes()
        if p.host == host and any("agent.py" in a for a in p.argv)
    ]
    return found
