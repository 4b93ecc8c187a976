"""What happened in a job, and when."""

from __future__ import annotations

from dsrun.launcher.features.picture import runner_timeline as timeline
from dsrun.launcher.features.picture.runner_timeline import WorkerSpan
from dsrun.launcher.head.report.ending import Ending
from dsrun.launcher.head.run.events import (
    RESULT,
    Alarm,
    AlarmOver,
    Exit,
    JobEnded,
    Lost,
    RanksStarted,
    Round,
    Started,
)

from ...support.cost import LINEAR, growth
from ...support.pictures import Played
from ...support.reports import report


def started(hosts: int = 2, per_host: int = 1) -> Played:
    """A job whose workers have started after a second."""
    played = Played()
    names = tuple(f"n{number}" for number in range(hosts))
    played.tell(Started("j", hosts * per_host, names, ("n0", 1)))
    for number, name in enumerate(names):
        ranks = tuple(range(number * per_host, (number + 1) * per_host))
        played.tell(RanksStarted(name, ranks), after=0.0 if number else 1.0)
    return played


def test_a_worker_lives_from_its_start_to_its_end() -> None:
    played = started()
    played.tell(Exit(0, "n0", 7, 0, False, ""), after=2.0)
    played.tell(Exit(1, "n1", 8, -9, False, "killed by the OOM killer"), after=1.0)
    assert played.timeline.all_spans == [
        WorkerSpan(0, "n0", 0, 1.0, 3.0, "ok", "exit code 0"),
        WorkerSpan(1, "n1", 0, 1.0, 4.0, "failed", "signal 9 (killed by the OOM killer)"),
    ]
    assert played.marks == [(4.0, "failure", "rank 1 failed: signal 9 (killed by the OOM killer)")]


def test_workers_of_a_lost_node_are_lost_with_it() -> None:
    played = started()
    played.tell(Lost("n1", "no heartbeat", True), after=3.0)
    lost = WorkerSpan(1, "n1", 0, 1.0, 4.0, "lost", "lost n1: no heartbeat")
    assert played.timeline.all_spans == [lost, WorkerSpan(0, "n0", 0, 1.0)]
    assert played.marks == [(4.0, "loss", "lost n1: no heartbeat")]


def test_rounds_are_told_apart() -> None:
    played = Played()
    for number in (1, 2):
        played.tell(Round(number, number - 1, 1, ("n0",)), RanksStarted("n0", (0,)), after=1.0)
        played.tell(Exit(0, "n0", 7, -15, True, ""), after=1.0)
    rows = [(one.round, one.began, one.ended, one.state) for one in played.timeline.all_spans]
    assert rows == [(1, 1.0, 2.0, "stopped"), (2, 3.0, 4.0, "stopped")]
    assert played.marks == [
        (1.0, "round", "round 1: 1 ranks"),
        (3.0, "round", "round 2: 1 ranks, restart 1"),
    ]


def test_what_was_wrong_lasts_until_it_is_over_or_the_job_is() -> None:
    played = started()
    played.tell(Alarm("hang", "report", "rank 0 sleeps"), after=1.0)
    played.tell(AlarmOver("hang", "it goes on"), after=4.0)
    played.tell(
        Alarm("slow", "report", "rank 1 is slow"), JobEnded(Ending("j", report())), after=1.0
    )
    marks = [(one.kind, one.at, one.until) for one in played.timeline.all_marks]
    assert marks == [("hang", 2.0, 6.0), ("slow", 7.0, 7.0)]
    assert {one.ended for one in played.timeline.all_spans} == {7.0}


def test_the_end_of_the_output_of_each_rank_is_kept() -> None:
    played = started()
    for number in range(1000):
        played.prints(0, b"line %d of rank 0\n" % number)
    played.prints(1, "é".encode() + b"\xff", 2)
    played.prints(1, b"a pickled result", RESULT)
    ((life, text),) = played.timeline.tail(0)
    assert text.endswith("line 999 of rank 0\n")
    assert (life, len(text)) == ("", timeline.TAIL)
    assert (played.timeline.tail(1), played.timeline.tail(7)) == ([("", "é\ufffd")], [])


def test_the_output_of_a_rank_is_parted_by_rounds() -> None:
    played = Played()
    for number in (1, 2, 3):
        played.tell(Round(number, number - 1, 1, ("n0",)), RanksStarted("n0", (0,)))
        if number != 2:
            played.prints(0, b"no line end %d" % number)
    found = [("round 1", "no line end 1"), ("round 3", "no line end 3")]
    assert played.timeline.tail(0) == found
    assert (played.timeline.round, played.timeline.restarts) == (3, 2)


def test_of_all_rounds_together_no_more_is_kept() -> None:
    played = Played()
    for number in range(1, 2 * timeline.TAIL):
        played.tell(Round(number, number - 1, 1, ("n0",)), RanksStarted("n0", (0,)))
        played.prints(0, b"abc")
    lives = played.timeline.tail(0)
    assert sum(len(text) for _, text in lives) == timeline.TAIL
    assert lives[-1] == (f"round {2 * timeline.TAIL - 1}", "abc")
    played.prints(0, b"x" * timeline.TAIL)
    assert [len(text) for _, text in played.timeline.tail(0)] == [timeline.TAIL]


def test_of_many_ranks_less_is_kept_of_each() -> None:
    played = started(hosts=1024, per_host=8)
    played.prints(5, b"x" * 10_000)
    ((_, text),) = played.timeline.tail(5)
    assert len(text) == timeline.LEAST == timeline.TAILS // 8192


def test_lines_that_tell_of_a_checkpoint_are_marks() -> None:
    played = started()
    lines = (b"step 7", b"Saved checkpoint at step 7", b"loading checkpoint x", b"wrote a.ckpt")
    for line in lines:
        played.prints(0, line + b"\n")
    assert [words for _, _, words in played.marks] == [lines[1].decode(), lines[3].decode()]


def test_what_is_kept_is_bounded() -> None:
    played = started()
    for _ in range(2 * timeline.MOST_SPANS):
        played.tell(RanksStarted("n0", (0,)), Exit(0, "n0", 7, 0, False, ""))
        played.prints(0, b"saved x.ckpt\n")
    found = played.timeline
    assert len(found.all_spans) <= 1.5 * timeline.MOST_SPANS + 1
    assert len(found.all_marks) <= 1.5 * timeline.MOST_MARKS
    assert found.dropped >= timeline.MOST_SPANS // 2
    assert found.all_spans[0].began == 1.0, "the first ones are kept"


def test_it_is_linear_in_what_is_printed() -> None:
    def cost(size: int) -> None:
        started().prints(0, b"ckp ckp " * size)

    assert growth(cost, 4000) < LINEAR
