"""Networks where gloo's own choice of an address leads nowhere: dsrun trains, torchrun cannot."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from . import networks
from .hosts import Cluster
from .reaching import find
from .test_network import session_of
from .test_training import cache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .command import Dsrun

TIMEOUT = 180.0
BOTH = ("--host", "n1:1,n2:1")
ALL = pytest.mark.tier("all")

SHOW = """
import os, sys
names = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"
count, most = (os.environ[f"TORCHELASTIC_{name}"] for name in ("RESTART_COUNT", "MAX_RESTARTS"))
lines = [*(f"{name} {os.environ.get(name, '-')}" for name in names), f"restarted {count}"]
os.write(1, "".join(f"{one}\\n" for one in lines).encode())  # the end of the other cuts no line
sys.exit(count != most)
"""

WAIT = """
import os, sys, time
print("up", os.environ.get("GLOO_SOCKET_IFNAME", "-"), flush=True)
while not os.path.exists(os.path.join(os.path.dirname(sys.argv[0]), "end")):
    time.sleep(0.05)
"""

TRAIN = """
import torch
import torch.distributed as dist
import torch.distributed.nn  # once there is a group it would keep it, which may abort the exit
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
model(torch.ones(2, 4) * dist.get_rank()).sum().backward()
total = torch.tensor(dist.get_rank() + 1.0)
dist.all_reduce(total)
print("trained", dist.get_world_size(), total.item(), flush=True)
del model
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def cluster(shared: list[Path]) -> Iterator[Cluster]:
    """Two hosts whose network is changed."""
    with Cluster(2, shared=shared) as cluster:
        yield cluster


@contextmanager
def well(_cluster: Cluster) -> Iterator[None]:
    """Nothing is wrong."""
    yield


@contextmanager
def cards(cluster: Cluster) -> Iterator[None]:
    """The cards have different names, and the machines' own names stand for the loopback."""
    own = dict.fromkeys(cluster.names, "127.0.1.1")
    with (
        networks.renamed(cluster.host("n2"), "ens5"),
        networks.names(cluster, own, networks.addresses(cluster)),
    ):
        yield


@contextmanager
def decoys(cluster: Cluster) -> Iterator[None]:
    """The machines' own names stand for docker0, whose address is the same on all."""
    with networks.decoys(cluster) as address:
        own = dict.fromkeys(cluster.names, address)
        with networks.names(cluster, own, networks.addresses(cluster)):
            yield


@contextmanager
def cut(cluster: Cluster) -> Iterator[None]:
    """The machines' own names stand for a second network, which is cut at one of them."""
    with (
        networks.second_network(cluster, {"n1": "fast0", "n2": "enp7s0"}) as own,
        networks.names(cluster, own, networks.addresses(cluster)),
    ):
        cluster.switch("link set other2 down")
        yield


@contextmanager
def only_ipv6(cluster: Cluster) -> Iterator[None]:
    """There is no other IPv4 address than the loopback, for which their own names stand."""
    own = dict.fromkeys(cluster.names, "127.0.1.1")
    with networks.only_ipv6(cluster) as addresses, networks.names(cluster, own, addresses):
        yield


WRONG = [cards, decoys, cut, only_ipv6]


def script(folder: Path, text: str) -> str:
    path = folder / "work.py"
    path.write_text(text)
    return str(path)


def shown(ran: subprocess.CompletedProcess[str]) -> list[str]:
    assert ran.returncode == 0, ran.stderr
    return sorted({*ran.stdout.splitlines()})


def lines_about(ran: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in ran.stderr.splitlines() if "default network address" in line]


