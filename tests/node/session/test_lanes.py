"""Further node launchers on a node: real ones, through the session of the first."""

from __future__ import annotations

import json
import os
import resource
import signal
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.common.errors import LOST, NODE_UNUSABLE, SWEPT
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.command_messages import OpenLane
from dsrun.launcher.node.machine import descendants, processes
from dsrun.launcher.node.session import signal_deduplicator
from dsrun.launcher.specs.container import ContainerSpec
from dsrun.launcher.specs.program import Program

from ...support.fake_runner import TRAP, WAITS, ran, running, stopped
from ...support.leaks import open_files
from ...support.limits import HANG

if TYPE_CHECKING:
    from ...support.fake_runner import FakeRunner, Steps

pytestmark = pytest.mark.usefixtures("adopting")


class Lane:
    """One lane of a runner that a test plays."""

    def __init__(self, r: FakeRunner, number: int = 1) -> None:
        self.r, self.number = r, number

    def says(self, kind: int, message: Any) -> None:
        """Send a message on it."""
        data = messages.pack(kind, message)
        self.r._socket.sendall(frames.pack_numbered(frames.LANE, self.number, data))

    def close(self) -> None:
        """Close it."""
        self.r._socket.sendall(frames.pack_numbered(frames.LANE, self.number))

    def data(self) -> bytes:
        """All that has come on it."""
        found = [
            frames.unpack_numbered(b) for kind, b in self.r.received if kind == frames.FROM_LANE
        ]
        return b"".join(data for number, data in found if number == self.number)

    def frames(self) -> list[tuple[int, bytes]]:
        """The frames that have come, after the magic word, without beats."""
        _, _, data = self.data().partition(frames.MAGIC)
        return [one for one in frames.Decoder().feed(data) if one[0] != frames.BEAT]

    def got(self, kind: int) -> bool:
        """Whether a frame of this kind has come."""
        return any(one == kind for one, _ in self.frames())

    def output(self) -> bytes:
        """What its workers have printed."""
        return b"".join(frames.unpack_output(b)[2] for k, b in self.frames() if k == frames.OUTPUT)

    def ended(self) -> dict[str, Any] | None:
        """How its process has ended."""
        return next(
            (one for one in self.r.all(frames.LANE_ENDED) if one["id"] == self.number), None
        )

    def runs(self, program: Program = WAITS) -> Steps:
        """Start a worker on it, and wait until it is ready."""
        self.says(
            frames.JOB,
            messages.NodeJob(
                dsrun=__version__,
                job_id="other",
                host="n0",
                program=program,
                workdir=str(self.r.folder),
                env={"DSRUN_ACCELERATOR": "cpu"},
                slots=(0,),
                port=None,
                lease=1e6,
                last_grace=5.0,
                held=True,
            ),
        )
        yield lambda: self.got(frames.HELLO)
        hello = next(json.loads(body) for kind, body in self.frames() if kind == frames.HELLO)
        assert hello["problems"] == []
        self.says(frames.START, messages.Start(0, (0,), 1, 0, 1, "127.0.0.1", 29501, 1 << 20))
        yield lambda: b"ready" in self.output()

    def pid(self) -> int:
        """The pid of its worker."""
        started = next(json.loads(body) for kind, body in self.frames() if kind == frames.STARTED)
        pid: int = started["pids"][0]
        return pid


def test_a_lane_serves_a_run_beside_that_of_the_first(runner: FakeRunner) -> None:
    """Each is stopped alone, and the first sweeps nothing of the lane's."""

    def history(r: FakeRunner) -> Steps:
        lane = Lane(r)
        yield from running(r)
        yield from lane.runs()
        yield from stopped(r)
        yield from ran(r, "exit 0")
        assert processes.started(lane.pid())
        lane.says(frames.STOP, messages.Stop(signal.SIGTERM, 30.0))
        yield lambda: lane.got(frames.DONE)
        ((_, body),) = [one for one in lane.frames() if one[0] == frames.EXIT]
        assert (json.loads(body)["code"], json.loads(body)["signalled"]) == (3, True)
        yield from running(r)
        lane.says(frames.END, messages.SessionEnd(0, ""))
        yield lambda: lane.ended() is not None
        assert lane.ended() == {"id": 1, "code": 0, "errors": ""}
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0
    assert runner.notes() == []
    spared = [word.split()[1:] for word in runner.told if word.startswith(b"spare")]
    assert spared == [[b"%d" % runner.guard.pid]] * len(spared)


