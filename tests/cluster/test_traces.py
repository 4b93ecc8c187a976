"""What is removed behind a test: only what it has made on its hosts itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .machines import HOME
from .traces import Traces, nothing_left, obstacle

if TYPE_CHECKING:
    from .hosts import Cluster

MOUNTED = f"""
mkdir -p {HOME}/kept /tmp/outer/inner "/tmp/a blank" /tmp/alike
echo kept > {HOME}/kept/file
mount --bind {HOME}/kept "/tmp/a blank"
mount --bind {HOME}/kept /tmp/outer/inner
mkdir /tmp/plain; echo old > /tmp/plain/file
mount --bind /tmp/plain /tmp/alike
"""
"""Bind mounts of a folder that only the cluster has, as of a checkout below `/tmp`; the last one is
of the same device."""

GONE = f"""
umount "/tmp/a blank" /tmp/outer/inner /tmp/alike
rm -r {HOME}/kept /tmp/outer "/tmp/a blank" /tmp/alike
"""


def test_what_is_mounted_on_a_host_is_not_removed(cluster: Cluster) -> None:
    host = cluster.host("n1")
    traces = Traces(cluster)
    host.administer(MOUNTED)
    try:
        kept = traces.remove()
        left = host.root / HOME.lstrip("/") / "kept" / "file"
        assert left.read_text() == "kept\n"
        assert not (host.root / "tmp" / "plain").exists(), "nothing is mounted on it"
        assert kept == [
            f"n1: {path} is not removed: something is mounted there"
            for path in ("/tmp/a blank", "/tmp/alike", "/tmp/outer")
        ]
    finally:
        host.administer(GONE)


def test_what_was_there_before_or_is_the_real_machines_is_not_removed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = cluster.host("n1")
    host.administer("echo > /tmp/older")
    status = (host.root / "tmp" / "older").stat()
    assert obstacle(host, "/tmp/older", status.st_ctime_ns) == ""
    assert obstacle(host, "/tmp/older", status.st_ctime_ns + 1) == "it was there before"
    host.administer("rm /tmp/older")
    monkeypatch.setattr(type(host), "root", Path("/"))
    assert obstacle(host, "/tmp", 0) == "its folder is the real machine's"


def test_a_host_that_is_off_has_no_known_traces(cluster: Cluster) -> None:
    """Its files would all be new once it is on again."""
    host = cluster.host("n2")
    with host.powered_off(), pytest.raises(OSError, match="n2 is off"):
        Traces(cluster)


def test_what_a_test_leaves_is_named_and_removed(cluster: Cluster) -> None:
    host = cluster.host("n1")
    with pytest.raises(AssertionError, match="n1: /tmp/left is left"), nothing_left(cluster, 0.1):
        host.administer("echo > /tmp/left")
    assert not (host.root / "tmp" / "left").exists()
