"""BINDINGS at the end at the latest; `test_observed_affinity` tests what is seen until then."""

from __future__ import annotations

import os
from types import SimpleNamespace

from dsrun.launcher.control import frames
from dsrun.launcher.control.messages import NodeBindings, WorkerBinding
from dsrun.launcher.features.binding.node_report import AffinityReport
from dsrun.launcher.node.workers.spawn import Process

from ...support.services import START, group, service_context
from ...support.specs import shell


def test_cores_are_reported_once() -> None:
    sent: list[bytes] = []
    bound = NodeBindings("cpu", (WorkerBinding(0, os.getpid(), "", "", None),))
    specs = SimpleNamespace(bound=lambda _start, _processes: bound)
    one = AffinityReport(service_context(send=sent.append, specs=specs))
    one.close()
    assert sent == []
    one.started(START, group(Process(shell("exit 0"), os.getpid(), -1, -1, -1)))
    one.close()
    ((kind, body),) = frames.Decoder().feed(b"".join(sent))
    assert kind == frames.BINDINGS
    assert b'"cpu"' in body
