"""PROBE as a service; `tests/features/quick_check/test_node_probes` plays its probes."""

from __future__ import annotations

import socket

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.messages import Probe
from dsrun.launcher.features.quick_check.node_probe_service import Probes

from ...support.played_run import run_until
from ...support.services import service_context


def test_addresses_are_probed() -> None:
    loop, sent = Loop(), list[bytes]()
    one = Probes(service_context(loop, sent.append))
    assert list(one.pids) == []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        probe = Probe(("127.0.0.1",), listener.getsockname()[1])
        one.receive(messages.pack(frames.PROBE, probe)[5:])
        run_until(loop, lambda: bool(sent), lambda: sent)
    one.close()
    assert sent == [frames.pack_json(frames.PROBED, {"verdicts": [""]})]


def test_a_probe_that_is_none_is_refused() -> None:
    with pytest.raises(frames.BadFrame):
        Probes(service_context()).receive(b"{}")
