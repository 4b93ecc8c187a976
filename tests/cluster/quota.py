"""A host whose processes get a part of a core only, by the kernel's CPU bandwidth control."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.control_groups import removed
from ..support.limits import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .hosts import Cluster

PERIOD = 100_000
"""Microseconds in which a quota is spent, as usual."""

FORMS = {
    "/sys/fs/cgroup/cpu": {"cpu.cfs_quota_us": "{quota}", "cpu.shares": "262144"},
    "/sys/fs/cgroup": {"cpu.max": "{quota} {period}", "cpu.weight": "10000"},
}
"""Where cgroups of both versions are, and how they are given a quota, and the most weight: so the
host that has a quota uses it up, and the others do not wait, however busy the machine is."""


def _is_removed(group: Path) -> bool:
    """Move out what is in a group, and remove it; return whether that was possible."""
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(OSError):  # it has ended
            (group.parent / "cgroup.procs").write_text(pid)
    return removed(group)  # not if something has come meanwhile, or is dying still


@contextmanager
def cpu_cgroup(name: str, cores: float) -> Iterator[Path]:
    """A control group with so many cores; what is in it at the end of the block is moved out."""
    for root, files in FORMS.items():
        group = Path(root, f"dsrun-test-{os.getpid()}-{name}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if all((group / file).exists() for file in files):
                for file, form in files.items():
                    (group / file).write_text(form.format(quota=int(cores * PERIOD), period=PERIOD))
                yield group
                return
        finally:
            wait_for(partial(_is_removed, group), "an empty cgroup")
    pytest.skip("no control group with a CPU quota can be made here")


@contextmanager
def throttled(cluster: Cluster, name: str, cores: float) -> Iterator[None]:
    """What runs on a host, and will, shares so many cores inside the block.

    What runs on the other hosts, and nothing else, goes before other processes of the machine.
    """
    host = cluster.host(name)
    with cpu_cgroup("few", cores) as few, cpu_cgroup("all", os.cpu_count() or 1) as whole:
        try:
            for process in cluster.processes():
                group = few if process.host == name else whole
                with suppress(OSError):  # it has ended
                    (group / "cgroup.procs").write_text(f"{process.pid}")
            host.before = ("sh", "-c", f'echo 0 > {few}/cgroup.procs && exec "$@"', "sh")
            yield
        finally:
            host.before = ()
