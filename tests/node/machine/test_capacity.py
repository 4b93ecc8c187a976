"""What the machine gives the workers."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.machine import capacity

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30


def root_of(tmp_path: Path, **files: str) -> str:
    """Make a root with these files, whose names have two underscores for a slash."""
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return f"{tmp_path}/"


def test_limits_are_those_of_this_process() -> None:
    found = capacity.limits()
    assert found["nofile"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert found.keys() == {"nofile", "memlock", "nproc", "stack"}
    assert all(limit >= -1 for limit in found.values())


def test_memory_is_that_of_the_machine(tmp_path: Path) -> None:
    root = root_of(tmp_path, proc__meminfo="MemFree: 1 kB\nMemTotal:       2048 kB\n")
    assert capacity.memory(root) == 2 << 20
    assert capacity.memory(f"{tmp_path}/nothing/") == 0
    assert capacity.memory() > 0


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, 0),
        ({"proc__self__cgroup": "0::/a/b\n", "sys__fs__cgroup__a__memoryDOTmax": "max\n"}, 0),
        (
            {
                "proc__self__cgroup": "0::/a/b\n",
                "sys__fs__cgroup__a__memoryDOTmax": f"{2 * GIB}\n",
                "sys__fs__cgroup__a__b__memoryDOTmax": f"{3 * GIB}\n",
            },
            2 * GIB,
        ),
        ({"proc__self__cgroup": "0::/\n", "sys__fs__cgroup__memoryDOTmax": f"{GIB}\n"}, GIB),
        (
            {
                "proc__self__cgroup": "0::/a\x0bb\n",
                "sys__fs__cgroup__a\x0bb__memoryDOTmax": f"{GIB}\n",
            },
            GIB,
        ),
        (
            {
                "proc__self__cgroup": "2:cpu,cpuacct:/y\n4:memory:/x\n",
                "sys__fs__cgroup__memory__x__memoryDOTlimit_in_bytes": f"{GIB}\n",
                "sys__fs__cgroup__memory__memoryDOTlimit_in_bytes": f"{(1 << 63) - 4096}\n",
            },
            GIB,
        ),
    ],
)
def test_the_smallest_limit_up_the_chain_counts(
    files: dict[str, str], limit: int, tmp_path: Path
) -> None:
    assert capacity.cgroup_memory(root_of(tmp_path, **files)) == limit


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, None),
        ({"proc__self__cgroup": "0::/a\n", "sys__fs__cgroup__a__cpuDOTmax": "max 100000\n"}, None),
        ({"proc__self__cgroup": "0::/a\n", "sys__fs__cgroup__a__cpuDOTmax": "50000 100000\n"}, 0.5),
        (
            {
                "proc__self__cgroup": "2:cpu,cpuacct:/y/z\n",
                "sys__fs__cgroup__cpu,cpuacct__y__cpuDOTcfs_quota_us": "25000\n",
                "sys__fs__cgroup__cpu,cpuacct__y__cpuDOTcfs_period_us": "100000\n",
                "sys__fs__cgroup__cpu,cpuacct__y__z__cpuDOTcfs_quota_us": "-1\n",
                "sys__fs__cgroup__cpu,cpuacct__y__z__cpuDOTcfs_period_us": "100000\n",
            },
            0.25,
        ),
        (
            {
                "proc__self__cgroup": "1:name=systemd:/\n0::/a/b\n",
                "sys__fs__cgroup__unified__a__cpuDOTmax": "50000 100000\n",
                "sys__fs__cgroup__unified__a__b__cpuDOTmax": "75000 100000\n",
            },
            0.5,
        ),
        (
            {
                "proc__self__cgroup": "3:cpu:/\n0::/a\n",
                "sys__fs__cgroup__cpu__cpuDOTcfs_quota_us": "20000\n",
                "sys__fs__cgroup__cpu__cpuDOTcfs_period_us": "40000\n",
            },
            0.5,
        ),
        (
            {
                "proc__self__cgroup": "2:cpuacct,cpu:/docker/abc/job\n",
                "proc__self__mountinfo": "20 1 0:5 / /proc rw - proc proc rw\n"
                "31 20 0:29 /docker/abc /cg/cpu rw shared:4 - cgroup cgroup rw,cpuacct,cpu\n",
                "cg__cpu__cpuDOTcfs_quota_us": "-1\n",
                "cg__cpu__job__cpuDOTcfs_quota_us": "50000\n",
                "cg__cpu__job__cpuDOTcfs_period_us": "100000\n",
            },
            0.5,
        ),
        (
            {
                "proc__self__cgroup": "0::/../other\n",
                "proc__self__mountinfo": "30 1 0:27 / /cg rw - cgroup2 cgroup rw\n",
                "cg__cpuDOTmax": "50000 100000\n",
            },
            0.5,
        ),
    ],
    ids=["none", "no quota", "v2", "v1", "hybrid", "v1 beside v2", "part mounted", "outside"],
)
def test_cpus_are_bounded_by_affinity_and_quota(
    files: dict[str, str], cpus: float | None, tmp_path: Path
) -> None:
    everything = float(len(os.sched_getaffinity(0)))
    assert capacity.cpus(root_of(tmp_path, **files)) == (everything if cpus is None else cpus)


def test_each_quota_is_named_with_its_cgroup(tmp_path: Path) -> None:
    files = {
        "proc__self__cgroup": "0::/a/b\n",
        "sys__fs__cgroup__a__cpuDOTmax": "150000 100000\n",
        "sys__fs__cgroup__a__b__cpuDOTmax": "max 100000\n",
    }
    root = root_of(tmp_path, **files)
    assert [*capacity.quotas(root)] == [(f"{root}sys/fs/cgroup/a", 1.5)]


def test_file_systems_that_know_no_bounds() -> None:
    most = (1 << 64) - 1
    status = os.statvfs_result((4096, 1 << 24, most, most, most, 10, most, most, 0, 255))
    assert capacity.room(status) == (capacity.NO_LIMIT, capacity.NO_LIMIT, -1)
    status = os.statvfs_result((4096, 4096, 100, 50, 40, 0, 0, 0, 0, 255))
    assert capacity.room(status) == (409600, 163840, -1)
    status = os.statvfs_result((4096, 4096, 100, 50, 40, 9, 8, 7, 0, 255))
    assert capacity.room(status)[2] == 7


def test_a_folder_that_is_not_there_yet_has_the_room_of_the_one_above(tmp_path: Path) -> None:
    there = capacity.space("log", str(tmp_path / "a" / "b"))
    assert (there.role, there.path, there.writable) == ("log", str(tmp_path), True)
    assert 0 < there.free <= there.total


def test_the_folders_of_a_job(tmp_path: Path) -> None:
    spaces = capacity.spaces(str(tmp_path), "", {"TMPDIR": str(tmp_path)})
    assert [(one.role, one.path) for one in spaces] == [
        ("work", str(tmp_path)),
        ("tmp", str(tmp_path)),
        ("shm", "/dev/shm"),
    ]
    assert [one.role for one in capacity.spaces("/", "/", {})] == ["work", "log", "tmp", "shm"]


def test_a_folder_of_the_kernel_cannot_be_written() -> None:
    found = capacity.space("work", "/proc/1")
    assert not found.writable or os.getuid() == 0
    assert capacity.space("work", "/dev/null").path == "/dev"
    assert capacity.space("work", "") == ("work", "", 0, 0, -1, False)
