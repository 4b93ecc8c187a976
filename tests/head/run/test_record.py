"""What has happened in a job: the first word on a node counts, and a cause may follow."""

from __future__ import annotations

import signal

from dsrun.launcher.common.errors import LOST, TOO_FEW
from dsrun.launcher.control.messages import Done, NodeBindings, WorkerExit
from dsrun.launcher.head.report.report import JobReport, Loss
from dsrun.launcher.head.run.record import BESIDE, WITH_ENGINE, JobRecord

from ...support.run_nodes import SentNode, plan_of, sent_nodes


class Told:
    """A job of two nodes with two workers each."""

    def __init__(self) -> None:
        self.record = JobRecord("j", 10.0)
        self.nodes: list[SentNode] = sent_nodes(plan_of(2))
        for node in self.nodes:
            node.connection.offset = 100.0

    def ends(self, rank: int, code: int = 0, *, signalled: bool = False) -> bool:
        ended = WorkerExit(rank, 1000 + rank, code, signalled, 5.0, "a hint")
        return self.record.exited(self.nodes[rank // 2], ended)

    def report(self, *, graceful: bool = False) -> JobReport:
        return self.record.report(self.nodes, 4, graceful_term_ok=graceful)


def test_a_worker_fails_by_itself_or_was_told_to_stop() -> None:
    job = Told()
    assert [job.ends(0), job.ends(1, 3, signalled=True)] == [False, False]
    assert not job.record.has_failures
    assert job.ends(2, 7)
    assert job.record.has_failures
    report = job.report()
    assert (report.stopped, [failure.rank for failure in report.failures]) == (1, [2])
    assert report.done == ((105.0, 0, "n0"),)


def test_a_rank_that_had_raised_an_exception_before_it_was_stopped_is_no_failure() -> None:
    job = Told()
    job.ends(2, 1)
    job.ends(3, -15, signalled=True)
    job.ends(1, -15, signalled=True)
    job.nodes[1].done = Done((), {"2": ["", "err"], "3": ["", "boom"]})
    report = job.report()
    assert [one.rank for one in report.failures] == [2]
    assert [(one.rank, one.stderr, one.code) for one in report.unended] == [(3, "boom", 1)]


def test_a_failure_is_told_with_what_its_node_has_kept_of_it() -> None:
    job = Told()
    job.ends(3, -9)
    left, told = ("pid 7",), {"3": ["out", "err"]}
    job.nodes[1].done = Done(
        left,
        told,
        recorded={"3": ["m", "t"]},
        logs={"3": "/log"},
        evidence={"3": "disk: x\nport: y"},
    )
    report = job.report()
    (failure,) = report.failures
    assert (failure.at, failure.rank, failure.local_rank, failure.host) == (105.0, 3, 1, "n1")
    assert (failure.pid, failure.code, failure.hint) == (1003, -9, "a hint")
    assert (failure.stdout, failure.stderr, failure.message) == ("out", "err", "m")
    assert (failure.traceback, failure.log) == ("t", "/log")
    assert failure.evidence == ("disk: x", "port: y")
    assert report.left == ("n1: pid 7",)


def test_the_ends_of_a_former_round_are_forgotten() -> None:
    job = Told()
    job.ends(0, 1)
    job.record.clear_exits()
    assert not job.record.has_failures
    assert job.report().failures == ()


def test_the_first_word_on_a_lost_node_counts() -> None:
    job = Told()
    job.record.lost("n1", "no heartbeat", 20.0)
    job.record.lost("n1", "its line ended", 21.0, explained=False)
    job.record.explain("n1", "out of power")
    assert job.report().losses == (Loss(20.0, "n1", "no heartbeat"),)
    assert (job.record.cut_off, job.record.awaits_causes) == (False, False)


def test_a_line_that_ends_waits_for_its_cause() -> None:
    job = Told()
    job.record.lost("n1", "its line ended", 20.0, explained=False)
    assert (job.record.cut_off, job.record.awaits_causes) == (True, True)
    job.record.explain("n1", "ssh: broken pipe")
    assert not job.record.awaits_causes
    assert job.report().losses == (Loss(20.0, "n1", "ssh: broken pipe"),)


def test_without_a_cause_the_end_of_the_line_is_it() -> None:
    job = Told()
    job.record.lost("n1", "its line ended", 20.0, explained=False)
    job.record.explain("n0", "somebody else")
    assert job.record.awaits_causes
    job.record.explain("n1", "")
    assert job.report().losses == (Loss(20.0, "n1", "its line ended"),)


def test_the_end_of_the_engine_explains_the_line_that_ended_first() -> None:
    job = Told()
    job.record.lost("n1", "its line ended", 21.0, explained=False)
    job.record.lost("n0", "its line ended", 20.0, explained=False)
    job.record.engine_ended("mpirun was killed", 137, 25.0)
    assert job.report().losses == (
        Loss(21.0, "n1", "its line ended"),
        Loss(20.0, "n0", "mpirun was killed", 137),
    )


def test_an_engine_that_ends_first_is_the_loss() -> None:
    job = Told()
    job.record.lost("n1", "no heartbeat", 20.0)
    job.record.engine_ended("mpirun was killed", 137, 25.0)
    assert job.report().losses[1] == Loss(25.0, "", "mpirun was killed", 137, "lost the engine")


def test_too_few_nodes_for_too_long() -> None:
    job = Told()
    job.record.gave_up("1 of 2", 30.0)
    (loss,) = job.report().losses
    assert loss == Loss(30.0, "", "1 of 2", TOO_FEW, "gave up")
    assert loss.code != LOST


def test_a_signal_that_came_of_a_killed_engine_is_none() -> None:
    job = Told()
    job.record.stopped_by_node(signal.SIGTERM, 20.0)
    assert job.report().stop_signal == signal.SIGTERM
    assert job.record.discard_node_signal(20.0 + WITH_ENGINE)
    assert job.report().stop_signal == 0


def test_a_signal_long_before_an_engine_is_killed_is_the_cause() -> None:
    """As a scheduler ends a job."""
    job = Told()
    job.record.stopped_by_node(signal.SIGTERM, 20.0)
    assert not job.record.discard_node_signal(50.0)
    assert job.report().stop_signal == signal.SIGTERM


def test_a_signal_of_the_users_stays_whatever_becomes_of_the_engine() -> None:
    job = Told()
    job.record.stop_signal = signal.SIGINT
    job.record.stopped_by_node(signal.SIGTERM, 20.0)
    assert not job.record.discard_node_signal(20.0)
    assert job.report().stop_signal == signal.SIGINT


def test_a_stop_is_clean_if_that_is_asked_for_and_every_rank_ended_well() -> None:
    job = Told()
    assert not job.report(graceful=True).stop_is_clean, "nobody has ended"
    for rank in range(4):
        job.ends(rank, signalled=True)
    assert job.report(graceful=True).stop_is_clean
    assert not job.report().stop_is_clean
    job.ends(3, 1, signalled=True)
    assert not job.report(graceful=True).stop_is_clean


def test_a_stop_is_not_clean_where_a_node_was_lost() -> None:
    job = Told()
    job.ends(0, signalled=True)
    job.record.lost("n1", "no power", 1.0)
    assert not job.report(graceful=True).stop_is_clean, "nobody knows how its ranks ended"


def test_what_may_still_run_on_a_node_whose_end_was_not_seen() -> None:
    job = Told()
    for node in job.nodes:
        node.left, node.begun = f"rank on {node.name}", True
    assert job.report().unseen == ("rank on n0", "rank on n1")
    job.nodes[0].cleaned_up = True
    job.nodes[1].finish(Done((), {}))
    assert job.report().unseen == ()


def test_a_host_is_named_once() -> None:
    job = Told()
    job.nodes[1].node = job.nodes[0].node
    report = job.report()
    assert (report.job_id, report.world_size, report.hosts) == ("j", 4, ("n0",))
    assert (report.began, report.ended) == (10.0, 10.0)


def test_what_workers_are_bound_to_is_in_the_report_where_it_is_known() -> None:
    job = Told()
    bound = NodeBindings("cuda", ())
    job.nodes[1].bound = bound
    assert job.report().bound == (("n1", bound),)


def test_a_job_ends_well_until_something_else_is_known() -> None:
    job = Told()
    assert job.record.ended_well
    job.ends(0)
    job.record.stopped_late(signal.SIGTERM, "")
    assert (job.record.ended_well, job.report().exit_code) == (False, 143)


def test_a_late_signal_is_not_the_cause_of_a_failure_or_a_loss() -> None:
    failed, lost = Told(), Told()
    failed.ends(0, 7)
    lost.record.lost("n1", "gone", 105.0)
    for job in (failed, lost):
        job.record.stopped_late(signal.SIGTERM, "")
    assert (failed.report().exit_code, lost.report().exit_code) == (7, LOST)


def test_what_the_end_of_an_allocation_may_explain() -> None:
    well, by_signal, failed, lost, cut, engine, known = (Told() for _ in range(7))
    well.ends(0)
    by_signal.ends(0, -signal.SIGTERM)
    failed.ends(0, 7)
    lost.record.lost("n1", "gone", 1.0)
    cut.record.lost("n1", "its line has ended", 1.0, explained=False)
    engine.record.engine_ended("srun ended (exit code 143)", LOST, 1.0)
    known.record.stopped_by(signal.SIGINT, "")
    jobs = (well, by_signal, failed, lost, cut, engine, known)
    expected = [True, True, False, False, True, True, False]
    assert [job.record.may_be_cancelled for job in jobs] == expected


def test_a_worker_ended_beside_a_signal_if_it_ended_just_before_and_by_it() -> None:
    job = Told()
    assert not job.record.failed_beside(signal.SIGTERM, 105.0)
    job.ends(0, 128 + signal.SIGTERM)
    at = 105.0 + BESIDE
    assert job.record.failed_beside(signal.SIGTERM, at)
    assert not job.record.failed_beside(signal.SIGTERM, at + 0.1)
    assert not job.record.failed_beside(signal.SIGINT, at)
    job.record.lost("n1", "gone", 1.0)
    assert not job.record.failed_beside(signal.SIGTERM, at)
