"""A host whose processes get a part of a core only, by the kernel's CPU bandwidth control."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .hosts import Cluster

PERIOD = 100_000
"""Microseconds in which a quota is spent, as usual."""

FORMS = {
    "/sys/fs/cgroup/cpu": ("cpu.cfs_quota_us", "{quota}"),
    "/sys/fs/cgroup": ("cpu.max", "{quota} {period}"),
}
"""Where cgroups of both versions are, and how they are given a quota."""


def _is_empty(group: Path) -> bool:
    return not (group / "cgroup.procs").read_text()


@contextmanager
def cpu_cgroup(cores: float) -> Iterator[Path]:
    """A control group with so many cores; empty at the end of the block."""
    for root, (file, form) in FORMS.items():
        group = Path(root, f"dsrun-test-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / file).exists():
                (group / file).write_text(form.format(quota=int(cores * PERIOD), period=PERIOD))
                yield group
                wait_for(partial(_is_empty, group), "an empty cgroup")
                return
        finally:
            group.rmdir()
    pytest.skip("no control group with a CPU quota can be made here")


@contextmanager
def throttled(cluster: Cluster, name: str, cores: float) -> Iterator[None]:
    """What runs on a host, and will, shares so many cores inside the block."""
    host = cluster.host(name)
    with cpu_cgroup(cores) as group:
        try:
            _move(cluster, name, group)
            host.before = ("sh", "-c", f'echo 0 > {group}/cgroup.procs && exec "$@"', "sh")
            yield
        finally:
            host.before = ()
            _move(cluster, name, group.parent)


def _move(cluster: Cluster, name: str, group: Path) -> None:
    for process in cluster.processes():
        if process.host == name:
            with suppress(OSError):  # it has ended
                (group / "cgroup.procs").write_text(f"{process.pid}")
