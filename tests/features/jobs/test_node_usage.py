"""What workers and this machine use, asked through a session."""

from __future__ import annotations

import signal
import sysconfig
from functools import partial
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.control.job_messages import USAGE, DeviceUsage, RankUsage, Usage, UsageAsk
from dsrun.launcher.features.jobs import node_usage as device_usage
from dsrun.launcher.features.jobs import node_usage as usage
from dsrun.launcher.features.jobs.node_usage import DeviceQuestion
from dsrun.launcher.node.machine import processes

from ...support.fake_runner import running, stopped
from ...support.limits import NEVER
from ...support.questions import answers, question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...support.fake_runner import FakeRunner, Steps

pytestmark = pytest.mark.usefixtures("adopting")

ASK = question(USAGE, UsageAsk())


def last_usage(r: FakeRunner) -> Usage:
    return answers(r.received, USAGE)[-1]


def test_usage_is_reported_before_during_and_after_a_run(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        r.sends(frames.QUESTION, ASK)
        yield r.got(frames.REPLY)
        assert last_usage(r).ranks == ()
        yield from running(r)
        r.sends(frames.QUESTION, ASK)
        yield r.got(frames.REPLY, 2)
        (row,) = (RankUsage(*row) for row in last_usage(r).ranks)
        assert row.pid == r.all(frames.STARTED)[0]["pids"][0]
        assert (row.rank, row.processes) == (0, 1)
        assert row.memory > 0
        yield from stopped(r)
        r.sends(frames.QUESTION, ASK)
        yield r.got(frames.REPLY, 3)
        assert last_usage(r).ranks == ()
        r.end()

    assert runner.play(history) == 0


def test_devices_that_hang_hold_up_neither_the_answer_nor_the_end_of_a_run(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child that asks them is not taken for a process of the workers."""

    def hang(_: object) -> tuple[()]:
        signal.pause()
        return ()

    monkeypatch.setattr(device_usage, "read", hang)
    monkeypatch.setattr(usage, "DeviceQuestion", partial(DeviceQuestion, driver="/"))
    monkeypatch.setattr(device_usage, "SECONDS", NEVER)

    def history(r: FakeRunner) -> Steps:
        yield from running(r)
        r.sends(frames.QUESTION, ASK)
        yield lambda: len(processes.children()) == 3  # the guard's stand-in, a worker, the asker
        yield from stopped(r)
        assert r.all(frames.DONE)[0]["left"] == []
        assert len(processes.children()) == 2
        r.leap(NEVER)
        yield r.got(frames.REPLY)
        assert last_usage(r).devices == ()
        yield lambda: len(processes.children()) == 1
        r.end()

    assert runner.play(history) == 0


def test_devices_are_asked_by_way_of_the_packages_that_workers_have(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node launcher itself is started without any."""

    def read(folders: Sequence[str]) -> tuple[DeviceUsage, ...]:
        return tuple(DeviceUsage(0, folder, None, 0, 0) for folder in folders)

    monkeypatch.setattr(device_usage, "read", read)
    monkeypatch.setattr(usage, "DeviceQuestion", partial(DeviceQuestion, driver="/"))
    monkeypatch.setattr(device_usage, "SECONDS", NEVER)

    def history(r: FakeRunner) -> Steps:
        yield from running(r)
        r.sends(frames.QUESTION, ASK)
        yield r.got(frames.REPLY)
        folders = [DeviceUsage(*row).uuid for row in last_usage(r).devices]
        assert sysconfig.get_path("purelib") in folders
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0
