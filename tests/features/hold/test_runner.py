"""A hold: runs in turn and side by side, and its end."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.control import frames
from dsrun.launcher.features.hold.runner import HoldPhase, places
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, lay_out

from ...support.fake_hold import CHECK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...support.fake_hold import FakeHold

    HoldOf = Callable[..., FakeHold]

ALL = {"n0": [0, 1], "n1": [0, 1]}


def finish(fake: FakeHold, job: str) -> None:
    """Have a run start and end well."""
    run = fake.run_of(job)
    fake.job.ready(run)
    fake.job.end_well(run)


def phase(fake: FakeHold) -> HoldPhase:
    return fake.hold.phase


def test_one_line_tells_that_nodes_are_held_and_how_to_use_them(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1")
    assert phase(fake) is HoldPhase.STARTING
    fake.ready()
    assert phase(fake) is HoldPhase.SERVING
    assert fake.job.said() == [
        "holding 2 nodes with 4 slots as lab; use: dsrun --on=lab SCRIPT; release:"
        " dsrun-hold --release lab"
    ]
    assert fake.hold.messages[-1].startswith("holding 2 nodes")


def test_runs_in_turn_and_side_by_side(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1").ready()
    one, two, three = fake.client(), fake.client(), fake.client()
    assert one.run("one", {"n0": [0, 1]}) is None
    assert two.run("two", {"n1": [0, 1]}) is None
    assert three.run("three", ALL) is None
    fake.wait_for(lambda: "waiting for job one, two on the same slots" in three.printed())
    assert fake.hold.waits(fake.hold.runs["three"])
    assert (fake.hold.taken("n0"), fake.hold.taken("n1")) == (True, True)
    finish(fake, "two")
    assert two.wait(1)["code"] == 0
    assert fake.hold.runs["three"].job.programs is None, (
        "it needs the slots of the first one as well"
    )
    finish(fake, "one")
    assert one.wait(1)["code"] == 0
    finish(fake, "three")
    assert three.wait(1)["report"]["world_size"] == 4
    assert not fake.hold.taken("n0")


def test_a_run_that_fails_or_is_refused_leaves_the_hold_whole(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1").ready()
    client = fake.client()
    client.run("fails", ALL)
    fake.job.ready(fake.run_of("fails"))
    fake.job.node("n0").beats()
    fake.job.node("n1").exits(2, 7)
    fake.job.step()
    fake.job.node("n0").stops(0, 1)
    fake.job.node("n1").stops(3)
    assert client.wait(1)["code"] == 7
    client.run("refused", ALL)
    fake.job.node("n0").hello(port=29500)
    fake.job.node("n1").hello(problems=("no such script: x.py",))
    refused = client.wait(2)
    assert (refused["code"], refused["ok"]) == (2, False)
    assert "no such script" in refused["error"]
    client.run("well", ALL)
    finish(fake, "well")
    assert client.wait(3)["code"] == 0


def test_a_run_that_does_not_wait_is_refused(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    client.run("one", {"n0": [0]})
    refused = client.run("two", {"n0": [0, 1]}, busy="refuse")
    assert refused is not None
    assert refused["code"] == 69
    assert "slots are in use by job one" in refused["error"]
    fake.hold.check(Plan(lay_out([Host("n0", (1,))]), CHECK, "ssh", None, None), waits=False)


def test_the_idle_timeout_releases_the_nodes(hold_of: HoldOf) -> None:
    fake = hold_of("n0", idle_timeout=100.0).ready()
    client = fake.client()
    fake.job.go(90)
    client.run("one", {"n0": [0, 1]})
    fake.job.go(90)
    assert phase(fake) is HoldPhase.SERVING
    finish(fake, "one")
    client.wait(1)
    fake.hold.enter()
    fake.job.go(120)
    fake.hold.release()
    fake.job.go(90)
    assert phase(fake) is HoldPhase.SERVING
    fake.job.go(20)
    assert phase(fake) is HoldPhase.ENDING
    assert fake.hold.code == 0
    assert fake.job.said()[-1] == "no run for 100 s: releasing all nodes"


def test_runs_that_could_not_start_keep_no_hold(hold_of: HoldOf) -> None:
    """One whose node could not take part, and one whose client did not wait for it."""
    fake = hold_of("n0", idle_timeout=100.0).ready()
    one, two = fake.client(), fake.client()
    one.run("one", {"n0": [0, 1]})
    two.run("two", {"n0": [0, 1]})
    two.ask("signal", number=int(signal.SIGINT))
    assert two.wait(1)["code"] == 130
    fake.job.node("n0").hello(problems=("no such script: x.py",))
    assert one.wait(1)["code"] == 2
    fake.job.go(99)
    assert phase(fake) is HoldPhase.SERVING
    fake.job.go(2)
    assert phase(fake) is HoldPhase.ENDING


@pytest.mark.parametrize(("number", "code"), [(0, 0), (signal.SIGTERM, 143)])
def test_the_end_stops_all_runs_with_grace(hold_of: HoldOf, number: int, code: int) -> None:
    fake = hold_of("n0", "n1").ready()
    one, two, three = fake.client(), fake.client(), fake.client()
    one.run("one", {"n0": [0, 1]})
    two.run("two", {"n0": [0, 1]})
    three.run("three", {"n1": [0, 1]})
    fake.job.ready(fake.run_of("one"))
    fake.hold.stop(number)
    assert fake.hold.code == code
    assert two.wait(1)["code"] == 143
    assert three.wait(1)["code"] == 143, "it had not started"
    refused = fake.client().run("four", {"n1": [0]})
    assert refused is not None
    assert refused["error"] == "hold lab is ending"
    assert [kind for kind in fake.job.kinds("n0") if kind != "BEAT"][-1] == "STOP"
    assert "one" in fake.hold.runs
    fake.job.node("n0").stops(0, 1)
    assert one.wait(1)["code"] == 143


def test_the_end_of_runs_of_which_one_could_begin_as_another_ends(hold_of: HoldOf) -> None:
    """It cannot begin, as its node is lost, and is over by the time that its turn to end comes."""
    fake = hold_of("n0", "n1").ready()
    one, two, three = fake.client(), fake.client(), fake.client()
    one.run("one", {"n0": [0, 1]})
    two.run("two", ALL)
    three.run("three", {"n1": [0, 1]})
    fake.job.ready(fake.run_of("one"))
    fake.job.node("n1").leaves()
    fake.job.go(1)
    fake.hold.stop(signal.SIGTERM)
    assert two.wait(1)["code"] == 143
    assert three.wait(1)["code"] == 69
    fake.job.node("n0").stops(0, 1)
    assert one.wait(1)["code"] == 143


def test_an_interrupt_while_nodes_are_being_connected(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1")
    told: list[HoldPhase] = []
    fake.hold.when_ready(lambda: told.append(fake.hold.phase))
    fake.hold.stop(signal.SIGINT)
    fake.job.step()
    assert told == [HoldPhase.ENDING]
    assert (fake.hold.code, fake.hold.error) == (130, None)
    with pytest.raises(NodeError, match="hold lab is ending"):
        fake.hold.check(Plan(fake.job.plan, CHECK, "ssh", None, None), waits=True)


def test_nodes_hear_of_the_hold_while_others_are_being_started(hold_of: HoldOf) -> None:
    """A held node takes a runner for lost that is silent for the heartbeat timeout."""
    fake = hold_of("n0", "n1")
    fake.job.node("n0").hello(port=29500)
    fake.job.go(fake.hold.fleet.lease)
    assert fake.hold.phase is HoldPhase.STARTING
    assert [kind for kind, _ in fake.job.node("n0").received].count(frames.BEAT) > 1


def test_places_of_a_plan() -> None:
    hosts = [Host("n0", (1,)), Host("n1", ("GPU-1", "GPU-2"))]
    plan = Plan(lay_out(hosts), CHECK, "ssh", None, None)
    assert places(plan) == {"n0": (1,), "n1": ("GPU-1", "GPU-2")}


# -- a hold in an allocation ----------------------------------------------------------------------


def in_slurm(
    folder: Path, monkeypatch: pytest.MonkeyPatch, hold_of: HoldOf, state: str
) -> FakeHold:
    """A hold of two nodes of Slurm job 7, which is in this state."""
    tool = folder / "scontrol"
    tool.write_text(f"#!/bin/sh\necho JobId=7 JobState={state}\ntouch {folder}/asked\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    fake = hold_of("n0", "n1", launcher="slurm").ready()
    fake.job.said()
    return fake


def test_a_hold_ends_with_its_allocation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold_of: HoldOf
) -> None:
    """It does not look for nodes that it cannot have again; its runs are stopped."""
    fake = in_slurm(tmp_path, monkeypatch, hold_of, "COMPLETING")
    client = fake.client()
    client.run("one", {"n0": [0, 1]})
    run = fake.run_of("one")
    fake.job.ready(run)
    fake.job.node("n1").leaves()
    fake.wait_for(lambda: phase(fake) is HoldPhase.ENDING)
    assert fake.hold.messages[-1] == "Slurm job 7 has ended (COMPLETING): releasing all nodes"
    fake.job.node("n0").stops(0, 1)
    assert client.wait(1)["code"] == 143
    assert fake.hold.code == 143


def test_a_hold_looks_for_a_node_that_is_lost_in_an_allocation_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold_of: HoldOf
) -> None:
    fake = in_slurm(tmp_path, monkeypatch, hold_of, "RUNNING")
    fake.job.node("n1").leaves()
    fake.wait_for((tmp_path / "asked").exists)
    fake.wait_for(lambda: not fake.hold._asks)
    assert phase(fake) is HoldPhase.SERVING
