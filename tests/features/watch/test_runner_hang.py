"""Whether a job hangs: histories of what nodes report, and of what their stacks show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.watch.runner_hang import LATE
from dsrun.launcher.features.watch.runner_hang_report import Hang
from dsrun.launcher.head.report.report import of_kind
from dsrun.launcher.head.run.events import Alarm, AlarmOver

from ...support.stacks import ALL_REDUCE, BARRIER, LIB, LOAD, NEXT, collective
from ...support.watched import INTERVAL, TIMEOUT, Watched

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

WAIT = "ranks 0-2 wait in all_reduce (train.py:41)"
LOADING = "has been in load_batch (data.py:88)"
ALARMS = (Alarm, AlarmOver)


@pytest.fixture
def job(fleet_of: FleetOf) -> Watched:
    """Four ranks on two nodes, which have worked for a while."""
    job = Watched(fleet_of("n0", "n1"))
    assert job.go(TIMEOUT) == []
    job.asked.clear()
    return job


def hang(job: Watched, **odd: Any) -> Any:
    """Let rank 3 do something else while the others wait for it."""
    job.all(works=False)
    vars(job.ranks[3]).update({"place": LOAD, **odd})
    return job.ranks[3]


def hangs(job: Watched) -> list[Hang]:
    return of_kind(job.run.state.record.found, Hang)


def alarms(job: Watched) -> list[Any]:
    return [one for one in job.events if isinstance(one, ALARMS)]


def test_a_rank_for_which_the_others_wait_is_named_in_time(job: Watched) -> None:
    hang(job)
    began = job.now
    assert job.go(TIMEOUT - INTERVAL) == []
    sentence = f"no progress for 20 s: {WAIT}; rank 3 (n1) {LOADING} for 20 s"
    assert job.go(2 * INTERVAL) == [sentence, "to see where all ranks are: dsrun-job stacks job"]
    first, last = (at - began for at in job.asked[:2])
    assert TIMEOUT / 2 - INTERVAL <= first <= TIMEOUT / 2 + 1
    assert TIMEOUT - INTERVAL <= last <= TIMEOUT + 2
    assert alarms(job) == [Alarm("hang", "report", sentence)]
    (found,) = hangs(job)
    assert [found.sentence, found.ranks, found.hosts, found.lasted] == [
        *(sentence, (3,), ("n1",), None),
    ]
    assert job.go(5 * TIMEOUT) == []


def test_it_goes_on_and_hangs_again(job: Watched) -> None:
    odd = hang(job)
    job.go(TIMEOUT + 2)
    vars(odd).update(works=True, place=ALL_REDUCE)
    (said,) = job.go(2 * INTERVAL)
    assert said in {f"rank 3 resumed after {seconds} s" for seconds in range(21, 27)}
    assert alarms(job)[1:] == [AlarmOver("hang", said)]
    assert 21 <= (hangs(job)[0].lasted or 0) <= 27
    vars(odd).update(works=False, place=LOAD)
    assert job.go(TIMEOUT - INTERVAL) == []
    assert job.go(2 * INTERVAL)[0].startswith("no progress for 20 s")
    assert len(hangs(job)) == 2


INNOCENT: dict[str, dict[str, Any]] = {
    "it uses the CPU, as in an evaluation or a compilation": {"works": True},
    "it writes to a slow disk": {"reads": True},
    "its stack changes": {"looped": True},
    "a debugger is attached": {"traced": True, "state": "t"},
    "its collectives go on": {"counts": True},
    "it serves somebody else": {"place": ("BaseServer.serve_forever (/lib/x.py:3)", *LOAD)},
    "it is in a debugger": {"place": ("Pdb.cmdloop (/usr/lib/python3.11/pdb.py:3)", *LOAD)},
}


@pytest.mark.parametrize("case", INNOCENT)
def test_what_is_no_hang(job: Watched, case: str) -> None:
    odd = hang(job, **{"counts": False, **INNOCENT[case]})
    for number in range(50):
        odd.calls = (collective(3, number),) if odd.counts else ()
        assert job.go(INTERVAL) == []
    assert alarms(job) == []


def test_the_stacks_of_a_job_that_works_are_not_asked_for(job: Watched) -> None:
    job.all(works=False, reads=True)
    job.asked.clear()
    job.go(3 * TIMEOUT)
    assert len(job.asked) <= 1


def test_one_rank_that_works_puts_it_off_until_it_does_not(job: Watched) -> None:
    odd = hang(job, works=True)
    job.go(10 * TIMEOUT)
    assert 15 <= len(job.asked) <= 22
    odd.works = False
    assert job.go(TIMEOUT - INTERVAL) == []
    assert job.go(2 * INTERVAL)[0].endswith(f"rank 3 (n1) {LOADING} for 20 s")


@pytest.mark.parametrize(
    "place", [("sleep (/work/train.py:9)",), (), ("poll (/work/train.py:9)", *LOAD)]
)
def test_silence_alone_is_no_hang(job: Watched, place: tuple[str, ...]) -> None:
    job.all(works=False, place=place, waits_in="hrtimer_nanosleep")
    assert job.go(10 * TIMEOUT) == []


ODD: dict[str, tuple[dict[str, Any], str]] = {
    "stopped": ({"state": "T"}, "is stopped by a signal such as SIGSTOP"),
    "a lock": ({"waits_in": "futex_do_wait"}, "waits for a lock or native code in load_batch"),
    "a data loader": ({"place": NEXT}, "waits for the data loader in load_batch"),
}


@pytest.mark.parametrize("case", ODD)
def test_one_rank_is_enough_where_it_cannot_go_on(job: Watched, case: str) -> None:
    how, words = ODD[case]
    job.all(works=False, place=("nap (/work/train.py:9)",), waits_in="hrtimer_nanosleep")
    vars(job.ranks[3]).update({"place": LOAD, **how})
    said = job.go(TIMEOUT + 2)
    assert (words in said[0]) if case != "a data loader" else said == []


def test_who_waits_may_use_the_cpu_and_print(job: Watched) -> None:
    hang(job)
    for rank in job.ranks[:3]:
        rank.works = True
    assert "rank 3 (n1) has been in load_batch" in job.go(TIMEOUT + 2)[0]


def test_all_ranks_may_use_the_cpu_in_a_collective_that_does_not_end(job: Watched) -> None:
    for rank in job.ranks:
        rank.calls = (collective(rank.number, 12)._replace(age=25.0),)
    job.ranks[3].calls = (collective(3, 12, operation="barrier")._replace(age=24.0),)
    job.ranks[3].place = BARRIER
    said = job.go(2 * TIMEOUT)
    assert said[0].startswith("no progress for 24 s: ranks 0-2 wait in all_reduce (train.py:41);")
    assert "rank 3 (n1) waits in barrier (train.py:55)" in said[0]


def test_ranks_that_wait_for_each_other_all_the_time_do_work(job: Watched) -> None:
    job.all(place=ALL_REDUCE)
    assert job.go(10 * TIMEOUT) == []


def test_a_rank_that_has_ended_already_is_named(job: Watched) -> None:
    job.fleet.node("n1").exits(3, 0)
    job.all(works=False)
    said = [line for line in job.go(TIMEOUT + 4) if "no progress" in line]
    assert [line.partition(": ")[2] for line in said] == [
        "rank 3 has already exited with code 0; all 3 ranks wait in all_reduce (train.py:41)"
    ]
    assert (hangs(job)[0].ranks, hangs(job)[0].hosts) == (
        (3,),
        ("n1",),
    )


def test_all_wait_and_none_is_odd(job: Watched) -> None:
    job.all(works=False)
    said = job.go(TIMEOUT + 2)
    assert said[0] == "no progress for 20 s: all 4 ranks wait in all_reduce (train.py:41)"
    job.all(works=True, place=LOAD)
    assert job.go(2 * INTERVAL)[0].startswith("the job resumed after 2")


def test_a_node_that_is_silent_is_named(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of("n0", "n1", lease=60.0))
    job.go(TIMEOUT)
    job.all(works=False)
    job.silent = {"n1"}
    said = job.go(TIMEOUT + 4)
    assert "ranks 2-3 (n1): n1 has not answered for 2" in said[0]
    job.silent = set()
    assert "resumed after" in job.go(2 * INTERVAL)[0]


def test_a_node_that_does_not_report_says_nothing_of_its_ranks(job: Watched) -> None:
    job.mute = {"n1"}
    job.all(works=False)
    assert job.go(5 * TIMEOUT) == []


def test_time_in_which_this_process_was_stopped_does_not_count(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of("n0", "n1", lease=1000.0))
    job.go(TIMEOUT)
    hang(job)
    job.go(TIMEOUT - 2 * INTERVAL)
    job.fleet.clock.go(100.0)
    assert job.go(TIMEOUT - INTERVAL) == []
    assert job.go(2 * INTERVAL)[0].startswith("no progress for 20 s")


def test_a_hang_that_was_found_stands_when_this_process_was_stopped(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of("n0", "n1", lease=1000.0))
    odd = hang(job)
    job.go(TIMEOUT + 2)
    job.fleet.clock.go(100.0)
    assert job.go(3 * TIMEOUT) == []
    vars(odd).update(works=True, place=ALL_REDUCE)
    (said,) = job.go(2 * INTERVAL)
    assert said.startswith("rank 3 resumed after")
    assert len(hangs(job)) == 1


def test_nothing_is_said_while_ranks_are_debugged(job: Watched) -> None:
    hang(job)
    job.run.debugging.add(1)
    assert job.go(5 * TIMEOUT) == []
    job.run.debugging.clear()
    assert job.go(TIMEOUT + 4)[0].startswith("no progress for 20 s")


def test_nothing_is_said_while_nobody_reads_the_output(job: Watched) -> None:
    hang(job)
    for _ in range(64):
        job.fleet.node("n0").prints(0, "x" * (1 << 14))
        job.fleet.step()
    assert job.go(5 * TIMEOUT) == []
    job.fleet.console.take()
    assert job.go(TIMEOUT + 4)[0].startswith("no progress for 20 s")


def test_the_job_is_stopped_once_the_stacks_are_written(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of("n0", "n1"), on_hang="stop")
    job.folder = "/logs"
    job.go(TIMEOUT)
    hang(job)
    saved, stopping, *_ = job.go(TIMEOUT + 2)
    assert saved == "the stacks of all ranks: /logs on n0, n1"
    assert stopping.endswith("for 20 s: stopping the job")
    assert job.run.state.stopping


def test_no_watch_goes_on_after_the_end(job: Watched) -> None:
    hang(job)
    job.fleet.end_well(job.run)
    job.fleet.said()
    assert job.go(5 * TIMEOUT) == []


SERVED = (f"Queue.get ({LIB}/queue.py:171)", *LOAD)
ACCEPTS = (f"socket.accept ({LIB}/socket.py:294)",)
DOUBT = "; it may be a server that waits for requests"


@pytest.mark.parametrize("on_hang", ["stop", "restart"])
def test_what_may_be_a_server_is_never_stopped(fleet_of: FleetOf, on_hang: str) -> None:
    job = Watched(fleet_of("n0", "n1"), on_hang=on_hang)
    job.go(TIMEOUT)
    odd = hang(job, place=SERVED, threads=(ACCEPTS,))
    said = job.go(5 * TIMEOUT)
    assert said[0].endswith(
        f"waits for a queue or a result in load_batch (data.py:88) for 20 s{DOUBT}"
    )
    assert [one.then for one in alarms(job)] == ["report"]
    assert not job.run.state.stopping
    vars(odd).update(works=True, place=ALL_REDUCE)
    assert job.go(TIMEOUT)[0].startswith("rank 3 resumed after")
    vars(odd).update(works=False, place=SERVED)
    assert job.go(5 * TIMEOUT) == []
    vars(odd).update(threads=())
    assert "for 1" in job.go(5 * TIMEOUT)[0]
    assert [one.then for one in alarms(job)[2:]] == [on_hang]


def test_a_hang_is_not_over_while_the_rank_is_where_it_was(job: Watched) -> None:
    odd = hang(job)
    assert len(job.go(TIMEOUT + 2)) == 2
    for _ in range(10):
        odd.cpu += 0.5  # a timer in another thread
        assert job.go(TIMEOUT / 2) == []
    odd.works = True
    (said,) = job.go(TIMEOUT)
    assert said.startswith("rank 3 resumed after")


def test_a_process_that_was_stopped_goes_on_where_it_was(job: Watched) -> None:
    odd = hang(job, state="T")
    assert len(job.go(TIMEOUT + 2)) == 2
    vars(odd).update(state="S", works=True)
    (said,) = job.go(2 * INTERVAL)
    assert said.startswith("rank 3 resumed after")


def loop(job: Watched) -> Any:
    """Let rank 3 compute while the others wait in a collective that it has not called."""
    job.all(works=False)
    for rank in job.ranks[:3]:
        rank.calls = (collective(rank.number, 12),)
    done = collective(3, 11, "completed")
    vars(job.ranks[3]).update(works=True, active=True, place=LOAD, calls=(done,))
    return job.ranks[3]


def age(job: Watched, seconds: float) -> list[str]:
    """Let time pass, and the collectives grow older."""
    said: list[str] = []
    for _ in range(int(seconds / INTERVAL)):
        for rank in job.ranks[:3]:
            rank.calls = tuple(one._replace(age=one.age + INTERVAL) for one in rank.calls)
        said += job.go(INTERVAL)
    return said


def test_a_rank_that_computes_for_long_where_it_was_may_be_in_a_loop(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of("n0", "n1"), on_hang="stop")
    job.go(TIMEOUT)
    odd = loop(job)
    assert age(job, 2.5 * TIMEOUT) == []
    said = age(job, TIMEOUT)
    assert said[0].startswith("no progress for 6")
    assert "rank 3 (n1) is in load_batch (data.py:88), before collective 12" in said[0]
    assert said[0].endswith("; it may be in an endless loop")
    assert [one.then for one in alarms(job)] == ["report"]
    assert age(job, 5 * TIMEOUT) == []
    odd.place = ALL_REDUCE
    assert age(job, TIMEOUT)[0].startswith("rank 3 resumed after")


def test_a_loop_is_named_though_this_process_gets_no_cpu_now_and_then(job: Watched) -> None:
    loop(job)
    said = []
    for _ in range(int(4 * TIMEOUT / INTERVAL)):
        said += age(job, INTERVAL)
        job.fleet.clock.go(INTERVAL + 1.5 * LATE)
    assert said[0].endswith("; it may be in an endless loop")


LONG: dict[str, dict[str, Any]] = {
    "it reads or writes": {"reads": True},
    "it calls other functions": {"looped": True},
    "it waits for its data loader": {"place": NEXT},
    "its collectives are not recorded": {"unrecorded": True},
}


@pytest.mark.parametrize("case", LONG)
def test_a_long_computation_is_no_loop(job: Watched, case: str) -> None:
    odd = loop(job)
    vars(odd).update(LONG[case])
    if case == "its collectives are not recorded":
        job.all(calls=())
    assert age(job, 6 * TIMEOUT) == []


def test_time_counts_from_the_start_of_the_last_rank(fleet_of: FleetOf) -> None:
    """A node may import for all of its ranks first (`--preload`), which may take minutes."""
    job = Watched(fleet_of("n0", "n1"), begin=["n0"])
    job.all(works=False)
    assert job.go(3 * TIMEOUT) == []
    job.begin("n1")
    job.all(works=False)
    assert job.go(TIMEOUT - INTERVAL) == []
    (said, _) = job.go(3 * INTERVAL)
    assert said.startswith("no progress for 2")
    assert "all 4 ranks wait in all_reduce (train.py:41)" in said
