"""Backends that have been closed, on a loop that goes on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import backends
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import lay_out

from .commands import DIAL, go_on, install

if TYPE_CHECKING:
    from pathlib import Path

NODES = lay_out([Host("n1", (0,))])
REFUSED = "kex_exchange_identification: Connection closed by remote host"
PDSH = f"echo 'n1: {REFUSED}' >&2; echo 'pdsh@login: n1: ssh exited with exit code 255' >&2"
SSH = f'[ "$1" = -G ] || echo "{REFUSED}" >&2; exit 255'


@pytest.mark.parametrize(
    ("launcher", "program", "text"),
    [("pdsh", "pdsh", PDSH), ("openssh", "ssh", SSH)],
    ids=["pdsh", "openssh"],
)
def test_a_host_that_refused_for_the_moment_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str, program: str, text: str
) -> None:
    """A session that began now would be nobody's."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tries = tmp_path / "tries"
    install(tmp_path, program, f"echo >> {tries}; {text}")
    backend, loop = backends.load(launcher, BackendSettings(sys.executable, "/")), Loop()
    backend.start(NODES, loop, lambda _: None, DIAL)
    go_on(loop, lambda: not loop._calls)  # between two tries
    tried = tries.read_text()
    backend.close()
    go_on(loop)
    assert tries.read_text() == tried != ""
