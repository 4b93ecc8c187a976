"""One job in the runner, from its spec to its exit code; its nodes are played by the test."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.backends.base import Part
from dsrun.launcher.backends.events import EngineEnded
from dsrun.launcher.common.errors import NodeError, UsageError
from dsrun.launcher.control import frames, local, messages, round_messages
from dsrun.launcher.head.job import launch
from dsrun.launcher.head.job.start import PreparedStart
from dsrun.launcher.head.run.record import JobRecord
from dsrun.launcher.specs.environment import ForwardedEnv
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Origin, Plan, lay_out
from dsrun.launcher.specs.policies import ElasticPolicy, HookPolicy, OutputPolicy, SupervisionPolicy
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.rendezvous import Rendezvous

from ...support.fake_nodes import FakeNode, FakeNodes, dispositions
from ...support.local_control import new_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from dsrun.launcher.head.report.report import JobReport

    Steps = Iterator[Callable[[], bool]]
    Nodes = Sequence[FakeNode]
    History = Callable[[Nodes], Steps]

PLAN = Plan(lay_out([Host("n0", (0, 1))]), Program("x.py"), "ssh", None, None)
OPENING = "dsrun: 1 node from this program over ssh; job j"


class Job:
    """What comes of a job: exit code, lines, report, and its nodes."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self._report = folder / "report.json"
        self.nodes: list[FakeNode] = []

    def play(self, history: History, plan: Plan = PLAN, **more: Any) -> int:
        """Run a job whose nodes say what a history has them say."""
        output = more.pop("output", OutputPolicy())._replace(report_file=str(self._report))
        fake = FakeNodes(history)
        parts = [Part(fake, list(reversed(plan.nodes)))]
        spec = JobSpec(more.pop("job_id", "j"), plan, "/work", output=output, **more)
        try:
            with dispositions():
                return launch.run(spec, PreparedStart(plan, parts), lambda _node: parts[0])
        finally:
            self.nodes = fake.nodes

    def lines(self) -> list[str]:
        """The lines on standard error so far."""
        return self._capfd.readouterr().err.splitlines()

    def report(self) -> dict[str, Any]:
        """The report file."""
        found: dict[str, Any] = json.loads(self._report.read_text())
        return found


