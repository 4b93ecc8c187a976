"""The timelines of the roles of one job, as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.features.picture.runner_timeline import of_job
from dsrun.launcher.head.run.events import (
    CheckWarning,
    Lost,
    RankOutput,
    RanksStarted,
    Round,
    Started,
)
from dsrun.launcher.head.run.run_view import ObservedRun

from ...support.clock import Clock
from ...support.pictures import embedded
from ...support.role_pictures import HOSTS, PlayedRoles, played

if TYPE_CHECKING:
    from dsrun.launcher.head.run.events import Observer


def test_each_role_has_rows_of_its_own() -> None:
    data = embedded(played().page)
    assert data["hosts"] == ["server/n0", "trainer/n0", "trainer/n1"]
    assert data["counts"] == {"roles": 2, "hosts": 2, "ranks": 3}
    spans = data["spans"]
    assert isinstance(spans, list)
    assert [[host, *rest] for _, host, _, *rest in spans] == [
        [0, 1.0, 3.0, "failed", "exit code 3"],
        [0, 4.0, 7.0, "served", "served until the end"],
        [1, 2.0, 6.0, "ok", "exit code 0"],
        [2, 2.0, 6.0, "ok", "exit code 0"],
    ]


def test_ranks_of_all_roles_are_told_apart_and_keep_their_numbers() -> None:
    data = embedded(played().page)
    spans, numbers, tails = data["spans"], data["numbers"], data["tails"]
    assert isinstance(spans, list)
    assert isinstance(numbers, dict)
    assert isinstance(tails, dict)
    keys = list(dict.fromkeys(rank for rank, *_ in spans))
    assert [numbers.get(str(key), key) for key in keys] == [0, 0, 1]
    assert [tails[str(key)] for key in keys] == [
        [["", text]] for text in ("listening\n", "step 1\n", "saved a.ckpt\n")
    ]


def test_marks_name_the_role() -> None:
    marks = embedded(played().page)["marks"]
    assert isinstance(marks, list)
    assert [[at, kind, words, host] for at, kind, words, host, *_ in marks] == [
        [2.0, "checkpoint", "trainer: saved a.ckpt", 2],
        [3.0, "failure", "server: rank 0 failed: exit code 3", 0],
        [3.0, "round", "server: starting again", None],
    ]


def test_the_time_is_that_of_the_roles_that_end_the_job() -> None:
    assert embedded(played().page)["goodput"] == {"good": 4.0, "start": 2.0, "end": 1.0}


def test_without_such_a_role_it_is_that_of_those_that_are_waited_for() -> None:
    job = PlayedRoles(server="never", trainer="wait")
    job.start("trainer", after=1.0)
    job.end("trainer", after=3.0)
    assert embedded(job.page)["goodput"] == {"good": 3.0, "start": 1.0}


def test_a_round_and_a_loss_are_those_of_a_role() -> None:
    job = PlayedRoles()
    job.tell("trainer", Round(1, 0, 2, HOSTS["trainer"]))
    job.tell("trainer", *[RanksStarted(host, (rank,)) for rank, host in enumerate(("n0", "n1"))])
    job.tell("trainer", Lost("n1", "no heartbeat", True), after=1.0)
    marks = embedded(job.page)["marks"]
    assert isinstance(marks, list)
    assert [words for _, _, words, *_ in marks] == [
        "trainer: round 1: 2 ranks",
        "trainer: lost n1: no heartbeat",
    ]


def test_what_the_quick_check_finds_is_told_once() -> None:
    job = PlayedRoles()
    for role in HOSTS:
        job.tell(role, CheckWarning("n1: its clock is 3 s ahead"))
    assert embedded(job.page)["findings"] == ["n1: its clock is 3 s ahead"]


def test_the_output_of_a_role_is_parted_where_it_starts_again() -> None:
    job = played()
    job.tell("server", RanksStarted("n0", (0,)), RankOutput(0, "n0", 1, b"listening again\n"))
    assert job.timeline.tail(0) == [("", "listening\n"), ("started again", "listening again\n")]


def test_restarts_are_those_of_all_roles() -> None:
    job = PlayedRoles()
    job.tell("trainer", Round(3, 2, 2, HOSTS["trainer"]))
    assert embedded(job.page)["counts"] == {"roles": 2, "hosts": 2, "ranks": 2, "restarts": 2}


def test_a_job_that_never_began() -> None:
    assert embedded(PlayedRoles().page)["counts"] == {"roles": 2, "hosts": 0, "ranks": 0}


def test_each_start_of_a_role_is_observed() -> None:
    clock = Clock()
    view: Any = None
    timeline = of_job(clock.loop.clock, {"server": "never", "trainer": "job"})
    for role in ("server", "trainer", "server"):
        told: list[Observer] = []
        timeline.observe(ObservedRun(role, told.append, view))
        (tell,) = told
        tell(Started("j", 1, ("n0",), ("n0", 29500)))
    assert timeline.hosts == ["server/n0", "trainer/n0"]
    assert [mark.words for mark in timeline.all_marks] == ["server: starting again"]
