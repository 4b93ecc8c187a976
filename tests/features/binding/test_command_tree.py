"""A machine in text: whole drawings of small ones, and what holds for all that are made up."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.cpu_list import kernels_list
from dsrun.launcher.features.binding.command_tree import Machine, TreeNode, draw
from dsrun.launcher.features.binding.node_topology import read_topology

from ...support import machines
from ...support.machines import GIB, MACHINES, Made, known

if TYPE_CHECKING:
    from collections.abc import Sequence


def machine(
    made: str | machines.Machine,
    devices: Sequence[TreeNode] = (),
    nics: Sequence[TreeNode] = (),
    hidden: int = 0,
) -> Machine:
    """A made-up machine to be drawn, called `box`."""
    of = MACHINES[made] if isinstance(made, str) else made
    return Machine(
        name="box",
        topology=known(made),
        memory={node: size for node, size in of.memory.items() if size},
        hidden=hidden,
        title="NVIDIA GPUs" if devices else "",
        devices=devices,
        nics=nics,
    )


def lines(*words: str) -> str:
    return "\n".join(words)


# Whole drawings


def test_two_sockets_with_devices_and_cards() -> None:
    gpus = [TreeNode("cuda 0, 0000:17:00.0, H100", 0), TreeNode("cuda 1", 1), TreeNode("cuda 2", 1)]
    nics = [TreeNode("mlx5_0, InfiniBand, port 1 up", 1)]
    assert draw(machine("interleaved", gpus, nics)) == lines(
        "box: 2 sockets, 2 NUMA nodes, 8 cores, 16 threads, NVIDIA GPUs: 3",
        "├─ socket 0",
        "│  └─ NUMA node 0, 1.0 GiB",
        "│     ├─ 4 cores: cpus 0-3,8-11",
        "│     └─ cuda 0, 0000:17:00.0, H100",
        "└─ socket 1",
        "   └─ NUMA node 1, 1.0 GiB",
        "      ├─ 4 cores: cpus 4-7,12-15",
        "      ├─ cuda 1",
        "      ├─ cuda 2",
        "      └─ mlx5_0, InfiniBand, port 1 up",
    )


def test_caches_of_a_node_that_has_several() -> None:
    made = machines.Machine(machines.grid(1, 1, 3, 2, threads=2), {0: GIB * 3 // 2})
    assert draw(machine(made)) == lines(
        "box: 1 socket, 1 NUMA node, 6 cores, 12 threads, no accelerators",
        "└─ socket 0",
        "   └─ NUMA node 0, 1.5 GiB",
        "      └─ 6 cores: cpus 0-11",
        "         └─ 3 last-level caches: 0-1,6-7 | 2-3,8-9 | 4-5,10-11",
    )


def test_slower_cores_have_a_line_of_their_own() -> None:
    assert draw(machine("hybrid")) == lines(
        "box: 1 socket, 1 NUMA node, 14 cores, 20 threads, no accelerators",
        "└─ socket 0",
        "   └─ NUMA node 0, 1.0 GiB",
        "      ├─ 6 cores: cpus 0-11",
        "      └─ 8 slower cores: cpus 12-19",
    )


def test_sockets_that_share_a_node_show_its_devices_once() -> None:
    made = machines.Machine([Made((n,), 0, n // 2, l3=n // 2) for n in range(4)], {0: GIB})
    assert draw(machine(made, [TreeNode("cuda 0", 0)], [TreeNode("eth0", None)])) == lines(
        "box: 2 sockets, 1 NUMA node, 4 cores, NVIDIA GPUs: 1",
        "├─ socket 0",
        "│  └─ NUMA node 0, 1.0 GiB",
        "│     ├─ 2 cores: cpus 0-1",
        "│     ├─ cuda 0",
        "│     └─ eth0",
        "└─ socket 1",
        "   └─ NUMA node 0, 1.0 GiB",
        "      └─ 2 cores: cpus 2-3",
    )


def test_what_hangs_from_no_node_with_cores_is_shown_at_the_end() -> None:
    made = machines.Machine(machines.UNEVEN.cores, machines.gib([0, 1, 2]), beside={2: 0})
    gpus = [TreeNode("cuda 0", None), TreeNode("cuda 1", 2)]
    assert draw(machine(made, gpus, [TreeNode("eth0", None)])) == lines(
        "box: 2 sockets, 2 NUMA nodes, 7 cores, NVIDIA GPUs: 2",
        "├─ socket 0",
        "│  └─ NUMA node 0, 1.0 GiB",
        "│     └─ 3 cores: cpus 0-2",
        "├─ socket 1",
        "│  └─ NUMA node 1, 1.0 GiB",
        "│     └─ 4 cores: cpus 3-6",
        "├─ NUMA node 2, memory without cores, 1.0 GiB",
        "└─ on none of these NUMA nodes",
        "   ├─ cuda 0, NUMA node unknown",
        "   ├─ cuda 1, NUMA node 2",
        "   └─ eth0, NUMA node unknown",
    )


# One thing at a time


def test_a_device_of_unknown_node_is_at_the_only_one_there_is() -> None:
    drawn = draw(machine("one_socket", [TreeNode("cuda 0", None)]))
    assert drawn.endswith("└─ cuda 0")
    assert "not known" not in drawn


def test_fast_memory_is_told_from_other_memory() -> None:
    drawn = draw(machine("xeon_max"))
    assert drawn.count("fast memory without cores, 1.0 GiB") == 8
    assert "NUMA node 8, fast memory without cores" in drawn
    assert "fast" not in draw(machine("cxl"))
    assert draw(machine("cxl")).count("memory without cores") == 2


def test_parts_of_a_node_are_memory_of_its_cores_and_its_devices_hang_there() -> None:
    drawn = draw(machine("fake", [TreeNode("cuda 0", 2)]))
    assert "NUMA node 2, more memory for node 0's cores, 1.0 GiB" in drawn
    assert "without cores" not in drawn
    assert drawn.index("─ cuda 0") < drawn.index("socket 1")


def test_a_node_without_memory_has_no_size() -> None:
    assert "─ NUMA node 1\n" in draw(machine("memoryless"))


def test_caches_are_no_line_where_there_is_one() -> None:
    assert "caches" not in draw(machine("snc4"))
    assert draw(machine("epyc_nps4")).count("2 last-level caches") == 4


def test_only_what_may_be_used_is_drawn() -> None:
    drawn = draw(machine("odd_cpuset", hidden=12)).splitlines()
    assert drawn[0] == (
        "box: 2 sockets, 2 NUMA nodes, 3 cores, 4 threads, no accelerators,"
        " 12 cpus not available to dsrun"
    )
    cores = [line.partition("─ ")[2] for line in drawn if ": cpus " in line]
    assert cores == ["1 core: cpus 1", "2 cores: cpus 5,7,13"]


def test_a_machine_that_hides_all_is_still_drawn() -> None:
    tree = read_topology("/nowhere", range(3), "/nowhere")
    assert draw(Machine("box", tree, {}, 0, "", (), ())) == lines(
        "box: 1 socket, 1 NUMA node, 3 cores, no accelerators",
        "└─ socket 0",
        "   └─ NUMA node 0",
        "      └─ 3 cores: cpus 0-2",
    )


# All of them


@pytest.mark.parametrize("name", MACHINES)
def test_every_cpu_is_drawn_once(name: str) -> None:
    drawn = re.findall(r"cores?: cpus (\S+)$", draw(machine(name)), re.MULTILINE)
    found = Counter(cpu for text in drawn for cpu in kernels_list(text))
    assert found == Counter(MACHINES[name].cpus)


@pytest.mark.parametrize("name", MACHINES)
def test_every_device_and_card_is_drawn_once(name: str) -> None:
    nodes = [*MACHINES[name].memory, None, 99]
    gpus = [TreeNode(f"cuda {at};", node) for at, node in enumerate(nodes)]
    nics = [TreeNode(f"mlx5_{at};", node) for at, node in enumerate(nodes)]
    drawn = draw(machine(name, gpus, nics))
    assert {thing.text: drawn.count(thing.text) for thing in (*gpus, *nics)} == {
        thing.text: 1 for thing in (*gpus, *nics)
    }


@pytest.mark.parametrize("name", MACHINES)
def test_devices_are_drawn_at_their_nodes(name: str) -> None:
    homes = sorted({core.node for core in known(name).cores})
    drawn = draw(machine(name, [TreeNode(f"cuda {node};", node) for node in homes]))
    # Each node and what is below it, up to the next one; sockets may share a node.
    _, *parts = re.split(r"NUMA node (\d+)", drawn)
    below = zip(parts[::2], parts[1::2], strict=True)
    found = [(node, one) for node, text in below for one in re.findall(r"cuda (\d+);", text)]
    assert Counter(found) == Counter((str(node), str(node)) for node in homes)


@pytest.mark.parametrize("name", MACHINES)
def test_every_node_with_memory_is_drawn_with_its_size(name: str) -> None:
    drawn = draw(machine(name))
    for node, size in MACHINES[name].memory.items():
        if size:
            assert re.search(rf"─ NUMA node {node}\b.*, 1\.0 GiB$", drawn, re.MULTILINE)


@pytest.mark.parametrize("name", MACHINES)
def test_the_branches_fit_together(name: str) -> None:
    """Below a last branch no stroke goes on, and below any other one does."""
    gpus = [TreeNode("cuda 0", None), TreeNode("cuda 1", 99)]
    _, *rest = draw(machine(name, gpus)).splitlines()
    for line, following in zip(rest, [*rest[1:], ""], strict=True):
        strokes = re.match(r"(?:│  |   )*(├─ |└─ )", line)
        assert strokes, line
        at = strokes.start(1)
        assert (following[at : at + 1] in {"├", "└", "│"}) == (strokes[1] == "├─ "), line
