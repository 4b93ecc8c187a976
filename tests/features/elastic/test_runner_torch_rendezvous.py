"""torch forms the rounds: what this machine's part of a run makes of what its agent says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import LostError, NodeError
from dsrun.launcher.control import frames, messages, round_messages
from dsrun.launcher.features.elastic.runner_torch_rendezvous import NO_REASON, TorchRendezvous
from dsrun.launcher.head.run.run_signals import progress
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.rendezvous import Rendezvous

from ...support.fake_fleet import losses, story

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.run.run import Run

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

MET = Rendezvous("c10d", "h0:29400", "id7", 2, 4, {}, "", 3, 0.1)
RANKS = round_messages.Ranks(4, 8, 2, 4, "h0", 29500, 0, 3)
AT = "--rdzv_backend c10d at h0:29400"


class Job:
    """A run on one node whose agent the test plays."""

    def __init__(self, fleet: FakeFleet) -> None:
        self.fleet = fleet
        self.run: Run = fleet.run(
            restarts=lambda run: TorchRendezvous(run, MET), plan={"rendezvous": MET}
        )
        self.node = fleet.node(*fleet.hosts)

    def start(self) -> None:
        """Let the node start its agent; what was sent and said is forgotten."""
        self.node.hello(port=None)
        assert self.fleet.kinds("n0") == ["JOB", "START"]
        self.fleet.said()

    def ranks(self, **more: Any) -> None:
        """Have torch form a round."""
        said = messages.pack(frames.RANKS, RANKS._replace(**more))
        self.node.says(said)
        self.fleet.step()

    def left(self, why: str, *, unusable: bool = False) -> None:
        """Have the agent end, the workers with it."""
        self.node.says(
            messages.pack(frames.AGENT_FAILED, round_messages.AgentFailure(why, unusable))
        )
        assert self.fleet.kinds("n0") == ["STOP"]
        self.node.done()
        self.fleet.step()


@pytest.fixture
def job(fleet_of: FleetOf) -> Job:
    """A run that has started, in no round yet."""
    made = Job(fleet_of("n0"))
    made.start()
    return made


def test_the_start_says_whom_it_waits_for(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0"))
    job.node.hello(port=None)
    job.fleet.step()
    assert job.fleet.said() == [f"{AT}, --rdzv_id id7: waiting for 2 to 4 nodes"]
    assert job.run.state.restarts.least is None


def test_the_ranks_that_torch_gives_are_those_that_are_shown(job: Job) -> None:
    job.ranks()
    assert job.fleet.said() == ["ranks 4-5 of 8 here, node 2 of 4, master h0:29500"]
    job.fleet.up("n0", 4, 5)
    assert progress(job.run.state).startswith("running: 2 of 2 ranks here\n")
    job.node.prints(5, "hello")
    job.fleet.step()
    assert job.fleet.console.printed == [(5, 1, b"hello")]
    assert job.fleet.console.labels == {5: ("n0:5| ", {1, 2})}
    for rank in (4, 5):
        job.node.exits(rank, 0)
    job.node.done()
    job.fleet.step()
    assert (story(job.run)["exit_code"], story(job.run)["world_size"]) == (0, 8)


def test_before_torch_has_said_it_the_size_is_that_of_this_node(job: Job) -> None:
    job.left("nobody came")
    assert job.run.state.restarts.world_size(2) == 2


def test_a_node_of_one_rank_and_a_restart(fleet_of: FleetOf) -> None:
    job = Job(fleet_of(Host("n0", (0,))))
    job.start()
    job.ranks(restarts=2)
    assert job.fleet.said() == ["rank 4 of 8 here, node 2 of 4, master h0:29500; restart 2/3"]


def test_a_round_forgets_how_workers_of_the_one_before_have_ended(job: Job) -> None:
    job.ranks()
    job.node.exits(4, 9)
    job.fleet.step()
    assert (job.run.state.phase, job.fleet.kinds("n0")) == (RunPhase.RUNNING, [])
    job.ranks(first_rank=0, restarts=1)
    for rank in (0, 1):
        job.node.exits(rank, 0)
    job.node.done()
    job.fleet.step()
    assert (story(job.run)["exit_code"], story(job.run)["failures"]) == (0, [])


@pytest.mark.parametrize(
    ("why", "said"), [("", []), ("no more restarts", [f"{AT}: no more restarts"])]
)
def test_the_failure_of_a_worker_here_is_the_cause(why: str, said: list[str], job: Job) -> None:
    job.ranks()
    job.fleet.said()
    job.node.exits(4, 9)
    job.fleet.step()
    job.left(why)
    assert job.fleet.said("warning") == said
    assert (story(job.run)["exit_code"], losses(job.run)) == (9, {})


@pytest.mark.parametrize(
    ("why", "reason"), [("", NO_REASON), ("the store is gone", "the store is gone")]
)
def test_an_agent_that_ends_without_a_failure_here(why: str, reason: str, job: Job) -> None:
    job.ranks()
    job.left(why)
    assert (losses(job.run), story(job.run)["exit_code"]) == ({"n0": reason}, 75)


@pytest.mark.parametrize(("unusable", "kind"), [(False, LostError), (True, NodeError)])
def test_an_agent_that_ends_before_the_first_round(
    unusable: bool, kind: type[Exception], job: Job
) -> None:
    job.left("no such backend", unusable=unusable)
    assert type(job.run.state.error) is kind
    assert f"{AT}: no such backend" in str(job.run.state.error)


@pytest.mark.parametrize(
    "frame",
    [
        messages.pack(frames.RANKS, RANKS),
        messages.pack(frames.AGENT_FAILED, round_messages.AgentFailure("x")),
    ],
)
def test_nothing_of_a_round_is_expected_before_the_start(frame: bytes, fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0"))
    job.node.says(frame)
    job.fleet.step()
    assert "the job has not started" in str(job.run.state.error)


def test_the_loss_of_the_node_ends_it(job: Job) -> None:
    job.ranks()
    job.node.leaves()
    job.fleet.go(1)
    line = "the connection to its node launcher ended (closed by the other end)"
    assert losses(job.run) == {"n0": line}
