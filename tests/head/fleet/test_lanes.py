"""Several runs at a time on the same nodes, whose node launchers a test plays."""

from __future__ import annotations

import json
import random
import signal
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.backends.causes import ENTERING
from dsrun.launcher.backends.events import SessionEnded
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.command_messages import LaneEnd, OpenLane
from dsrun.launcher.control.stream import StreamClosed
from dsrun.launcher.head.fleet.lanes import BLOCK, LaneStream
from dsrun.launcher.head.run.events import Lost
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.container import ContainerSpec
from dsrun.launcher.specs.host import Host

from ...support.fake_fleet import losses, story

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.run.events import RunEvent
    from dsrun.launcher.head.run.run import Run

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


class FakeLane:
    """A further node launcher as its runner sees it."""

    def __init__(self, job: FakeFleet, name: str, number: int) -> None:
        self.job, self.node, self.number = job, job.node(name), number
        self._greeted = False

    def received(self) -> list[tuple[int, bytes]]:
        """The frames that have come on it, without beats."""
        self.job.step()
        found = [frames.unpack_numbered(b) for kind, b in self.node.received if kind == frames.LANE]
        data = b"".join(data for number, data in found if number == self.number)
        return [one for one in frames.Decoder().feed(data) if one[0] != frames.BEAT]

    def closed(self) -> bool:
        """Whether the runner has closed it."""
        self.job.step()
        last = [frames.unpack_numbered(b) for kind, b in self.node.received if kind == frames.LANE]
        return (self.number, b"") in last

    def says(self, frame: bytes) -> None:
        """Send a frame to the runner."""
        data = (b"" if self._greeted else frames.MAGIC) + frame
        self._greeted = True
        self.node.says(frames.pack_numbered(frames.FROM_LANE, self.number, data))
        self.job.step()

    def starts(self, run: Run, port: int = 29501) -> None:
        """Have a run on this node alone started."""
        self.says(messages.pack(frames.HELLO, hello(self.node.name, port)))
        assert [kind for kind, _ in self.received()] == [frames.JOB, frames.START]
        self.says(messages.pack(frames.STARTED, messages.WorkersStarted((0, 1), (71, 72))))
        assert run.state.phase is RunPhase.RUNNING

    def ends_well(self) -> None:
        """Have its workers exit with 0."""
        for rank in (0, 1):
            ended = messages.WorkerExit(rank, 71 + rank, 0, False, 1.0)
            self.says(messages.pack(frames.EXIT, ended))
        self.says(messages.pack(frames.DONE, messages.Done((), {})))

    def leaves(self, code: int = 0, errors: str = "") -> None:
        """Close it, and report the end of its process."""
        self.node.says(frames.pack_numbered(frames.FROM_LANE, self.number))
        end = LaneEnd(self.number, code, errors)
        self.node.says(messages.pack(frames.LANE_ENDED, end))
        self.job.step()


def hello(name: str, port: int | None) -> messages.Hello:
    return messages.Hello(
        dsrun="0.1.0",
        hostname=name,
        machine=f"machine-{name}",
        python="3.11.7",
        accelerator="cuda",
        devices=("0", "1"),
        slots=2,
        port=port,
        addresses=("10.0.0.1",),
        problems=(),
        clock=1.0,
    )


@pytest.fixture
def job(fleet_of: FleetOf) -> FakeFleet:
    """Two nodes that several runs may use at a time; the first run is under way on both."""
    fleet = fleet_of(Host("n0", (0, 1, 2, 3)), Host("n1", (0, 1)), shares=True)
    fleet.start()
    return fleet


def on_n0(job: FakeFleet) -> Run:
    """Begin another run on half of the first node."""
    job.hosts["half"] = Host("n0", (2, 3))
    return job.run("half")


def test_a_second_run_is_beside_the_first(job: FakeFleet) -> None:
    first = job.prepared[0]
    second = on_n0(job)
    lane = FakeLane(job, "n0", 1)
    lane.starts(second)
    lane.says(frames.pack_output(0, 1, b"of the second\n"))
    lane.ends_well()
    assert (second.state.phase, first.state.phase) == (RunPhase.OVER, RunPhase.RUNNING)
    assert story(second)["exit_code"] == 0
    second.release_nodes()
    job.end_well(first)
    assert story(first)["exit_code"] == 0
    assert (0, 1, b"of the second\n") in job.console.printed


