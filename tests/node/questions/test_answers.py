"""Requests about this machine, through a session: USAGE_ASK and END_JOB."""

from __future__ import annotations

import signal
import subprocess
import sys
import sysconfig
from functools import partial
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.job_messages import DeviceUsage, EndJob, RankUsage, Usage
from dsrun.launcher.node.machine import device_usage, processes
from dsrun.launcher.node.machine.device_usage import DeviceQuestion
from dsrun.launcher.node.questions import answers

from ...support.fake_runner import running, stopped
from ...support.launcher_name import NAME
from ...support.limits import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...support.fake_runner import FakeRunner, Steps

pytestmark = pytest.mark.usefixtures("adopting")

WAIT = "import signal; print(flush=True); signal.pause()"


def last_usage(r: FakeRunner) -> Usage:
    body = [body for kind, body in r.received if kind == frames.USAGE][-1]
    return messages.unpack(Usage, body)


def test_usage_is_reported_before_during_and_after_a_run(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        r.sends(frames.USAGE_ASK)
        yield r.got(frames.USAGE)
        assert last_usage(r).ranks == ()
        yield from running(r)
        r.sends(frames.USAGE_ASK)
        yield r.got(frames.USAGE, 2)
        (row,) = (RankUsage(*row) for row in last_usage(r).ranks)
        assert row.pid == r.all(frames.STARTED)[0]["pids"][0]
        assert (row.rank, row.processes) == (0, 1)
        assert row.memory > 0
        yield from stopped(r)
        r.sends(frames.USAGE_ASK)
        yield r.got(frames.USAGE, 3)
        assert last_usage(r).ranks == ()
        r.end()

    assert runner.play(history) == 0


def test_what_another_job_has_left_is_ended_beside_a_run(runner: FakeRunner) -> None:
    env = {"DSRUN_JOB_ID": "other", NAME: "999999999:5"}
    argv = [sys.executable, "-ISc", WAIT]
    # Not a child of the node launcher, whose runs would end it.
    shell = ["sh", "-c", '"$@" & wait', "sh", *argv]

    def history(r: FakeRunner) -> Steps:
        yield from running(r)
        r.says(frames.END_JOB, EndJob("other", 15, 10.0))
        yield r.got(frames.ENDED_JOB)
        outcome = r.all(frames.ENDED_JOB)[0]
        assert (len(outcome["ended"]), outcome["left"]) == (2, [])
        assert r.exits() == []
        yield from stopped(r)
        r.says(frames.END_JOB, EndJob("none", 15, 10.0))
        yield r.got(frames.ENDED_JOB, 2)
        assert r.all(frames.ENDED_JOB)[1] == {"ended": [], "left": []}
        r.end()

    with subprocess.Popen(shell, env=env, stdout=subprocess.PIPE) as left:
        assert left.stdout
        left.stdout.readline()
        assert runner.play(history) == 0


def test_devices_that_hang_hold_up_neither_the_answer_nor_the_end_of_a_run(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child that asks them is not taken for a process of the workers."""

    def hang(_: object) -> tuple[()]:
        signal.pause()
        return ()

    monkeypatch.setattr(device_usage, "read", hang)
    monkeypatch.setattr(answers, "DeviceQuestion", partial(DeviceQuestion, driver="/"))
    monkeypatch.setattr(device_usage, "SECONDS", NEVER)

    def history(r: FakeRunner) -> Steps:
        yield from running(r)
        r.sends(frames.USAGE_ASK)
        yield lambda: len(processes.children()) == 3  # the guard's stand-in, a worker, the asker
        yield from stopped(r)
        assert r.all(frames.DONE)[0]["left"] == []
        assert len(processes.children()) == 2
        r.leap(NEVER)
        yield r.got(frames.USAGE)
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
    monkeypatch.setattr(answers, "DeviceQuestion", partial(DeviceQuestion, driver="/"))
    monkeypatch.setattr(device_usage, "SECONDS", NEVER)

    def history(r: FakeRunner) -> Steps:
        yield from running(r)
        r.sends(frames.USAGE_ASK)
        yield r.got(frames.USAGE)
        folders = [DeviceUsage(*row).uuid for row in last_usage(r).devices]
        assert sysconfig.get_path("purelib") in folders
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0


@pytest.mark.parametrize("body", [b"", b"{}", b'{"job_id":"j","number":99,"grace":1}'])
def test_an_invalid_request_ends_the_line(runner: FakeRunner, body: bytes) -> None:
    def history(r: FakeRunner) -> Steps:
        r.sends(frames.END_JOB, body)
        yield lambda: r.closed

    assert runner.play(history) == 75
