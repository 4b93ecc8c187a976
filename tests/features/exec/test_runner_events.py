"""What all transports have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.features.exec.runner_ssh_hosts import SshHosts
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host

from ...support.fake_hosts import FakeHosts

if TYPE_CHECKING:
    from dsrun.launcher.features.exec.runner_events import Transport


def transports() -> list[Transport]:
    return [SshHosts(Loop(), [Host("localhost")], BackendSettings()), FakeHosts("localhost")]


def test_every_transport_knows_its_hosts_before_it_starts() -> None:
    for transport in transports():
        assert list(transport.hosts) == ["localhost"]
