"""Where core dumps are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsrun.launcher.features.diagnosis.node_core_dump import place


@pytest.mark.parametrize(
    ("pattern", "with_pid", "where"),
    [
        ("core", "0", "/w/core"),
        ("core", "1", "/w/core.12"),
        ("core.%p", "1", "/w/core.12"),
        ("/var/dumps/%e.%p.%t%%", "0", "/var/dumps/*.12.*%"),
        (f"%h-%s-{'%u'}", "0", f"/w/{os.uname().nodename}-11-{os.getuid()}"),
        ("|/usr/lib/systemd/systemd-coredump %P %u", "0", "coredumpctl dump 12"),
        ("|/usr/share/apport/apport -p%p", "0", "/var/crash"),
        ("|/bin/false", "0", "given to false"),
        ("|/opt/{0} %p", "0", "given to {0}"),
        ("| /opt/keep", "0", "given to keep"),
        ("|", "0", "given to "),
        ("@@/run/dumps", "0", "given to the program at /run/dumps"),
        ("core.%", "0", "/w/core."),
        ("", "1", ""),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, with_pid: str, where: str) -> None:
    folder = tmp_path / "proc/sys/kernel"
    folder.mkdir(parents=True)
    (folder / "core_pattern").write_text(f"{pattern}\n")
    (folder / "core_uses_pid").write_text(f"{with_pid}\n")
    assert place(12, 11, "/w", f"{tmp_path}/") == where
