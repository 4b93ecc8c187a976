"""What is watched beside the workers; `test_port_watch` and `test_observed_affinity` test how."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames
from dsrun.launcher.control.messages import NodeBindings, WorkerBinding
from dsrun.launcher.node.crash_evidence import memory
from dsrun.launcher.node.crash_evidence.kernel_log import KernelLog
from dsrun.launcher.node.run.watches import Watches
from dsrun.launcher.node.services import death_watch
from dsrun.launcher.node.workers.spawn import Process
from dsrun.launcher.specs.policies import WatchPolicy

from ...support.clock import Clock
from ...support.specs import shell

if TYPE_CHECKING:
    from collections.abc import Callable


def worker(rank: int, status: int | None = None) -> Process:
    made = Process(shell("exit 0", rank), os.getpid(), -1, -1, -1)
    made.status = status
    return made


@pytest.fixture
def watches() -> Callable[[list[bytes]], Watches]:
    return lambda sent: Watches(Loop(), sent.append, print)


def test_nothing_is_known_of_a_worker_that_nothing_has_happened_to(
    watches: Callable[[list[bytes]], Watches],
) -> None:
    one = watches([])
    assert one.causes(worker(0, 256), 1) == ("", "")
    one.begin()
    assert one.causes(worker(0, 256), 1) == ("", "")
    one.close()


def test_memory_that_ran_out_is_a_cause(
    watches: Callable[[list[bytes]], Watches], monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = iter([memory.Kills(3, {}), memory.Kills(4, {})])
    monkeypatch.setattr(memory, "kills", lambda: next(kills))
    monkeypatch.setattr(death_watch, "KernelLog", lambda: KernelLog("/nowhere"))
    one = watches([])
    one.begin()
    hint, evidence = one.causes(worker(0, signal.SIGKILL), -signal.SIGKILL)
    assert hint == "out of memory"
    assert evidence.startswith("memory: ")
    one.close()


def test_only_rank_0_has_the_store(watches: Callable[[list[bytes]], Watches]) -> None:
    one = watches([])
    one.watch_port(29500, [worker(1)])
    assert one._port is None
    one.watch_port(29500, [worker(1), worker(0)])
    assert one._port is not None
    assert one.causes(worker(1, 256), 1) == ("", "")
    one.close()


def test_cores_are_reported_at_the_end_at_the_latest(
    watches: Callable[[list[bytes]], Watches],
) -> None:
    sent: list[bytes] = []
    one = watches(sent)
    row = WorkerBinding(0, os.getpid(), "", "", None)
    one.watch_affinity(NodeBindings("cpu", (row,)), [worker(0)])
    one.close()
    ((kind, body),) = frames.Decoder().feed(sent[0])
    assert kind == frames.BINDINGS
    assert b'"cpu"' in body


def test_what_workers_do_is_reported_of_those_started_last() -> None:
    clock, sent = Clock(), list[bytes]()
    one = Watches(clock.loop, sent.append, print)

    def started(rank: int, sample: float) -> None:
        setup: Any = SimpleNamespace(
            task=SimpleNamespace(sample=sample, watch=WatchPolicy(), rendezvous="torch's")
        )
        group: Any = SimpleNamespace(running=lambda: [worker(rank)], printed=lambda _rank: 7)
        one.started(setup, 29500, group)

    started(3, 5.0)
    clock.go(5.0)
    started(4, 2.0)
    clock.go(2.0)
    clock.go(1.5)
    assert [frame.split(b'"ranks":[[')[1][:1] for frame in sent] == [b"3", b"4"]
    started(5, 0.0)
    clock.go(20.0)
    started(6, 2.0)
    one.close()
    clock.go(20.0)
    assert len(sent) == 2
