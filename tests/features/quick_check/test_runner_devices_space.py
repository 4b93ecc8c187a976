"""Room where a job writes."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.control.facts import Space
from dsrun.launcher.features.quick_check.runner_devices import check_space

from ...support.node_facts import GIB, USUAL, compared_node

MIB = 1 << 20


def found(*spaces: Space, **more: Any) -> list[tuple[str, str]]:
    return [
        (one.code, one.text) for one in check_space([compared_node("a", spaces=spaces, **more)])
    ]


def space(role: str = "work", free: int = 50 * GIB, **changes: Any) -> Space:
    made = Space(role, f"/{role}", 100 * GIB, free, 10**6, True)
    return made._replace(**changes)


def test_enough_room() -> None:
    assert found(*USUAL.spaces) == []
    assert found(space(free=2 * GIB), space("tmp", free=200 * MIB, total=512 * MIB)) == []


def test_no_shared_memory_at_all() -> None:
    assert found(space("shm", free=MIB - 1)) == [("shm-full", "/shm: 1024 KiB of 100 GiB free")]
    assert found(space("shm", inodes=0)) == [("shm-full", "/shm: no files left")]


@pytest.mark.parametrize("role", ["work", "log", "tmp"])
def test_no_room_where_a_job_need_not_write(role: str) -> None:
    assert found(space(role, free=0)) == [("space-low", f"/{role}: 0 bytes of 100 GiB free")]
    assert found(space(role, inodes=0)) == [("space-low", f"/{role}: room for only 0 more files")]


def test_little_room() -> None:
    assert found(space(free=GIB - 1)) == [("space-low", "/work: 1024 MiB of 100 GiB free")]
    assert found(space(inodes=999)) == [("space-low", "/work: room for only 999 more files")]
    assert found(space(inodes=1000), space("log", inodes=-1)) == []


def test_folders_of_one_disk_share_a_finding() -> None:
    assert found(space(free=MIB), space("tmp", free=MIB), space("tmp", free=MIB)) == [
        ("space-low", "/work and /tmp: 1 MiB of 100 GiB free")
    ]


def test_shared_memory_for_each_worker() -> None:
    docker = space("shm", free=64 * MIB, total=64 * MIB)
    assert found(docker, workers=1) == found(docker, workers=0) == []
    assert found(docker, workers=2) == [
        ("shm", "/shm: 64 MiB of 64 MiB free; 2 workers need about 128 MiB there")
    ]


def test_folders_that_are_only_read_do_not_count() -> None:
    image: dict[str, Any] = {"free": 0, "writable": False}
    assert found(space(**image), space("shm", total=0, free=0)) == []
    assert found(space(**image), space("tmp", **image)) == [("tmp", "/tmp: not writable")]
