"""Cores shared out among workers: on sysfs trees of many machines, and on this one for real."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from dsrun.launcher.errors import UsageError
from dsrun.launcher.node.binding import (
    Binding,
    conflicts,
    format_cpus,
    numactl_argv,
    parse_core_list,
    plan_bindings,
)
from dsrun.launcher.node.topology import Core, Topology, numa_nodes, read_topology

from .needs import need


class Machine(NamedTuple):
    """A made-up machine.

    Attributes:
        cores: package, NUMA node and cpus of each physical core.
        memory: NUMA nodes and the KiB of memory on each.
    """

    cores: Sequence[tuple[int, int, Sequence[int]]]
    memory: Mapping[int, int]

    @property
    def cpus(self) -> set[int]:
        return {cpu for _, _, cpus in self.cores for cpu in cpus}


GIB = 1 << 20
ONE_SOCKET = Machine([(0, 0, [cpu]) for cpu in range(4)], {0: GIB})
# Intel's way: all first threads, then all second ones.
INTERLEAVED = Machine(
    [(core // 4, core // 4, [core, core + 8]) for core in range(8)], {0: GIB, 1: GIB}
)
# Siblings next to each other, as on POWER and in many virtual machines.
ADJACENT = Machine(
    [(core // 4, core // 4, [2 * core, 2 * core + 1]) for core in range(8)], {0: GIB, 1: GIB}
)
# Cpus dealt out to the sockets in turn.
ALTERNATING = Machine([(core % 2, core % 2, [core]) for core in range(8)], {0: GIB, 1: GIB})
# Sub-NUMA clusters whose ids alternate between the sockets.
CLUSTERS = Machine(
    [(core // 4, (core // 4) + 2 * (core // 2 % 2), [core]) for core in range(8)],
    dict.fromkeys(range(4), GIB),
)
# Xeon Max in flat mode: nodes 2 and 3 are high-bandwidth memory without cpus.
HBM = Machine(INTERLEAVED.cores, {0: GIB, 1: GIB, 2: GIB // 4, 3: GIB // 4})
# POWER9: ids with gaps, and a GPU's memory as a node of its own.
GAPS = Machine(
    [(core // 3 * 8, core // 3 * 8, [core]) for core in range(6)], {0: GIB, 8: GIB, 252: GIB}
)
# A virtual machine that calls every cpu a socket.
SOCKETS = Machine([(cpu, cpu % 2, [cpu]) for cpu in range(8)], {0: GIB, 1: GIB})
UNEVEN = Machine(
    [(0, 0, [0]), (0, 0, [1]), (0, 0, [2]), *[(1, 1, [n]) for n in range(3, 7)]], {0: GIB, 1: GIB}
)
MACHINES = {
    "one socket": ONE_SOCKET,
    "interleaved siblings": INTERLEAVED,
    "adjacent siblings": ADJACENT,
    "alternating sockets": ALTERNATING,
    "sub-NUMA clusters": CLUSTERS,
    "HBM without cpus": HBM,
    "gaps in node ids": GAPS,
    "a socket each": SOCKETS,
    "uneven sockets": UNEVEN,
}
SIBLINGS = ("thread_siblings_list", "core_cpus_list")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="ascii")


def build(root: Path, machine: Machine, siblings: str = "core_cpus_list") -> str:
    """Write the machine as a sysfs tree, in the form of Linux 6."""
    for package, _, cpus in machine.cores:
        for cpu in cpus:
            folder = root / f"devices/system/cpu/cpu{cpu}"
            write(folder / f"topology/{siblings}", ",".join(map(str, cpus)))
            write(folder / "topology/physical_package_id", str(package))
            if cpu:
                write(folder / "online", "1")
    for node, kib in machine.memory.items():
        folder = root / f"devices/system/node/node{node}"
        write(
            folder / "cpulist",
            format_cpus(c for _, n, cs in machine.cores if n == node for c in cs),
        )
        write(folder / "meminfo", f"Node {node} MemTotal:  {kib:>12} kB\nNode {node} MemFree: 7 kB")
    write(root / "devices/system/node/possible", "0-1023")
    return str(root)


def status(root: Path, nodes: str) -> str:
    write(root / "self/status", f"Name:\tx\nMems_allowed:\tffffffff\nMems_allowed_list:\t{nodes}")
    return str(root)


def topology(tmp_path: Path, machine: Machine, allowed: Sequence[int] = ()) -> Topology:
    return read_topology(
        build(tmp_path / "sys", machine),
        allowed or machine.cpus,
        proc=status(tmp_path / "proc", "0-1023"),
    )


# Reading


@pytest.mark.parametrize("siblings", SIBLINGS)
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_every_core_is_read_whole(tmp_path: Path, machine: Machine, siblings: str) -> None:
    root = build(tmp_path / "sys", machine, siblings)
    read = read_topology(root, machine.cpus, proc=status(tmp_path / "proc", "0-1023"))
    cores = [Core(tuple(cpus), node, package) for package, node, cpus in machine.cores]
    assert read == Topology(tuple(cores), frozenset(machine.memory))


def test_numa_nodes_without_cpus_do_not_count(tmp_path: Path) -> None:
    assert numa_nodes(topology(tmp_path, HBM)) == 2


def test_numa_nodes_without_allowed_cpus_do_not_count(tmp_path: Path) -> None:
    assert numa_nodes(topology(tmp_path, INTERLEAVED, allowed=[4, 5])) == 1


def test_only_allowed_cpus_are_read(tmp_path: Path) -> None:
    read = topology(tmp_path, INTERLEAVED, allowed=[3, 11, 12])
    assert read.cores == (Core((3, 11), 0, 0), Core((12,), 1, 1))


def test_only_allowed_memory_is_read(tmp_path: Path) -> None:
    root, proc = build(tmp_path / "sys", HBM), status(tmp_path / "proc", "1,3")
    assert read_topology(root, HBM.cpus, proc).memory_nodes == {1, 3}


def test_a_node_without_memory_is_no_memory_node(tmp_path: Path) -> None:
    machine = INTERLEAVED._replace(memory={0: GIB, 1: 0})
    assert topology(tmp_path, machine).memory_nodes == {0}


def test_all_memory_counts_where_proc_is_hidden(tmp_path: Path) -> None:
    root = build(tmp_path / "sys", INTERLEAVED)
    assert read_topology(root, {0}, str(tmp_path / "nowhere")).memory_nodes == {0, 1}


def test_cpus_switched_off_are_left_out(tmp_path: Path) -> None:
    root = Path(build(tmp_path / "sys", ONE_SOCKET))
    # As the kernel does it: the topology folder of such a cpu is gone.
    shutil.rmtree(root / "devices/system/cpu/cpu2/topology")
    write(root / "devices/system/cpu/cpu2/online", "0")
    cores = read_topology(str(root), range(4)).cores
    assert [core.cpus for core in cores] == [(0,), (1,), (3,)]


def test_files_that_leave_no_cpu_are_not_believed(tmp_path: Path) -> None:
    write(tmp_path / "devices/system/cpu/cpu1/online", "0")
    assert read_topology(str(tmp_path), [1]).cores == (Core((1,), 0, 0),)


def test_without_sysfs_every_cpu_is_a_core_on_node_0(tmp_path: Path) -> None:
    read = read_topology(str(tmp_path / "nowhere"), [5, 2, 7])
    assert read == Topology((Core((2,), 0, 0), Core((5,), 0, 0), Core((7,), 0, 0)), frozenset())


def test_cores_are_known_where_only_nodes_are_hidden(tmp_path: Path) -> None:
    root = Path(build(tmp_path, INTERLEAVED))
    shutil.rmtree(root / "devices/system/node")
    read = read_topology(str(root), [0, 8, 4])
    assert read == Topology((Core((0, 8), 0, 0), Core((4,), 0, 1)), frozenset())


def test_a_package_that_firmware_does_not_know_is_0(tmp_path: Path) -> None:
    root = build(tmp_path, Machine([(-1, 0, [0])], {0: GIB}))
    assert read_topology(root, [0]).cores == (Core((0,), 0, 0),)


def test_a_cpu_claimed_by_two_cores_is_used_once(tmp_path: Path) -> None:
    root = Path(build(tmp_path, ONE_SOCKET))
    write(root / "devices/system/cpu/cpu0/topology/core_cpus_list", "0-1")
    write(root / "devices/system/cpu/cpu2/topology/core_cpus_list", "1-2")
    cores = read_topology(str(root), range(4)).cores
    assert [core.cpus for core in cores] == [(0, 1), (2,), (3,)]


def test_this_process_is_asked_when_no_cpus_are_given() -> None:
    cores = read_topology().cores
    assert {cpu for core in cores for cpu in core.cpus} == os.sched_getaffinity(0)


# Sharing out


def written(bindings: Sequence[Binding]) -> list[tuple[str, int, str]]:
    return [(format_cpus(b.cpus), b.cores, format_cpus(b.memory)) for b in bindings]


PLANS = [
    (ONE_SOCKET, 1, [("0-3", 4, "")]),
    (ONE_SOCKET, 3, [("0-1", 2, ""), ("2", 1, ""), ("3", 1, "")]),
    (INTERLEAVED, 1, [("0-15", 8, "")]),
    (INTERLEAVED, 2, [("0-3,8-11", 4, "0"), ("4-7,12-15", 4, "1")]),
    (INTERLEAVED, 3, [("0-2,8-10", 3, "0"), ("3-5,11-13", 3, ""), ("6-7,14-15", 2, "1")]),
    (
        INTERLEAVED,
        4,
        [("0-1,8-9", 2, "0"), ("2-3,10-11", 2, "0"), ("4-5,12-13", 2, "1"), ("6-7,14-15", 2, "1")],
    ),
    (ADJACENT, 2, [("0-7", 4, "0"), ("8-15", 4, "1")]),
    (ALTERNATING, 2, [("0,2,4,6", 4, "0"), ("1,3,5,7", 4, "1")]),
    # Nodes 0 and 2 are the first socket: a worker of two nodes gets those.
    (CLUSTERS, 2, [("0-3", 4, ""), ("4-7", 4, "")]),
    (CLUSTERS, 4, [("0-1", 2, "0"), ("2-3", 2, "2"), ("4-5", 2, "1"), ("6-7", 2, "3")]),
    (SOCKETS, 2, [("0,2,4,6", 4, "0"), ("1,3,5,7", 4, "1")]),
    (HBM, 2, [("0-3,8-11", 4, "0"), ("4-7,12-15", 4, "1")]),
    (GAPS, 2, [("0-2", 3, "0"), ("3-5", 3, "8")]),
    # The larger share goes where it keeps both inside their nodes, else to the lower rank.
    (UNEVEN, 2, [("0-2", 3, "0"), ("3-6", 4, "1")]),
    (UNEVEN, 5, [("0-1", 2, "0"), ("2", 1, "0"), ("3-4", 2, "1"), ("5", 1, "1"), ("6", 1, "1")]),
]


@pytest.mark.parametrize(("machine", "workers", "shares"), PLANS)
def test_shares(
    tmp_path: Path, machine: Machine, workers: int, shares: list[tuple[str, int, str]]
) -> None:
    assert written(plan_bindings(topology(tmp_path, machine), workers)) == shares


def sizes_by_hand(nodes: Sequence[int], workers: int) -> int:
    """The fewest NUMA nodes touched, summed over the shares, of every even way to share out."""
    base, larger = divmod(len(nodes), workers)
    counts = []
    for ranks in itertools.combinations(range(workers), larger):
        left = iter(nodes)
        sizes = [base + (rank in ranks) for rank in range(workers)]
        counts.append(sum(len(set(itertools.islice(left, size))) for size in sizes))
    return min(counts)


ODD = {
    f"{first}+{second}+{third} cores": Machine(
        [
            (node, node, [100 * node + core])
            for node, count in enumerate((first, second, third))
            for core in range(count)
        ],
        {0: GIB, 1: GIB, 2: GIB},
    )
    for first, second, third in [(1, 1, 1), (1, 2, 3), (5, 1, 3), (4, 3, 4), (2, 7, 2)]
}


@pytest.mark.parametrize("machine", [*MACHINES.values(), *ODD.values()], ids=[*MACHINES, *ODD])
def test_shares_are_even_and_whole_and_leave_nothing(tmp_path: Path, machine: Machine) -> None:
    read = topology(tmp_path, machine)
    nodes = sorted(core.node for core in read.cores)
    for workers in range(1, len(read.cores) + 1):
        plan = plan_bindings(read, workers)
        assert len(plan) == workers
        assert sorted(cpu for binding in plan for cpu in binding.cpus) == sorted(machine.cpus)
        owners = [{c for c in read.cores if set(c.cpus) <= set(b.cpus)} for b in plan]
        assert [len(cores) for cores in owners] == [binding.cores for binding in plan]
        assert sum(b.cores for b in plan) == len(read.cores)
        assert max(b.cores for b in plan) - min(b.cores for b in plan) <= 1
        touched = sum(len({core.node for core in cores}) for cores in owners)
        assert touched == sizes_by_hand(nodes, workers)


def test_more_workers_than_cores_share_them(tmp_path: Path) -> None:
    machine = Machine([(0, 0, [0, 2]), (1, 1, [1, 3])], {0: GIB, 1: GIB})
    plan = plan_bindings(topology(tmp_path, machine), 8)
    assert written(plan) == [("0,2", 1, "0"), ("1,3", 1, "1")] * 4


def test_a_cpuset_smaller_than_the_machine_is_kept_to(tmp_path: Path) -> None:
    read = topology(tmp_path, INTERLEAVED, allowed=[1, 2, 3, 9, 10])
    assert written(plan_bindings(read, 2)) == [("1-2,9-10", 2, "0"), ("3", 1, "0")]


def test_memory_is_not_bound_where_it_is_not_allowed(tmp_path: Path) -> None:
    root, proc = build(tmp_path / "sys", HBM), status(tmp_path / "proc", "0,2")
    plan = plan_bindings(read_topology(root, HBM.cpus, proc), 2)
    assert [binding.memory for binding in plan] == [(0,), ()]


def test_memory_is_not_bound_to_the_only_node(tmp_path: Path) -> None:
    machine = INTERLEAVED._replace(memory={0: GIB, 1: 0})
    plan = plan_bindings(topology(tmp_path, machine), 2)
    assert [binding.memory for binding in plan] == [(), ()]


def test_many_workers_are_planned_without_recursion() -> None:
    cores = tuple(Core((cpu,), cpu // 250, cpu // 500) for cpu in range(1250))
    plan = plan_bindings(Topology(cores, frozenset(range(5))), 1200)
    assert sum(binding.cores for binding in plan) == 1250


# The core list


@pytest.mark.parametrize(
    ("core_list", "shares"),
    [
        ("0-3", [("0-1", 2, "0"), ("2-3", 2, "0")]),
        ("4-5,0", [("0", 1, "0"), ("4-5", 2, "1")]),
        ("1,9,6", [("1,9", 1, "0"), ("6", 1, "1")]),
        ("15", [("15", 1, "1"), ("15", 1, "1")]),
    ],
)
def test_a_core_list_is_all_that_is_used(
    tmp_path: Path, core_list: str, shares: list[tuple[str, int, str]]
) -> None:
    assert written(plan_bindings(topology(tmp_path, INTERLEAVED), 2, core_list)) == shares


def test_a_core_list_cannot_widen_what_is_allowed(tmp_path: Path) -> None:
    read = topology(tmp_path, INTERLEAVED, allowed=[0, 1, 2, 8])
    with pytest.raises(UsageError) as caught:
        plan_bindings(read, 2, "2-4,9")
    assert str(caught.value) == (
        "--bind_core_list: '2-4,9': cpu 3-4,9 may not be used here (allowed: 0-2,8)"
    )


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", (0,)),
        ("1,3-5", (1, 3, 4, 5)),
        ("8-9,0-1", (0, 1, 8, 9)),
        (" 0 , 2-3 ", (0, 2, 3)),
        ("4-4", (4,)),
    ],
)
def test_core_lists_are_read(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_core_list(text) == cpus


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", ""),
        ("1,", ""),
        ("a", "a"),
        ("0,5-3", "5-3"),
        ("-1", "-1"),
        ("1-2-3", "1-2-3"),
        ("0-99999999999", "0-99999999999"),
        ("99999999999", "99999999999"),
        ("1:3", "1:3"),
        ("1 2", "1 2"),
        ("\u0661", "\u0661"),
    ],
)
def test_a_bad_core_list_names_the_bad_part(text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_core_list(text)
    assert str(caught.value) == (
        f"--bind_core_list: '{part}': expected cpu numbers, such as '1' or '3-5'"
    )


def test_a_core_list_may_not_name_a_cpu_twice() -> None:
    with pytest.raises(UsageError) as caught:
        parse_core_list("0-4,3-5", where="DSRUN_BIND_CORE_LIST")
    assert str(caught.value) == "DSRUN_BIND_CORE_LIST: '0-4,3-5': cpu 3-4 is listed twice"


@pytest.mark.parametrize(
    ("cpus", "text"),
    [((), ""), ((0,), "0"), ((0, 1), "0-1"), ((8, 0, 3, 1, 2), "0-3,8"), ((1, 3, 5, 1), "1,3,5")],
)
def test_cpus_are_written_the_kernels_way(cpus: Sequence[int], text: str) -> None:
    assert format_cpus(cpus) == text


# Variables of the user's


def test_kmp_affinity_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        conflicts({"KMP_AFFINITY": "compact", "OMP_PLACES": "cores"})
    assert str(caught.value) == (
        "KMP_AFFINITY=compact: it places threads against the binding of cores;"
        " unset it, or leave out --bind_cores_to_rank"
    )


@pytest.mark.parametrize(
    ("environ", "kept"),
    [
        ({"OMP_PLACES": "cores"}, "OMP_PLACES=cores"),
        ({"GOMP_CPU_AFFINITY": "0-3"}, "GOMP_CPU_AFFINITY=0-3"),
        (
            {"OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": "0 2"},
            "GOMP_CPU_AFFINITY=0 2, OMP_PLACES=cores",
        ),
    ],
)
def test_other_affinities_are_kept_and_told(environ: Mapping[str, str], kept: str) -> None:
    text = f"kept as set: {kept}; threads are placed by that, within the cores bound"
    assert conflicts(environ) == text


@pytest.mark.parametrize("environ", [{}, {"OMP_NUM_THREADS": "4"}, {"KMP_AFFINITY": ""}])
def test_nothing_is_told_without_a_conflict(environ: Mapping[str, str]) -> None:
    assert conflicts(environ) is None


# The command


def test_numactl_is_told_cpus_and_memory() -> None:
    bound = Binding((0, 1, 2, 3, 8), 5, (0,))
    assert numactl_argv(bound, "/bin/numactl") == ["/bin/numactl", "-C", "0-3,8", "-m", "0", "--"]


def test_numactl_is_told_no_memory_without_a_rule() -> None:
    assert numactl_argv(Binding((1,), 1, ()), "numactl") == ["numactl", "-C", "1", "--"]


def test_no_numactl_no_command() -> None:
    assert numactl_argv(Binding((1,), 1, (0,)), None) == []


SHOW_AFFINITY = "import json, os; print(json.dumps(sorted(os.sched_getaffinity(0))))"
SHOW_PLAN = """
import json
from dsrun.launcher.node.binding import plan_bindings
from dsrun.launcher.node.topology import read_topology
print(json.dumps([[b.cpus, b.cores] for b in plan_bindings(read_topology(), 2)]))
"""


def run(argv: Sequence[str], **environ: str) -> str:
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={**os.environ, **environ}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_numactl_binds_each_worker_to_its_share() -> None:
    need("numactl")
    read = read_topology()
    for binding in plan_bindings(read, len(read.cores)):
        argv = numactl_argv(binding, shutil.which("numactl"))
        shown = run([*argv, sys.executable, "-c", SHOW_AFFINITY])
        assert json.loads(shown) == list(binding.cpus)


def test_numactl_takes_the_memory_rule() -> None:
    need("numactl")
    numactl = shutil.which("numactl")
    node = min(read_topology().memory_nodes)
    bound = Binding(tuple(sorted(os.sched_getaffinity(0))), 1, (node,))
    probe = subprocess.run(["numactl", "-m", str(node), "true"], capture_output=True, check=False)
    if b"not permitted" in probe.stderr:
        pytest.skip("set_mempolicy(2) is forbidden here, as in a container without CAP_SYS_NICE")
    shown = run([*numactl_argv(bound, numactl), "numactl", "--show"])
    assert "policy: bind" in shown
    assert f"membind: {node} \n" in shown


def test_numactl_leaves_the_command_its_dashes(tmp_path: Path) -> None:
    need("numactl")
    program = tmp_path / "-m"
    program.write_text('#!/bin/sh\nprintf "%s;" "$@"\n', encoding="ascii")
    program.chmod(0o700)
    bound = Binding((min(os.sched_getaffinity(0)),), 1, ())
    argv = [*numactl_argv(bound, shutil.which("numactl")), "-m", "-C", "7", "--", "a b"]
    assert run(argv, PATH=f"{tmp_path}:{os.environ['PATH']}") == "-C;7;--;a b;"


def test_a_narrowed_launcher_plans_inside_its_mask() -> None:
    need("taskset")
    cpu = min(os.sched_getaffinity(0))
    shown = run(["taskset", "-c", str(cpu), sys.executable, "-c", SHOW_PLAN])
    assert json.loads(shown) == [[[cpu], 1], [[cpu], 1]]


def test_a_narrowed_launcher_binds_inside_its_mask() -> None:
    need("taskset", "numactl")
    cpu = max(os.sched_getaffinity(0))
    argv = numactl_argv(Binding((cpu,), 1, ()), shutil.which("numactl"))
    shown = run(["taskset", "-c", str(cpu), *argv, sys.executable, "-c", SHOW_AFFINITY])
    assert json.loads(shown) == [cpu]


def test_planning_loads_nothing_slow() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import dsrun.launcher.node.binding, dsrun.launcher.node.topology\n"
        "print(sorted(set(sys.modules) - before))"
    )
    loaded = run([sys.executable, "-c", code])
    assert "dsrun.launcher.node.topology" in loaded
    for name in ("pathlib", "glob", "fnmatch", "argparse", "logging", "torch"):
        assert f"'{name}'" not in loaded
