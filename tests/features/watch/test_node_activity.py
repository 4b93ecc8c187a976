"""What is reported of workers: their processes are real, the node launcher's clock is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.activity_messages import Activity
from dsrun.launcher.features.watch import node_activity as activity
from dsrun.launcher.features.watch.node_activity import Idle, Sampler, family, is_traced, work_of
from dsrun.launcher.node.workers.spawn import Process

from ...support.clock import Clock
from ...support.limits import wait_for
from ...support.services import START, group, service_context
from ...support.specs import shell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[[str], subprocess.Popen[bytes]]

CHILD = "import os, signal; os.fork(); os.write(1, b'.'); signal.pause()"
THREAD_FORKS = (
    "import os, signal, threading, time\n"
    "def fork():\n"
    "    if os.fork() == 0: signal.pause()\n"
    "    os.write(1, b'.'); time.sleep(600)\n"
    "threading.Thread(target=fork).start()"
)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a Python program, and wait until it has written something."""
    running: list[subprocess.Popen[bytes]] = []

    def started(code: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-S", "-c", code]
        running.append(subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True))
        assert running[-1].stdout
        assert running[-1].stdout.read(1)
        return running[-1]

    yield started
    for one in running:
        os.killpg(one.pid, signal.SIGKILL)
        one.communicate()


def wait_until(true: Callable[[], bool]) -> None:
    """Wait for what the kernel is about to do."""
    wait_for(true, "what the kernel does")


@pytest.mark.parametrize("code", [CHILD, THREAD_FORKS])
def test_descendants_of_all_threads_belong_to_a_worker(code: str, start: Start) -> None:
    worker = start(code)
    wait_until(lambda: len(work_of(worker.pid).pids) == 2)
    (first, _), (_child, fields) = family(worker.pid)
    assert (first, fields[1]) == (worker.pid, str(worker.pid))


def test_a_large_family_is_bounded(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = start(CHILD)
    monkeypatch.setattr(activity, "MOST_PROCESSES", 1)
    assert work_of(worker.pid).pids == (worker.pid,)


def test_work_of_children_that_are_gone_counts(start: Start) -> None:
    busy = "if os.fork() == 0:\n while time.process_time() < 0.06: pass\n os._exit(0)\n"
    rest = "os.wait(); open('/proc/self/maps').read(); os.write(1, b'.'); time.sleep(600)"
    worker = start(f"import os, time\n{busy}{rest}")
    wait_until(lambda: work_of(worker.pid).state == "S")
    work = work_of(worker.pid)
    assert work.cpu >= 0.05
    assert 0 < work.main < work.cpu + 0.02
    assert work.moved > 500
    assert (len(work.pids), work.state) == (1, "S")


def test_a_process_that_is_gone_has_done_nothing() -> None:
    assert work_of(1 << 30) == ("", 0.0, 0.0, 0.0, 0, ())
    assert not is_traced(1 << 30)


def test_a_stopped_worker_is_seen_as_such(start: Start) -> None:
    worker = start("import os, time; os.write(1, b'.'); time.sleep(600)")
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: work_of(worker.pid).state == "T")


@pytest.mark.parametrize(
    ("cpu", "moved", "printed", "idle"),
    [
        (0.0, 0, 0, True),
        (0.049, 8192 * 5, 0, True),
        (0.051, 0, 0, False),
        (-1.0, 0, 0, False),  # a process of it has left
        (0.0, 8192 * 5 + 1, 0, False),
        (0.0, 0, 1, False),
    ],
)
def test_what_counts_as_idle(cpu: float, moved: int, printed: int, idle: bool) -> None:
    one = Idle(10.0)
    assert one.after(50.0, 3.0, 1 << 40, 7) == 0.0
    assert one.after(55.0, 3.0, 1 << 40, 7) == 5.0
    last = one.after(60.0, 3.0 + cpu, (1 << 40) + moved, 7 + printed)
    assert last == (10.0 if idle else 0.0)


def test_a_node_launcher_that_was_stopped_makes_nobody_idle() -> None:
    one = Idle(10.0)
    one.after(50.0, 0.0, 0, 0)
    assert one.after(500.0, 0.0, 0, 0) == 10.0


def test_a_short_interval_allows_for_the_kernels_ticks() -> None:
    one = Idle(1.0)
    one.after(50.0, 0.0, 0, 0)
    assert one.after(50.2, 0.02, 8192, 0) == pytest.approx(0.2)


@pytest.mark.parametrize(("each", "idle"), [(1600, True), (3000, False)])
def test_bytes_count_over_a_second_where_reports_come_sooner(each: int, idle: bool) -> None:
    """A checkpoint at 12 KB/s is work, however short the time between two reports."""
    one = Idle(1.0)
    seen = [one.after(50.0 + 0.2 * number, 0.0, each * number, 0) for number in range(40)]
    assert (max(seen) > 2.0) is idle


def test_each_message_has_all_workers_that_run(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "thread_time", lambda: 0.0)  # what takes long is done seldom
    worker = start("import os, time; os.write(1, b'.'); time.sleep(600)")
    wait_until(lambda: work_of(worker.pid).state == "S")
    clock, sent = Clock(), list[bytes]()
    running = [Process(shell("", 3), worker.pid, -1, -1, -1)]
    sampler = Sampler(service_context(clock.loop, sent.append, sample=2.0))
    sampler.started(START, group(running=lambda: running, printed=lambda rank: rank * 10))
    clock.go(2.0)
    clock.go(1.0)
    first, second = map(received, sent)
    assert (first.clock, second.clock, first.throttled) == (50.0, 52.0, 0.0)
    ((row),) = second.ranks
    assert (row.rank, row.pid, row.state, row.printed) == (3, worker.pid, "S", 30)
    assert (row.idle, row.traced, first.ranks[0].idle) == (2.0, False, 0.0)
    running.clear()
    clock.go(2.0)
    sampler.close()
    clock.go(20.0)
    assert len(sent) == 2


def test_a_debugger_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    status = "Name:\tx\nTracerPid:\t{}\n"
    monkeypatch.setattr(activity, "lines_of", lambda _path: status.format(77).splitlines())
    assert is_traced(1)
    monkeypatch.setattr(activity, "lines_of", lambda _path: status.format(0).splitlines())
    assert not is_traced(1)


def received(frame: bytes) -> Activity:
    """The message in a frame, as the runner has it."""
    ((kind, body),) = frames.Decoder().feed(frame)
    assert kind == frames.ACTIVITY
    return messages.unpack(Activity, body)


def test_what_takes_long_is_done_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = iter([0.0, 0.05])  # before and after the first look
    monkeypatch.setattr(system, "thread_time", lambda: next(costs))
    loop, waits = Loop(), list[float]()
    monkeypatch.setattr(loop, "call_later", lambda seconds, _call: waits.append(seconds))
    Sampler(service_context(loop, sample=2.0)).started(START, group())
    assert waits == [pytest.approx(5.0)]