@pytest.fixture
def job(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Job:
    """A job to be played."""
    return Job(tmp_path, capfd)


def started(nodes: Nodes) -> Steps:
    """The only node has got START."""
    nodes[0].hello()
    yield nodes[0].got(frames.START)


def well(nodes: Nodes) -> Steps:
    """All ends well."""
    yield from started(nodes)
    for rank in (0, 1):
        nodes[0].exits(rank, 0)
    nodes[0].done()


def stopped(nodes: Nodes) -> Steps:
    """All end as told."""
    yield nodes[0].got(frames.STOP)
    nodes[0].stops(0, 1)


# -- how it ends ----------------------------------------------------------------------------------


def test_a_job_that_ends_well(job: Job) -> None:
    assert job.play(well) == 0
    assert job.lines() == [OPENING]
    assert (job.report()["exit_code"], job.report()["job_id"]) == (0, "j")


def test_a_job_has_a_name_by_which_it_can_be_asked_while_it_runs(job: Job) -> None:
    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        with pytest.raises(OSError, match="in use"):
            local.listener(local.JOB, name)
        nodes[0].stops(0, 1)

    name = new_name()  # of no other job that runs now
    job.play(history, job_id=name)
    local.listener(local.JOB, name).close()


def test_a_job_that_fails_is_told_of(job: Job) -> None:
    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        nodes[0].exits(1, 7)
        yield nodes[0].got(frames.STOP)
        nodes[0].exits(0, -15, told=True)
        nodes[0].done(tails={"1": ["", "ValueError: boom\n"]})

    assert job.play(history) == 7
    first, told, *rest = job.lines()
    assert first == OPENING
    assert told.startswith("dsrun: rank 1 (n0, local rank 1, pid 4001) exited with code 7 after")
    assert "    ValueError: boom" in rest
    assert job.report()["exit_code"] == 7


def test_a_job_that_cannot_start_has_a_report_and_raises(job: Job) -> None:
    def history(nodes: Nodes) -> Steps:
        nodes[0].hello(problems=("no such folder",))
        yield nodes[0].got(frames.JOB)

    with pytest.raises(NodeError, match="n0: no such folder"):
        job.play(history)
    report = job.report()
    assert (report["job_id"], report["exit_code"]) == ("j", 69)
    assert report["error"].endswith("n0: no such folder")


def test_a_fault_of_dsruns_own_has_a_report_and_raises(job: Job) -> None:
    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        nodes[0].prints(1, "half a line", stream=2)
        nodes[0].exits(0, 7)
        yield nodes[0].got(frames.STOP)
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        job.play(history)
    assert (job.report()["exit_code"], job.report()["error"]) == (70, "RuntimeError: a bug")
    assert job.lines() == [OPENING, "n0:1| half a line"]


def test_no_report_is_written_where_none_is_asked_for(tmp_path: Path) -> None:
    spec = JobSpec("j", PLAN, "/work")
    parts = [Part(FakeNodes(well), PLAN.nodes)]
    with dispositions():
        assert launch.run(spec, PreparedStart(PLAN, parts), lambda _node: parts[0]) == 0
    assert list(tmp_path.iterdir()) == []


# -- what the user is told first ------------------------------------------------------------------


def test_what_there_is_to_say_of_the_plan_is_said_first(job: Job) -> None:
    origin = Origin("hosts", "ssh", notes=("hosts lists n0 twice",))
    secret = ForwardedEnv({}, withheld=("HF_TOKEN", "AWS_SECRET"))
    job.play(well, origin=origin, travel=secret, output=OutputPolicy(level="debug"))
    names = "HF_TOKEN, AWS_SECRET (send one with --export NAME)"
    assert job.lines()[:4] == [
        "dsrun: hosts: hosts; launcher: ssh",
        "dsrun: 1 node from hosts over ssh; job j",
        "dsrun: hosts lists n0 twice",
        f"dsrun: not sent to the nodes because they look like secrets: {names}",
    ]


def test_where_nobody_has_chosen_anything_there_is_nothing_to_tell(job: Job) -> None:
    job.play(well, PLAN._replace(launcher="local"), origin=Origin(quiet=True))
    assert job.lines() == []


def test_on_this_machine_nothing_travels(job: Job) -> None:
    job.play(well, PLAN._replace(launcher="local"), travel=ForwardedEnv({}, withheld=("TOKEN",)))
    assert job.lines() == ["dsrun: this machine, from this program; job j"]


@pytest.mark.parametrize("colour", ["always", "never"])
def test_colours_are_those_of_the_output_policy(
    colour: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        nodes[0].prints(0, "hello\n")
        for rank in (0, 1):
            nodes[0].exits(rank, 0)
        nodes[0].done()

    Job(tmp_path, capfd).play(history, output=OutputPolicy(color=colour))
    out = capfd.readouterr().out
    assert ("\x1b[" in out, out.endswith("hello\n")) == (colour == "always", True)


# -- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR2"])
def test_the_signals_that_are_to_end_the_job_end_it(name: str, job: Job) -> None:
    number = signal.Signals[name]

    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        os.kill(os.getpid(), number)
        yield from stopped(nodes)

    watched = SupervisionPolicy(end_signals=(name,))
    assert job.play(history, supervision=watched) == 128 + number
    stop = messages.Stop(number, 30.0)._asdict()
    assert ["STOP", stop] in job.nodes[0].frames()


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2"])
def test_other_signals_of_the_users_are_passed_on(name: str, job: Job) -> None:
    number = signal.Signals[name]

    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        os.kill(os.getpid(), number)
        yield nodes[0].got(frames.SIGNAL)
        for rank in (0, 1):
            nodes[0].exits(rank, 0)
        nodes[0].done()

    assert job.play(history) == 0


def test_sigquit_shows_who_runs_where(job: Job) -> None:
    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        os.kill(os.getpid(), signal.SIGQUIT)
        os.kill(os.getpid(), signal.SIGUSR1)
        yield nodes[0].got(frames.SIGNAL)
        for rank in (0, 1):
            nodes[0].exits(rank, 0)
        nodes[0].done()

    assert job.play(history, output=OutputPolicy(level="error")) == 0
    assert job.lines() == ["dsrun: running: 0 of 0 ranks"]


@pytest.mark.parametrize("ignored", [True, False])
def test_a_hangup_that_was_ignored_stays_so(ignored: bool, job: Job) -> None:
    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        yield from stopped(nodes)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        code = job.play(history)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert code == 128 + (signal.SIGTERM if ignored else signal.SIGHUP)


def test_a_signal_that_there_is_not(job: Job) -> None:
    with pytest.raises(UsageError, match="--signals_to_handle"):
        job.play(well, supervision=SupervisionPolicy(end_signals=("SIGNONE",)))


def test_ctrl_z_is_acted_on(job: Job) -> None:
    handled: list[bool] = []

    def history(nodes: Nodes) -> Steps:
        handled.append(signal.getsignal(signal.SIGTSTP) != before)
        yield from well(nodes)

    before = signal.getsignal(signal.SIGTSTP)
    job.play(history)
    assert (handled, signal.getsignal(signal.SIGTSTP)) == ([True], before)


@pytest.mark.parametrize("transport", ["stdio", "dial"])
def test_there_is_a_place_to_dial_where_a_backend_needs_one(transport: Any) -> None:
    fake = FakeNodes(well)
    fake.transport = transport
    parts = [Part(fake, PLAN.nodes)]
    with dispositions():
        launch.run(JobSpec("j", PLAN, "/work"), PreparedStart(PLAN, parts), lambda _node: parts[0])
    assert (fake.dial is not None) == (transport == "dial")


def test_output_that_nobody_reads_stops_the_job(job: Job) -> None:
    read, write = os.pipe()
    out = os.dup(1)

    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        os.close(read)
        nodes[0].prints(0, "hello\n")
        yield from stopped(nodes)

    os.dup2(write, 1)
    os.close(write)
    try:
        code = job.play(history)
    finally:
        os.dup2(out, 1)
        os.close(out)
    assert code == 128 + signal.SIGPIPE


# -- who decides about rounds ---------------------------------------------------------------------


def test_rounds_of_dsruns_own(job: Job) -> None:
    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        nodes[0].joins(4000)
        yield nodes[0].got(frames.ROUND)
        for rank in (0, 1):
            nodes[0].exits(rank, 0)
        nodes[0].done()

    assert job.play(history, elastic=ElasticPolicy(1, 1, 3)) == 0


def test_rounds_of_torchs(job: Job) -> None:
    met = Rendezvous("c10d", "n0:1", "id", 1, 2, {}, "", 0, 0.1)

    def history(nodes: Nodes) -> Steps:
        nodes[0].hello(port=None)
        yield nodes[0].got(frames.START)
        nodes[0].says(
            messages.pack(
                frames.AGENT_FAILED, round_messages.AgentFailure("nobody came", unusable=True)
            )
        )
        yield nodes[0].got(frames.STOP)
        nodes[0].done()

    with pytest.raises(NodeError, match="nobody came"):
        job.play(history, PLAN._replace(rendezvous=met), elastic=ElasticPolicy(1, 1, 3))


def test_ranks_go_by_the_plan_however_its_backends_have_its_nodes(job: Job) -> None:
    plan = PLAN._replace(nodes=lay_out([Host("n0", (0,)), Host("n1", (0,))]))

    def history(nodes: Nodes) -> Steps:
        by_name = {node.name: node for node in nodes}
        for name in ("n0", "n1"):
            by_name[name].hello()
        yield by_name["n1"].got(frames.PROBE)
        by_name["n1"].reaches()
        for rank, name in enumerate(("n0", "n1")):
            yield by_name[name].got(frames.START)
            by_name[name].exits(rank, 0)
            by_name[name].done()

    assert job.play(history, plan) == 0
    assert job.report()["hosts"] == ["n0", "n1"]


def test_the_report_is_made_once_for_all_who_are_told(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """END, the screen, the hooks, the report file and the exit code have the same one."""
    made: list[JobReport] = []
    report = JobRecord.report

    def counted(record: JobRecord, *given: Any, **more: Any) -> JobReport:
        made.append(report(record, *given, **more))
        return made[-1]

    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        nodes[0].exits(1, 7)
        yield nodes[0].got(frames.STOP)
        nodes[0].exits(0, -15, told=True)
        nodes[0].done()

    monkeypatch.setattr(JobRecord, "report", counted)
    told = HookPolicy(str(tmp_path / "metrics"), f"cat >> {tmp_path}/events", str(tmp_path))
    assert job.play(history, hooks=told) == 7
    assert len(made) == 1
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert events[-1]["report"] == job.report()
    assert "dsrun_exit_code" in (tmp_path / "metrics").read_text()


def test_what_an_engine_explains_once_it_is_closed_is_in_the_last_event_too(
    job: Job, tmp_path: Path
) -> None:
    def history(nodes: Nodes) -> Steps:
        yield from started(nodes)
        ended = EngineEnded("mpirun ended (exit code 42): MPI_ABORT was called", 42, False)
        nodes[0].at_close = lambda: nodes[0].emit(ended)
        nodes[0].leaves()

    told = HookPolicy(str(tmp_path / "metrics"), f"cat >> {tmp_path}/events", str(tmp_path))
    assert job.play(history, hooks=told) == 42
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert (events[-1]["exit_code"], events[-1]["report"]) == (42, job.report())
    assert 'dsrun_exit_code{job_id="j"} 42.0' in (tmp_path / "metrics").read_text()


def test_a_signal_that_comes_while_the_nodes_leave_is_why_their_workers_have_ended(
    job: Job,
) -> None:
    """It reaches the processes of a job one after another: workers first, and then dsrun."""

    def history(nodes: Nodes) -> Steps:
        yield from well(nodes)
        yield nodes[0].got(frames.END)
        os.kill(os.getpid(), signal.SIGTERM)
        yield lambda: False

    assert job.play(history) == 128 + signal.SIGTERM
    assert job.report()["cause"] == "signal"