@pytest.mark.parametrize("how", ["the line ends", "END"])
def test_no_lane_outlives_the_first_line(runner: FakeRunner, how: str) -> None:
    pids = list[int]()

    def history(r: FakeRunner) -> Steps:
        lanes = [Lane(r, 1), Lane(r, 2)]
        yield from lanes[0].runs()
        yield from lanes[1].runs()
        yield from running(r, last_grace=5.0)
        pids.extend([lanes[0].pid(), lanes[1].pid()])
        if how == "END":
            yield from stopped(r)
            r.end()
        else:
            r.leaves()

    assert runner.play(history) == (LOST if how == "the line ends" else 0)
    assert not any(map(processes.started, pids))


def test_a_closed_lane_ends_and_its_number_is_not_used_again(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        lane, next_one = Lane(r, 7), Lane(r, 8)
        yield from lane.runs()
        worker = lane.pid()
        lane.close()
        yield lambda: lane.ended() is not None
        assert not processes.started(worker)
        assert (lane.ended() or {})["code"] == LOST
        lane.says(frames.BEAT, messages.SessionEnd(0, ""))
        Lane(r, 6).says(frames.BEAT, messages.SessionEnd(0, ""))
        lane.close()
        yield from next_one.runs()
        assert len(r.all(frames.LANE_ENDED)) == 1
        next_one.says(frames.END, messages.SessionEnd(0, ""))
        yield lambda: next_one.ended() is not None
        r.end()

    assert runner.play(history) == 0


def test_a_lane_whose_node_launcher_is_killed_is_reported_as_swept(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        lane = Lane(r)
        yield from running(r)
        yield from lane.runs()
        worker = lane.pid()
        os.kill(processes.parent(worker), signal.SIGKILL)
        yield lambda: lane.ended() is not None
        ended = lane.ended() or {}
        assert ended["code"] == LOST
        assert f"the node launcher was killed by SIGKILL; {SWEPT}" in ended["errors"]
        assert not processes.started(worker)
        yield from stopped(r)
        r.end()

    assert runner.play(history) == 0


def test_a_lane_whose_guard_is_killed_leaves(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        lane = Lane(r)
        yield from lane.runs()
        worker = lane.pid()
        os.kill(processes.parent(processes.parent(worker)), signal.SIGKILL)
        yield lambda: lane.ended() is not None
        assert (lane.ended() or {})["code"] == -signal.SIGKILL
        yield lambda: len(processes.children()) == 1
        assert not processes.started(worker)
        r.end()

    assert runner.play(history) == 0


def test_a_lane_that_cannot_be_started_says_why(runner: FakeRunner) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def history(r: FakeRunner) -> Steps:
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        lane = Lane(r)
        lane.says(frames.BEAT, messages.SessionEnd(0, ""))
        yield lambda: lane.ended() is not None
        ended = lane.ended() or {}
        assert (ended["code"], "Too many open files" in ended["errors"]) == (126, True)
        r.end()

    try:
        assert runner.play(history) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_lanes_leave_no_descriptor_open(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        before = list[int]()
        for number in range(1, 4):
            lane = Lane(r, number)
            yield from lane.runs()
            lane.close()
            yield lambda lane=lane: lane.ended() is not None  # type: ignore[misc]
            before.append(len(open_files()))
        assert len(set(before)) == 1
        r.end()

    assert runner.play(history) == 0


def test_a_signal_for_the_node_reaches_the_lanes_as_well(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        lane = Lane(r)
        yield from running(r)
        yield from lane.runs()
        r.guard_got(signal.SIGUSR1)
        number = b"%d\n" % signal.SIGUSR1
        yield lambda: number in lane.output() and number.decode() in r.output()
        r.guard_got(signal.SIGTERM)
        yield lambda: lane.got(frames.DONE) and r.got(frames.DONE)()
        r.end()

    assert runner.play(history) == 0


@pytest.mark.parametrize("first", ["idle", "running"])
def test_a_lane_has_its_grace_when_the_node_is_ended(runner: FakeRunner, first: str) -> None:
    """Its run says which signal has come, and that nothing is left, before the first line ends."""
    slow = TRAP.format(then="import time; time.sleep(0.5); os.write(1, b'saved'); sys.exit(0)")

    def history(r: FakeRunner) -> Steps:
        lane = Lane(r)
        yield from running(r, held=True) if first == "running" else ran(r, "exit 0", held=True)
        yield from lane.runs(WAITS._replace(args=("-ISc", slow)))
        r.guard_got(signal.SIGTERM)
        yield lambda: lane.got(frames.NOTE)
        Lane(r, 2).says(frames.BEAT, messages.SessionEnd(0, ""))
        yield lambda: False

    assert runner.play(history) == 0
    lane = Lane(runner)
    assert lane.output().endswith(b"saved")
    assert [kind for kind, _ in lane.frames()][-3:] == [frames.OUTPUT, frames.EXIT, frames.DONE]
    note = next(json.loads(body) for kind, body in lane.frames() if kind == frames.NOTE)
    assert note == {"text": "the node launcher received SIGTERM", "signal": signal.SIGTERM}
    assert (lane.ended() or {})["code"] == 0
    assert len(runner.all(frames.LANE_ENDED)) == 1


def signalled(r: FakeRunner) -> None:
    """All processes of the node that are there by now get SIGTERM, as schedulers do."""
    r.guard_got(signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_lane_for_a_node_that_was_just_told_to_leave_is_not_started(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        signalled(r)
        yield r.skip(0.0)
        Lane(r).says(frames.BEAT, messages.Stop(0, 0.0))
        yield lambda: False

    assert runner.play(history) == 0
    assert runner.names() == []


def test_a_signal_reaches_a_lane_that_was_just_being_started(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal_deduplicator, "YOUNG", HANG)  # however busy this machine is
    lane = Lane(runner)

    def history(r: FakeRunner) -> Steps:
        lane.says(frames.BEAT, messages.Stop(0, 0.0))
        yield lambda: bool(processes.children()[1:])
        signalled(r)
        yield lambda: False

    assert runner.play(history) == 0
    assert lane.ended() is not None


def test_a_lane_that_is_not_read_waits(runner: FakeRunner) -> None:
    """Its output has credit; what a session may have on its way is bounded all the same."""
    lots = WAITS._replace(
        script="/bin/sh", args=("-c", "echo ready; head -c 6000000 /dev/zero; echo over")
    )

    def history(r: FakeRunner) -> Steps:
        lane = Lane(r)
        lane_start = messages.Start(0, (0,), 1, 0, 1, "127.0.0.1", 29501, 1 << 30)
        steps = lane.runs(lots)
        yield next(steps)
        lane.says(frames.START, lane_start)
        r.loop.remove(r._socket.fileno())
        link = r.session._link
        yield lambda: link.pending > 1 << 20
        yield r.skip(100.0)
        assert link.pending < 3 << 20
        r.loop.add_reader(r._socket.fileno(), r._read)
        yield lambda: lane.got(frames.DONE)
        assert lane.output().endswith(b"over\n")
        lane.says(frames.END, messages.SessionEnd(0, ""))
        yield lambda: lane.ended() is not None
        r.end()

    assert runner.play(history) == 0


def test_a_lane_in_a_container_begins_with_the_words_that_enter_it(runner: FakeRunner) -> None:
    """A container that cannot be entered: what its client says comes before the end."""
    lane = Lane(runner)

    def history(r: FakeRunner) -> Steps:
        entry = ContainerSpec("prefix", "/no/such", of_role=True).entry
        r._socket.sendall(messages.pack(frames.OPEN_LANE, OpenLane(1, entry)))
        lane.says(frames.BEAT, messages.Stop(0, 0.0))
        yield lambda: lane.ended() is not None
        r.end()

    assert runner.play(history) == 0
    said = [b for kind, b in runner.received if kind == frames.LANE_SAID]
    assert b"cannot run /no/such" in b"".join(frames.unpack_numbered(one)[1] for one in said)
    ended = lane.ended() or {}
    assert (ended["code"], lane.data()) == (NODE_UNUSABLE, b"")
    assert "cannot run /no/such: no such file" in ended["errors"]


def test_a_container_that_hangs_before_its_node_launcher_runs_is_given_up(
    runner: FakeRunner,
) -> None:
    """Its client does not read the line, and has children of its own."""
    lane = Lane(runner)

    def history(r: FakeRunner) -> Steps:
        entry = ContainerSpec("prefix", "sh -c 'sleep 600 & sleep 600'", of_role=True).entry
        r._socket.sendall(messages.pack(frames.OPEN_LANE, OpenLane(1, entry)))
        yield (
            lambda: (
                b"dsrun enters"
                in b"".join(body for kind, body in r.received if kind == frames.LANE_SAID)
            )
        )
        lane.close()
        yield lambda: lane.ended() is not None
        r.end()

    assert runner.play(history) == 0
    assert (lane.ended() or {})["code"] == -signal.SIGKILL
    assert not [pid for pid in descendants.pids() if "sleep" in processes.command(pid, 100)]