def test_each_node_gets_its_own_interface_in_every_round(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path = script(tmp_path, SHOW)
    with cards(cluster):
        ran = dsrun(*BOTH, "--max_restarts", "1", path)
    assert shown(ran)[:2] == ["n1:0| GLOO_SOCKET_IFNAME eth0", "n1:0| NCCL_SOCKET_IFNAME -"]
    for rank, card in ((0, "eth0"), (1, "ens5")):
        own = [line for line in ran.stdout.splitlines() if f":{rank}|" in line]
        assert own[-3].endswith(f"GLOO_SOCKET_IFNAME {card}")
        assert own[-1].endswith("restarted 1")
    (line,) = lines_about(ran)
    assert "127.0.1.1 of n1: it leads back to the machine itself" in line
    assert line.endswith(
        "set for the workers: GLOO_SOCKET_IFNAME=eth0 on n1; GLOO_SOCKET_IFNAME=ens5 on n2"
    )


@pytest.mark.tier("test")
def test_an_address_that_every_machine_has_is_not_taken_for_the_other_node(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path = script(tmp_path, SHOW)
    with decoys(cluster):
        ran = dsrun(*BOTH, path)
        own = dsrun(*BOTH, "--export", "GLOO_SOCKET_IFNAME=eth9", path)
        off = dsrun(*BOTH, "--no_check", path)
    assert shown(ran)[0] == "n1:0| GLOO_SOCKET_IFNAME eth0"
    assert "172.17.0.1 of n1: " in lines_about(ran)[0]
    assert (shown(own)[0], lines_about(own)) == ("n1:0| GLOO_SOCKET_IFNAME eth9", [])
    assert (shown(off)[0], lines_about(off)) == ("n1:0| GLOO_SOCKET_IFNAME -", [])


def test_of_two_networks_the_one_that_works_is_taken(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path = script(tmp_path, SHOW)
    gpus = ("--accelerator", "cuda", "--export", "CUDA_VISIBLE_DEVICES=0")
    with cut(cluster):
        ran = dsrun(*BOTH, *gpus, path)
        cluster.switch("link set other2 up")
        mended = dsrun(*BOTH, *gpus, path)
    assert shown(ran)[:2] == ["n1:0| GLOO_SOCKET_IFNAME eth0", "n1:0| NCCL_SOCKET_IFNAME =eth0"]
    assert len(lines_about(ran)) == 1
    assert shown(mended)[:2] == ["n1:0| GLOO_SOCKET_IFNAME -", "n1:0| NCCL_SOCKET_IFNAME -"]
    assert lines_about(mended) == []


@ALL
def test_a_node_that_comes_back_gets_its_interface_again(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path = script(tmp_path, WAIT)
    elastic = ("--elastic_training", "--max_restarts", "3", "--gain_delay", "0")
    with cards(cluster):
        running = dsrun.start(*BOTH, *elastic, path)
        running.wait_for_output("n2:1. up ens5", TIMEOUT)
        os.kill(find(cluster, "n2", session_of), signal.SIGKILL)
        running.wait_for_output("n2 is back", TIMEOUT)
        wait_for(lambda: running.stdout.count("n2:1| up ens5") == 2, "its workers", TIMEOUT)
        (tmp_path / "end").touch()
        ran = running.wait(TIMEOUT)
    assert (ran.returncode, len(lines_about(ran))) == (0, 2), ran.stderr
    assert "up -" not in ran.stdout


@pytest.mark.parametrize(
    "network", [*(pytest.param(one, marks=ALL) for one in (cards, decoys, cut)), only_ipv6]
)
@pytest.mark.usefixtures("torch_is_here")
def test_dsrun_trains(
    network: networks.Change, cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    path = script(tmp_path, TRAIN)
    with network(cluster):
        ran = dsrun(*BOTH, *cache(tmp_path), path, timeout=TIMEOUT)
    assert shown(ran) == ["n1:0| trained 2 3.0", "n2:1| trained 2 3.0"], ran.stderr


@ALL
@pytest.mark.parametrize("network", [well, *WRONG])
@pytest.mark.usefixtures("torch_is_here")
def test_bare_torchrun_does_not(network: networks.Change, cluster: Cluster, tmp_path: Path) -> None:
    """It hangs until gloo gives up after half an hour, or fails; where all is well it trains."""
    path = script(tmp_path, TRAIN)
    with ExitStack() as stack:
        stack.enter_context(network(cluster))
        first = "fd00:77::2" if network is only_ipv6 else cluster.host("n1").address
        place = ("--nnodes", "2", "--master_addr", first, "--master_port", "29517")
        seconds = "180" if network is well else "25"
        torchrun = ("timeout", seconds, sys.executable, "-m", "torch.distributed.run", *place)
        env = {"TMPDIR": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": f"{tmp_path}/inductor"}
        running = [
            stack.enter_context(host.popen([*torchrun, "--node_rank", str(rank), path], env=env))
            for rank, host in enumerate(cluster.hosts)
        ]
        outputs = [one.communicate(timeout=2 * TIMEOUT)[0] for one in running]
    trained = ["trained 2 3.0" in one for one in outputs]
    assert trained == [network is well] * 2, outputs