def test_a_lane_is_used_again_and_the_first_connection_before_it(job: FakeFleet) -> None:
    one = on_n0(job)
    lane = FakeLane(job, "n0", 1)
    lane.starts(one)
    lane.ends_well()
    one.release_nodes()
    two = on_n0(job)
    assert [kind for kind, _ in lane.received()] == [frames.JOB, frames.START, frames.JOB]
    three = on_n0(job)
    assert [kind for kind, _ in FakeLane(job, "n0", 2).received()] == [frames.JOB]
    assert len({run.state.nodes[0].connection for run in (one, two, three)}) == 2
    first = job.prepared[0]
    job.end_well(first)
    first.release_nodes()
    job.node("n0").received.clear()
    on_n0(job)
    assert [kind for kind, _ in job.node("n0").received] == [frames.JOB]


def test_fleets_that_do_not_share_have_one_connection_to_a_node(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    fleet.start()
    known = fleet.fleet.find(fleet.plan[0])
    assert known is fleet.fleet.nodes[0]
    assert fleet.fleet.connections == [known]


def test_workers_that_a_run_has_left_are_killed_without_harm_to_others(job: FakeFleet) -> None:
    """Their connection carries the others; no run gets it before they have ended."""
    first, second = job.prepared[0], on_n0(job)
    lane = FakeLane(job, "n0", 1)
    lane.starts(second)
    first.handle(RunState.abandon)
    first.release_nodes()
    connection = job.fleet.nodes[0]
    job.node("n0").received.clear()
    job.fleet.isolate(connection, "left")
    assert job.news("n0") == [["STOP", {"number": signal.SIGKILL, "grace": 0.0}]]
    third = on_n0(job)
    assert third.state.nodes[0].connection.lane == ()
    job.node("n0").done()
    job.step()
    assert on_n0(job).state.nodes[0].connection is connection
    assert second.state.phase is RunPhase.RUNNING
    job.fleet.isolate(job.fleet.nodes[1], "left")
    job.step()
    assert (job.fleet.nodes[1].lost, job.node("n1").open) == ("left", False)


def test_a_connection_that_is_lost_before_they_have_ended_is_nobodys(job: FakeFleet) -> None:
    first, second = job.prepared[0], on_n0(job)
    first.handle(RunState.abandon)
    first.release_nodes()
    job.fleet.isolate(job.fleet.nodes[0], "left")
    idle: list[Any] = []
    job.fleet.on_idle = idle.append
    job.said()
    job.node("n0").leaves()
    job.step()
    assert [type(event).__name__ for event in idle] == ["NodeDisconnected"]
    assert job.said("warning")[0].startswith("lost n0: ")
    assert second.state.phase is not RunPhase.RUNNING


def test_all_lanes_of_a_node_are_lost_with_it(job: FakeFleet) -> None:
    first, second, third = job.prepared[0], on_n0(job), on_n0(job)
    FakeLane(job, "n0", 1).starts(second)
    job.said()
    job.node("n0").leaves()
    job.step()
    job.emit(SessionEnded(0, "the node launcher was killed by SIGKILL"))
    job.go(1.0)
    assert story(second)["exit_code"] == 75
    assert "killed by SIGKILL" in json.dumps(story(second))
    assert third.state.phase is RunPhase.OVER
    assert "killed by SIGKILL" in str(third.state.error)
    for run in (second, third):
        run.release_nodes()
    assert [one.lane for one in job.fleet.connections] == [None, None]
    assert first.state.phase is RunPhase.STOPPING


def test_a_lane_waits_for_no_cause_that_is_known_of_its_node(job: FakeFleet) -> None:
    second = on_n0(job)
    FakeLane(job, "n0", 1).starts(second)
    job.emit(SessionEnded(0, "the node launcher was killed by SIGKILL"))
    job.node("n0").leaves()
    job.step()
    assert second.state.phase is RunPhase.OVER
    assert losses(second) == {"n0": "the node launcher was killed by SIGKILL"}


def test_an_idle_lane_that_is_lost_is_not_worth_a_word(job: FakeFleet) -> None:
    second = on_n0(job)
    lane = FakeLane(job, "n0", 1)
    lane.starts(second)
    lane.ends_well()
    second.release_nodes()
    idle: list[Any] = []
    job.fleet.on_idle = idle.append
    job.said()
    lane.leaves()
    assert (job.said(), idle) == ([], [])
    third = on_n0(job)
    FakeLane(job, "n0", 2).starts(third)


def test_the_end_of_a_lanes_process_explains_the_loss(job: FakeFleet) -> None:
    second = on_n0(job)
    lane = FakeLane(job, "n0", 1)
    lane.starts(second)
    lane.leaves(75, "the node launcher was killed by SIGKILL; nothing is left\n")
    job.go(1.0)
    report = story(second)
    assert report["exit_code"] == 75
    assert "killed by SIGKILL" in json.dumps(report)
    assert job.prepared[0].state.phase is RunPhase.RUNNING


def test_a_lane_that_cannot_start_refuses_the_run(job: FakeFleet) -> None:
    second = on_n0(job)
    end = LaneEnd(1, 126, "fork: Resource temporarily unavailable")
    job.node("n0").says(messages.pack(frames.LANE_ENDED, end))
    job.go(1.0)
    assert "Resource temporarily unavailable" in str(second.state.error)
    assert job.prepared[0].state.phase is RunPhase.RUNNING


def test_a_silent_lane_is_lost_alone(job: FakeFleet) -> None:
    second = on_n0(job)
    lane = FakeLane(job, "n0", 1)
    lane.starts(second)
    job.go(16.0)
    assert "no heartbeat for 15 s" in json.dumps(story(second))
    assert lane.closed()
    assert job.prepared[0].state.phase is RunPhase.RUNNING


def test_a_lane_of_a_node_that_is_silent_itself_is_lost_after_it(job: FakeFleet) -> None:
    """Whoever is told of the one finds the other lost as well."""
    second = on_n0(job)
    lane = FakeLane(job, "n0", 1)
    lane.starts(second)
    job.go(1.0)
    losts: list[bool] = []
    first = job.fleet.nodes[0]

    def on_event(event: RunEvent) -> None:
        if type(event) is Lost:
            losts.append(bool(first.lost))

    for run in (job.prepared[0], second):
        run.observe(on_event)
    job.go(14.2, silent=["n0"])
    assert losts == []
    job.go(2.0, silent=["n0"])
    assert losts == [True, True]
    assert "no heartbeat for 15 s" in json.dumps(story(second))


def test_what_makes_no_sense_on_a_lane_ends_the_lane_alone(job: FakeFleet) -> None:
    second = on_n0(job)
    lane = FakeLane(job, "n0", 1)
    lane.starts(second)
    lane.says(frames.pack(99))
    job.go(1.0)
    assert "unexpected kind 99" in json.dumps(story(second))
    assert lane.closed()
    assert job.node("n0").open


@pytest.mark.parametrize(
    "frame",
    [
        frames.pack_numbered(frames.FROM_LANE, 2, b"x"),
        frames.pack(frames.FROM_LANE, b"x"),
        messages.pack(frames.LANE_ENDED, LaneEnd(2, 0, "")),
        frames.pack_json(frames.LANE_ENDED, {}),
        frames.pack_numbered(frames.LANE_SAID, 2, b"x"),
    ],
)
@pytest.mark.parametrize("name", ["n0", "n1"])
def test_a_node_that_speaks_of_other_lanes_is_lost(job: FakeFleet, frame: bytes, name: str) -> None:
    on_n0(job)
    node = job.node(name)
    node.says(frame)
    job.step()
    assert not node.open


def test_a_lane_of_another_node_is_none_of_its_business(job: FakeFleet) -> None:
    second = on_n0(job)
    job.node("n1").says(frames.pack_numbered(frames.FROM_LANE, 1, b"x"))
    job.step()
    assert (job.node("n1").open, job.node("n0").open) == (False, True)
    FakeLane(job, "n0", 1).starts(second)


def test_a_lane_can_be_opened_again_for_the_same_run(job: FakeFleet) -> None:
    second = on_n0(job)
    lane = FakeLane(job, "n0", 1)
    lane.starts(second)
    connection = second.state.nodes[0].connection
    connection.close("a test")
    heard: list[Any] = []
    connection.on_event = heard.append
    job.fleet.reach(connection)
    lane.leaves(0)
    assert [type(event).__name__ for event in heard] == ["NodeConnected"]
    again = FakeLane(job, "n0", 2)
    again.says(messages.pack(frames.HELLO, hello("n0", None)))
    assert [type(event).__name__ for event in heard] == ["NodeConnected", "NodeSent"]
    job.node("n0").leaves()
    job.step()
    job.fleet.reach(connection)
    assert type(heard[-1]).__name__ == "NodeEnded"
    assert "the connection to its node launcher ended" in heard[-1].cause


def test_the_end_of_a_fleet_waits_for_the_lanes(job: FakeFleet) -> None:
    second = on_n0(job)
    lane = FakeLane(job, "n0", 1)
    lane.starts(second)
    lane.ends_well()
    second.release_nodes()
    job.end_well(job.prepared[0])
    job.fleet.close(messages.SessionEnd(0, ""))
    assert lane.received()[-1][0] == frames.END
    job.fleet.close_at_once()
    assert not any(one.connected for one in job.fleet.connections)


def test_ctrl_z_is_announced_on_lanes_as_well(job: FakeFleet) -> None:
    second = on_n0(job)
    lane = FakeLane(job, "n0", 1)
    lane.starts(second)
    job.fleet.suspend()
    assert lane.received()[-1] == (frames.SUSPEND, b"hold")


def test_stop_goes_to_the_lane(job: FakeFleet) -> None:
    second = on_n0(job)
    lane = FakeLane(job, "n0", 1)
    lane.starts(second)
    job.node("n0").received.clear()
    second.handle(RunState.stop, signal.SIGTERM, 1.0)
    assert [kind for kind, _ in lane.received()] == [frames.STOP]
    assert frames.STOP not in [kind for kind, _ in job.node("n0").received]


# -- the stream -----------------------------------------------------------------------------------


def test_a_large_frame_is_sent_in_blocks() -> None:
    sent: list[bytes] = []
    stream = LaneStream(3, sent.append)
    frame = frames.pack(frames.JOB, random.Random(1).randbytes(3 * BLOCK))
    stream.send(frame)
    parts = [frames.unpack_numbered(body) for _, body in frames.Decoder().feed(b"".join(sent))]
    assert {number for number, _ in parts} == {3}
    assert max(len(data) for _, data in parts) == BLOCK
    assert b"".join(data for _, data in parts) == frame
    assert stream.pending == 0
    stream.close()
    stream.close()
    assert sent[-1] == frames.pack_numbered(frames.LANE, 3)
    assert len(sent) == len(parts) + 1


@pytest.mark.parametrize("seed", range(5))
def test_frames_come_out_however_the_bytes_are_cut(seed: int) -> None:
    chance = random.Random(seed)
    sent = [(chance.randrange(256), chance.randbytes(chance.randrange(3000))) for _ in range(20)]
    data = b"some noise" + frames.MAGIC + b"".join(frames.pack(*one) for one in sent)
    stream, got = LaneStream(1, lambda _frame: None), list[tuple[int, bytes]]()
    stream.on_arrival = lambda: got.extend(stream.receive())
    while data:
        size = chance.randint(1, 500)
        stream.feed(data[:size])
        data = data[size:]
    assert got == sent
    with pytest.raises(StreamClosed, match="closed by the other end"):
        stream.feed(b"")


@pytest.mark.parametrize("seed", range(3))
def test_noise_on_a_lane_never_raises_into_the_loop(fleet_of: FleetOf, seed: int) -> None:
    """Whatever a node sends on its lanes, at worst it is lost."""
    chance = random.Random(seed)
    for _ in range(30):
        fleet = fleet_of("n0", shares=True)
        fleet.start()
        fleet.hosts["half"] = Host("n0", (1,))
        run = fleet.run("half")
        node = fleet.node("n0")
        lane = FakeLane(fleet, "n0", 1)
        for _ in range(chance.randint(1, 6)):
            if not node.open:
                break
            garbage = chance.randbytes(chance.randrange(60))
            frame = frames.pack(chance.randrange(256), garbage)
            chance.choice([lane.says, node.says])(chance.choice([frame, garbage]))
            fleet.step()
        fleet.go(1.0)
        run.handle(RunState.finish)


def test_a_lane_of_a_node_that_is_not_connected_yet_waits_for_it(fleet_of: FleetOf) -> None:
    fleet = fleet_of(Host("n0", (0, 1, 2, 3)), shares=True, connect=False)
    first = fleet.run()
    second = on_n0(fleet)
    assert first.state.nodes[0].connection is not second.state.nodes[0].connection
    fleet.connect()
    lane = FakeLane(fleet, "n0", 1)
    assert [kind for kind, _ in lane.received()] == [frames.JOB]
    lane.starts(second)
    fleet.begin_workers(first)


def test_a_run_is_told_why_the_node_of_its_lane_cannot_be_reached(fleet_of: FleetOf) -> None:
    fleet = fleet_of(Host("n0", (0, 1, 2, 3)), shares=True, connect=False)
    fleet.backend.absent.add("n0")
    runs = [fleet.run(), on_n0(fleet)]
    fleet.connect()
    fleet.emit(SessionEnded(0, "no route to host"))
    for run in runs:
        assert "n0: no route to host" in str(run.state.error)
        run.release_nodes()
    assert fleet.fleet.connections == [*fleet.fleet.nodes.values()]


def test_a_node_is_taken_over_from_a_run_that_has_lost_it(job: FakeFleet) -> None:
    """But not from one that has it reached again."""
    first = job.prepared[0]
    connection = first.state.nodes[0].connection
    job.node("n0").leaves()
    job.step()
    assert job.fleet.find(connection.origin) is connection
    connection.returns = True
    lane = job.fleet.find(connection.origin)
    assert lane is not None
    assert lane.lane == ()
    job.fleet.take_back(first.on_event)
    assert not connection.returns


INSIDE = ContainerSpec("podman", "image", job="job", of_role=True)


def inside(job: FakeFleet) -> Run:
    """Begin a run on half of the first node, in a container."""
    job.hosts["half"] = Host("n0", (2, 3))
    return job.run("half", backend=BackendSettings(container=INSIDE))


def test_a_run_in_a_container_has_a_lane_of_its_own_though_the_node_is_free(
    fleet_of: FleetOf,
) -> None:
    job = fleet_of(Host("n0", (0, 1, 2, 3)), shares=True)
    job.connect()
    run = inside(job)
    kinds = [kind for kind, _ in job.node("n0").received if kind != frames.BEAT]
    assert kinds == [frames.OPEN_LANE], "frames are held back until its node launcher answers"
    opened = messages.unpack(OpenLane, job.node("n0").received[-1][1])
    assert opened == OpenLane(1, INSIDE.entry)
    lane = FakeLane(job, "n0", 1)
    lane.starts(run)
    lane.ends_well()
    run.release_nodes()
    again = inside(job)
    assert [kind for kind, _ in lane.received()] == [frames.JOB, frames.START, frames.JOB]
    bare = on_n0(job)
    assert again.state.nodes[0].connection is not bare.state.nodes[0].connection
    assert job.node("n0").got(frames.JOB)(), "without a container it needs no lane"


def test_a_container_that_cannot_start_refuses_the_run(job: FakeFleet) -> None:
    run = inside(job)
    said = f"pulling image\n{ENTERING}podman:image\nError: no space left\n".encode()
    job.node("n0").says(frames.pack_numbered(frames.LANE_SAID, 1, said))
    job.step()
    assert "pulling image" in run.state.nodes[0].connection.starting.said
    FakeLane(job, "n0", 1).leaves(125, said.decode())
    job.go(1.0)
    assert "no space left" in str(run.state.error)
    assert job.prepared[0].state.phase is RunPhase.RUNNING


def test_a_lost_node_that_only_containers_use_is_reached_for_them(fleet_of: FleetOf) -> None:
    job = fleet_of(Host("n0", (0, 1, 2, 3)), shares=True)
    job.connect()
    FakeLane(job, "n0", 1).starts(inside(job))
    old = job.node("n0")
    old.leaves()
    job.emit(SessionEnded(0, "connection lost"))
    job.prepared[0].release_nodes()
    run = inside(job)
    job.fleet.reach(run.state.nodes[0].connection)
    job.step()
    assert job.node("n0") is not old
    assert job.node("n0").got(frames.OPEN_LANE)()
