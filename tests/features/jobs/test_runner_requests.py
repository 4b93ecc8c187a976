"""What a running job answers, does and refuses."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.activity_messages import Activity, RankActivity
from dsrun.launcher.control.job_messages import USAGE, Usage
from dsrun.launcher.features.elastic.runner_policy import RunnerRounds
from dsrun.launcher.features.jobs.runner_requests import MOST_PENDING
from dsrun.launcher.features.stacks.messages import STACKS, StacksAnswer
from dsrun.launcher.features.stacks.runner_view import RankView
from dsrun.launcher.head.job.ending import ending_of
from dsrun.launcher.head.run import run_signals
from dsrun.launcher.specs.policies import ElasticPolicy

from ...support.asked_run import AskedRun, chunks, events, new_job_id
from ...support.own_names import own_names
from ...support.questions import asked as asked_of
from ...support.questions import reply
from ...support.stacks import LOAD, process, thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    AskedOf = Callable[..., AskedRun]

__all__ = ["own_names"]

pytestmark = pytest.mark.usefixtures("own_names")


def test_status_is_told_with_or_without_ranks(asked: AskedOf) -> None:
    job = asked("n0")
    assert job.answer(do="status")["ranks"] == []
    assert [rank["rank"] for rank in job.answer(do="status", ranks=True)["ranks"]] == [0, 1]


def test_usage_comes_once_the_nodes_have_answered(asked: AskedOf) -> None:
    job = asked("n0", "n1")
    line = job.call()
    assert job.ask(line, do="usage") == []
    usage = Usage(1.0, 8, 0.5, 100, 50, (), ())
    for name in ("n0", "n1"):
        job.fleet.node(name).says(reply(USAGE, usage))
    ((_, answer),) = job.got(line)
    fields = {**usage._asdict(), "ranks": [], "devices": []}
    assert answer["nodes"] == [["n0", fields], ["n1", fields]]


def test_a_caller_that_leaves_while_nodes_are_asked_does_not_matter(asked: AskedOf) -> None:
    job = asked("n0")
    line = job.call()
    job.ask(line, do="usage")
    line.close()
    job.fleet.go(5)
    assert job.answer(do="status")["ok"]


# -- signals --------------------------------------------------------------------------------------


def test_a_signal_goes_to_all_ranks(asked: AskedOf) -> None:
    job = asked("n0", "n1")
    assert job.answer(do="signal", number=signal.SIGUSR2)["ranks"] == 4
    assert job.fleet.said("warning") == ["SIGUSR2 to all ranks, as dsrun-job requested"]
    for name in ("n0", "n1"):
        assert [kind for kind in job.fleet.kinds(name) if kind != "BEAT"] == ["SIGNAL"]


def test_a_job_is_stopped_as_by_its_own_signal(asked: AskedOf) -> None:
    job = asked("n0")
    assert job.answer(do="stop", number=signal.SIGTERM)["grace"] == job.run.state.grace
    (stop,) = [value for kind, value in job.fleet.news("n0") if kind == "STOP"]
    assert stop == {"number": signal.SIGTERM, "grace": job.run.state.grace}
    job.fleet.node("n0").exits(0, -15, told=True)
    job.fleet.node("n0").exits(1, -15, told=True)
    job.fleet.node("n0").done()
    job.fleet.step()
    assert ending_of(job.run.view()).code == 128 + signal.SIGTERM


def test_a_job_is_killed_without_grace(asked: AskedOf) -> None:
    job = asked("n0")
    job.answer(do="stop", number=signal.SIGTERM, now=True)
    graces = [value["grace"] for kind, value in job.fleet.news("n0") if kind == "STOP"]
    assert graces[-1] == 0.0


def test_a_job_that_has_not_started_is_given_up(asked: AskedOf) -> None:
    job = asked("n0", started=False)
    refused = job.error(do="signal", number=signal.SIGUSR1)
    assert refused == "no worker is running: the job is starting"
    job.answer(do="stop", number=signal.SIGTERM)
    assert job.run.state.ending


def test_a_job_that_is_being_stopped_gets_no_signals(asked: AskedOf) -> None:
    job = asked("n0")
    job.answer(do="stop", number=signal.SIGTERM)
    assert "the job is stopping" in job.error(do="signal", number=signal.SIGUSR1)


@pytest.mark.parametrize("number", [None, 0, -1, 99, "15", True, 1.5, [15]])
@pytest.mark.parametrize("verb", ["signal", "stop"])
def test_numbers_that_are_no_signals_are_refused(asked: AskedOf, verb: str, number: object) -> None:
    job = asked("n0")
    assert "expected number, a signal's number" in job.error(do=verb, number=number)
    assert not job.run.state.stopping


# -- size -----------------------------------------------------------------------------------------


def test_an_elastic_job_is_resized_within_its_limits(asked: AskedOf) -> None:
    limits = ElasticPolicy(1, 2, 3)
    job = asked("n0", "n1", restarts=lambda run: RunnerRounds(run, limits), elastic=limits)
    words = job.answer(do="scale", nodes=1)["words"]
    assert words == "rounds of at most 1 node from now on"
    assert job.error(do="scale", nodes=9) == "this job takes 1 to 2 nodes, not 9"


def test_another_job_is_not(asked: AskedOf) -> None:
    job = asked("n0")
    assert "is fixed" in job.error(do="scale", nodes=1)
    for wrong in (None, 0, -1, "2", True, 1 << 40):
        assert "expected nodes" in job.error(do="scale", nodes=wrong)


# -- output ---------------------------------------------------------------------------------------


def test_the_newest_output_is_sent_with_the_hosts_of_its_ranks(asked: AskedOf) -> None:
    job = asked("n0", "n1")
    job.prints("n0", 0, b"one\n")
    job.prints("n1", 2, b"two\n", stream=2)
    job.prints("n0", 0, b"three")
    got = job.ask(do="logs")
    assert [kind for kind, _ in got][-1] == frames.ANSWER
    assert chunks(got) == [(0, 1, b"one\n"), (2, 2, b"two\n"), (0, 1, b"three")]
    assert events(got) == [
        {"event": "rank", "rank": 0, "host": "n0"},
        {"event": "rank", "rank": 2, "host": "n1"},
    ]
    assert chunks(job.ask(do="logs", ranks=[2])) == [(2, 2, b"two\n")]


def test_who_follows_gets_what_comes_later(asked: AskedOf) -> None:
    job = asked("n0")
    job.prints("n0", 0, b"early\n")
    line = job.call()
    assert chunks(job.ask(line, do="logs", follow=True, ranks=[0])) == [(0, 1, b"early\n")]
    job.prints("n0", 1, b"of another rank\n")
    job.prints("n0", 0, b"late\n")
    assert chunks(job.got(line)) == [(0, 1, b"late\n")]
    line.close()
    job.fleet.step()
    assert job.seen.followers == []
    job.prints("n0", 0, b"nobody follows\n")


def test_a_slow_reader_costs_no_memory_and_is_told_what_it_has_missed(asked: AskedOf) -> None:
    job = asked("n0")
    line = job.call()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    job.ask(line, do="logs", follow=True)
    block = b"x" * 60_000 + b"\n"
    for _ in range(100):
        job.prints("n0", 0, block)
        job.fleet.console.take()
    (caller,) = job.socket._server.callers  # type: ignore[union-attr]
    assert caller.pending <= MOST_PENDING + len(block) + 100
    got: list[tuple[int, Any]] = []
    while more := job.got(line):
        got += more
    job.prints("n0", 0, b"end\n")
    got += job.got(line)
    (skipped,) = [one["bytes"] for one in events(got) if one["event"] == "skipped"]
    assert skipped + sum(len(data) for _, _, data in chunks(got)) == 100 * len(block) + 4
    assert chunks(got)[-1] == (0, 1, b"end\n")


@pytest.mark.parametrize("ranks", [3, "0", ["0"], [True], [1.5], {}])
def test_ranks_that_are_none_are_refused(asked: AskedOf, ranks: object) -> None:
    assert "a list of numbers" in asked("n0").error(do="logs", ranks=ranks)


# -- stacks ---------------------------------------------------------------------------------------


def tells(job: AskedRun, name: str, *ranks: int) -> None:
    """Have a node tell where its ranks are."""
    rows = tuple(process(rank) for rank in ranks)
    threads = tuple(thread(4000 + rank, LOAD) for rank in ranks)
    answer = StacksAnswer(rows, threads, ())
    job.fleet.node(name).says(reply(STACKS, answer))


def test_stacks_come_once_the_nodes_have_answered(asked: AskedOf) -> None:
    job = asked("n0", "n1")
    line = job.call()
    busy = RankActivity(3, 4003, "S", 1.0, 0.0, 10, 10, 62.0, False)
    activity = messages.pack(frames.ACTIVITY, Activity(1.0, 0.0, (busy,)))
    job.fleet.node("n1").says(activity)
    assert job.ask(line, do="stacks", ranks=[1, 3], save=True) == []
    (ask,) = asked_of(job.fleet.news("n0"), STACKS)
    assert [ask["ranks"], ask["native"], ask["save"]] == [[1, 3], False, True]
    tells(job, "n0", 1)
    tells(job, "n1", 3)
    got = job.got(line)
    assert got[-1][1] == {"ok": True, "id": 1}
    views = [RankView(*event["view"]) for event in events(got)]
    assert [(one.rank, one.host, one.pid, one.idle) for one in views] == [
        *((1, "n0", 4001, 0.0), (3, "n1", 4003, 62.0)),
    ]


def test_a_caller_that_leaves_while_stacks_are_read_does_not_matter(asked: AskedOf) -> None:
    job = asked("n0")
    line = job.call()
    job.ask(line, do="stacks")
    line.close()
    job.fleet.go(5)
    assert job.answer(do="status")["ok"]


def test_stacks_of_ranks_that_do_not_run(asked: AskedOf) -> None:
    job = asked("n0")
    refused = job.error(do="stacks", ranks=[0, 2])
    assert refused == "--ranks: not all of these are running; running: 0-1"
    assert "a list of numbers" in job.error(do="stacks", ranks=["0"])


def test_stacks_before_the_start(fleet_of: Callable[..., FakeFleet]) -> None:
    job = AskedRun(fleet := fleet_of("n0"), fleet.run(job_id=new_job_id()))
    assert job.error(do="stacks") == "no worker is running: the job is starting"
    job.close()


def test_ctrl_backslash_shows_the_stacks_as_well(asked: AskedOf) -> None:
    job = asked("n0")
    job.run.handle(run_signals.on_other_signal, signal.SIGQUIT)
    job.fleet.step()
    tells(job, "n0", 0, 1)
    job.fleet.step()
    (table, stacks) = job.fleet.said("error")
    assert table.startswith("running: 2 of 2 ranks")
    assert stacks.startswith("all 2 ranks are in load_batch (data.py:88)\nranks 0-1 (n0): are in")
