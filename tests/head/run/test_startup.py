"""The wait for all nodes: what is said of it, and of hosts that share a cause."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import NodeError, UsageError
from dsrun.launcher.control import frames, messages
from dsrun.launcher.head.fleet.node_connection import NodeConnection
from dsrun.launcher.head.output.console import Console
from dsrun.launcher.head.run import fleet_events, run_start, startup
from dsrun.launcher.head.run.gate import Gates, GateStage
from dsrun.launcher.head.run.restart_policy import NoRestarts
from dsrun.launcher.head.run.run_node import RunNode
from dsrun.launcher.head.run.startup import (
    HELD,
    LOG_AFTER,
    SHOW_AFTER,
    StartLimits,
    Startup,
)
from dsrun.launcher.node.checks.preflight import folder_problem, program_problem
from dsrun.launcher.specs.batch_plan import BatchPlan, BatchSettings
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.policies import CheckPolicy
from dsrun.launcher.specs.program import Program

from ...support.clock import Clock
from ...support.cost import LINEAR, growth
from ...support.fake_fleet import NOT_STARTED, refusal
from ...support.fake_gates import FakeGate
from ...support.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


class Waiting:
    """A job that waits for one host, and what is said meanwhile."""

    def __init__(self, capfd: pytest.CaptureFixture[str], level: str = "info") -> None:
        self.clock = Clock()
        self._capfd = capfd
        self._console = Console(self.clock.loop, level=level)
        nodes = lay_out([Host("n1", (0,))])
        self.startup = Startup(
            Plan(nodes, Program("x.py"), "mpich", None, None),
            [RunNode(NodeConnection(node), node, node.rank) for node in nodes],
            self.clock.loop,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            StartLimits(connect=10.0, start=300.0, verbose=level == "debug"),
        )
        self.startup.start()

    def log(self, text: str, level: str = "info") -> None:
        self._console.log(text, level)

    def status(self, text: str) -> None:
        """Show nothing."""

    def go(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.clock.go(0.1)

    def said(self) -> list[str]:
        self._console.close()
        return self._capfd.readouterr().err.splitlines()


def test_an_engines_own_words_come_with_the_first_line_that_says_wait(
    capfd: pytest.CaptureFixture[str],
) -> None:
    job = Waiting(capfd)
    job.startup.show("mpiexec: no such file: ssh")
    job.go(LOG_AFTER + 1)
    job.startup.show("mpiexec: again")
    assert job.said() == [
        "dsrun: 0/1 hosts, waiting for n1",
        "dsrun: mpiexec: no such file: ssh",
        "dsrun: mpiexec: again",
    ]


def test_of_a_start_without_a_wait_nothing_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    job = Waiting(capfd)
    job.startup.show("mpiexec: a warning")
    job.go(LOG_AFTER - 1)
    job.startup.close()
    job.startup.show("mpiexec: another")
    job.go(LOG_AFTER)
    assert job.said() == []


def test_with_debug_they_come_at_once_and_once(capfd: pytest.CaptureFixture[str]) -> None:
    job = Waiting(capfd, "debug")
    job.startup.show("mpiexec: a warning")
    job.go(LOG_AFTER + 1)
    job.startup.close()
    job.startup.show("mpiexec: another")
    assert job.said() == [
        "dsrun: mpiexec: a warning",
        "dsrun: 0/1 hosts, waiting for n1",
        "dsrun: mpiexec: another",
    ]


# -- who is waited for ----------------------------------------------------------------------------


def test_the_line_that_replaces_itself_shows_who_is_waited_for(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.clock.go(SHOW_AFTER - 0.01)
    assert job.console.state == ""
    job.clock.go(0.01)
    assert job.console.state == "dsrun: 0/2 hosts, waiting for n0, n1"
    job.node("n1").hello()
    job.go(SHOW_AFTER)
    assert job.console.state == "dsrun: 1/2 hosts, waiting for n0"
    run.handle(run_start.call_off, "no")
    assert job.console.state == ""
    job.go(5)
    assert (job.console.state, job.said()) == ("", [])


def test_a_line_says_so_now_and_then(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.run()
    at: list[float] = []
    for tick in range(1, 100):
        job.clock.go(SHOW_AFTER)
        at += [tick * SHOW_AFTER for _ in job.said()]
    assert at == [LOG_AFTER, 15.0, 30.0, 45.0]


def test_where_all_are_there_nobody_is_waited_for(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    job.run()
    for node in job.nodes():
        node.hello()
    job.go(LOG_AFTER + 1, silent=["n0", "n1"])
    assert (job.console.state, job.said()) == ("", []), "n1 looks for the master"


def test_of_an_engines_words_the_last_are_kept(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.run()
    for number in range(HELD + 1):
        run.state.startup.show(f"line {number}")
    for _ in range(6):
        job.clock.go(SHOW_AFTER)
    (said,) = job.said()
    assert said.split("\n")[1:] == [f"line {number}" for number in range(1, HELD + 1)]


def test_after_the_start_nobody_fails_any_more(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    run.state.startup.fail(run.state.nodes[1], "late")
    assert run.state.nodes[1].reason == ""
    run.state.startup.cancel_if_unfit()
    job.go(400)
    assert run.state.error is None


def test_to_abandon_a_start_needs_a_host_that_failed(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    assert not run.state.startup.cancel_if_unfit()
    run.handle(run_start.fail_start, run.state.nodes[1], "no route")
    assert not run.state.ending
    assert run.state.startup.cancel_if_unfit()
    run.handle(fleet_events.time_passed)
    assert refusal(run) == ["n1: no route"]


def test_once_one_has_failed_the_others_have_as_long_as_a_connection_takes(
    fleet_of: FleetOf,
) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.clock.go(20)
    run.state.startup.fail(run.state.nodes[1], "no route")
    job.clock.go(9)
    assert not run.state.ending
    job.clock.go(1)
    late = "no answer in time (--connect_timeout, --start_timeout)"
    assert refusal(run, NOT_STARTED) == [f"n0: {late}", "n1: no route"]


def test_a_gate_before_job_that_never_opens_is_named(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    gate = FakeGate()
    run = job.prepare(gates=lambda _run: Gates([(GateStage.JOB, lambda: gate)]))
    run.start()
    job.go(run.spec.supervision.start_timeout + 1.0)
    assert refusal(run) == [f"n0, n1: {startup.UNPREPARED}"]


def test_a_start_is_given_up_once() -> None:
    clock = Clock()
    told: Any = Recorder()
    (node,) = lay_out([Host("n1", (0,))])
    waited = RunNode(NodeConnection(node), node, 0)
    plan = Plan((node,), Program("x.py"), "mpich", None, None)
    timers: Any = clock.loop
    startup = Startup(plan, [waited], timers, told, StartLimits(10.0, 300.0))
    startup.start()
    startup.cancel(["no"])
    startup.fail(waited, "no route")
    clock.go(400)
    assert [name for name, *_ in told.calls] == ["status", "fail"]
    assert waited.reason == ""


def test_all_that_is_wrong_is_told_at_once(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.run()
    job.node("n0").hello(problems=("no python",))
    job.node("n1").hello(problems=("no folder", "no script"))
    job.node("n2").hello(machine="machine-0")
    job.step()
    assert refusal(run) == [
        "n0: no python",
        "n1: no folder",
        "n1: no script",
        "n2: the same machine as n0; list it once, with all its slots",
    ]


LACKING = [
    (said,)
    for said in (
        folder_problem(b"/no/such"),
        folder_problem(os.fsencode(sys.executable)),
        *(
            program_problem(program, python, program.script.encode(), b"/", b"/bin")
            for program, python in (
                (Program("gone.py"), os.fsencode(sys.executable)),
                (Program("gone.py", python="/no/python"), b"/no/python"),
                (Program("./gone", no_python=True), b""),
                (Program("/etc/hosts", no_python=True), b""),
            )
        ),
        "folder /root: user 1000 may not enter /root: no x permission (drwx------, owned by root)",
        "script /root/x.py: user 1000 may not read /root/x.py:"
        " no r permission (-rw-------, owned by root)",
    )
]
"""As nodes say it of what a user has named."""

LOGS, CPUS = "--log_dir /x: no such file or directory", "--bind_core_list: no cpu 9"


@pytest.mark.parametrize(
    ("problems", "wrong"),
    [
        ({"n0": (LOGS, CPUS), "n1": (LOGS,)}, True),
        ({"n0": (LOGS,), "n1": ()}, True),
        ({"n0": (LOGS,), "n1": (LOGS, "no folder")}, False),
        ({"n0": ("--sync: no space left",), "n1": ("--sync: no space left",)}, False),
        *(({"n0": named, "n1": ()}, True) for named in LACKING),
        *(({"n0": named, "n1": named}, True) for named in LACKING),
        *(({"n0": named, "n1": ("port 1 is taken",)}, False) for named in LACKING),
    ],
)
def test_what_a_node_lacks_that_the_command_line_names_is_bad_input_on_one_and_on_all(
    problems: dict[str, tuple[str, ...]], wrong: bool, fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1")
    run = job.run(plan={"program": Program("x.py", python="/no/python")})
    for name, theirs in problems.items():
        job.node(name).hello(problems=theirs)
    job.step()
    assert type(run.state.error) is (UsageError if wrong else NodeError)


# -- without some ---------------------------------------------------------------------------------


def enough(nodes: int) -> type[NoRestarts]:
    """A policy for which so many nodes are enough."""

    class Enough(NoRestarts):
        least = nodes

    return Enough


@pytest.mark.parametrize(("least", "starts"), [(1, True), (2, True), (3, False)])
def test_a_start_goes_on_without_some_if_the_others_are_enough(
    least: int, starts: bool, fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.run(restarts=enough(least))
    job.node("n0").hello(problems=("no folder", "no script"))
    job.node("n1").hello(port=29501)
    job.node("n2").hello()
    job.step()
    assert run.state.ending is not starts
    if starts:
        assert job.said() == ["n0: no folder; no script; starting without it"]
        assert run.state.nodes[0].lost == "no folder; no script"
        job.node("n2").reaches()
        ((_, _), (kind, start)) = job.news("n1")
        assert (kind, start["master_addr"], start["nodes"]) == ("START", "n1", 2)
        assert (start["master_port"], start["first_rank"], start["world_size"]) == (29501, 0, 4)
        assert job.kinds("n0") == ["JOB", "STOP"], "it releases what it has reserved"


def test_a_node_that_is_asked_again_is_not_waited_for_without_end(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.run(checks=CheckPolicy(least=1))
    for name in ("n1", "n2"):
        job.node(name).hello()
    limit = run.spec.supervision.start_timeout + 1.0
    job.go(limit)
    assert job.kinds("n1") == ["JOB", "JOB"], "it is to hold the master port"
    job.go(limit)
    assert job.kinds("n2") == ["JOB", "JOB"], "the former did not answer"
    job.node("n2").hello(port=29501)
    job.step()
    assert (run.state.started, run.state.plan.world_size) == (True, 2)


def test_several_that_are_left_out_share_a_line(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.run(restarts=enough(1))
    job.node("n0").hello()
    for node in run.state.nodes[1:]:
        run.state.startup.fail(node, "no route")
    job.step()
    assert job.said() == ["n1, n2: no route; starting without them"]
    assert run.state.started


def test_where_nobody_is_unfit_nobody_is_left_out(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run(restarts=enough(1))
    job.ready(run)
    assert (run.state.started, job.said(), run.state.plan.world_size) == (True, [], 4)


# -- the master -----------------------------------------------------------------------------------


def reach(job: FakeFleet, name: str, *verdicts: str) -> None:
    """Have a node say how it reaches the addresses of the master."""
    job.node(name).says(frames.pack_json(frames.PROBED, {"verdicts": verdicts}))
    job.step()


def test_the_master_is_where_all_reach_it(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.run()
    for node in job.nodes():
        node.hello()
    job.step()
    reach(job, "n1", "x", "")
    assert not run.state.started, "one has not answered"
    reach(job, "n2", "", "")
    assert (run.state.started, run.state.master) == (True, "10.0.0.1")


@pytest.mark.parametrize(
    ("given", "more"),
    [(None, []), ("a", ["check that --master_addr a is an address of node 0 (n0)"])],
)
def test_where_nobody_reaches_the_master_there_is_no_start(
    given: str | None, more: list[str], fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1")
    run = job.run(plan={"master_addr": given})
    for node in job.nodes():
        node.hello(addresses=())
    job.step()
    reach(job, "n1", "timed out")
    where = given or "n0"
    assert refusal(run) == [f"n1: cannot reach the master at {where}:29500 (timed out)", *more]


@pytest.mark.parametrize(("least", "starts"), [(1, True), (3, False)])
def test_a_node_that_is_silent_once_it_was_ready_is_not_waited_for(
    least: int, starts: bool, fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.run(restarts=enough(least))
    for node in job.nodes():
        node.hello()
    job.step()
    reach(job, "n1", "", "")
    job.go(19.0)
    assert (run.state.ending, run.state.started) == (False, False)
    job.go(2.0)
    assert (run.state.ending, run.state.started) == (not starts, False)
    if starts:
        assert job.said()[-1] == f"n2: {startup.SILENT}; starting without it"
        reach(job, "n1", "", "")
        assert (run.state.started, run.state.plan.world_size) == (True, 4)
    else:
        assert refusal(run, NOT_STARTED) == [f"n2: {startup.SILENT}"]


@pytest.mark.parametrize("answers", [(), ("", "", "")])
def test_an_answer_has_a_word_for_each_address(answers: tuple[str, ...], fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    for node in job.nodes():
        node.hello()
    job.step()
    reach(job, "n1", *answers)
    (why,) = refusal(run)
    assert why.endswith(f"of kind 34: {len(answers)} verdicts on 2 addresses")


def test_an_answer_to_no_question(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.node("n0").hello()
    job.step()
    reach(job, "n1", "")
    (why,) = refusal(run)
    assert why.endswith("of kind 34: PROBED without a PROBE")


def test_who_is_alone_meets_here(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.run()
    job.node("n0").hello(port=29501)
    job.step()
    assert (run.state.started, run.state.master) == (True, "127.0.0.1")
    assert job.news("n0")[-1][1]["master_port"] == 29501


def test_the_only_node_here_of_several_is_met_by_its_name(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.hosts["n1"] = Host("n1", (0, 1))
    run = job.run()
    job.node("n0").hello()
    job.step()
    assert (run.state.started, run.state.master) == (True, "n0")


@pytest.mark.parametrize(("given", "port"), [(4000, 4000), (None, 0)])
def test_where_no_port_is_kept_nobody_looks_for_the_master(
    given: int | None, port: int, fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1")
    run = job.run(plan={"master_port": given})
    for node in job.nodes():
        node.hello(port=None)
    job.step()
    assert (run.state.started, run.state.master) == (True, "n0")
    assert job.news("n0")[-1][1]["master_port"] == port


def test_questions_to_nodes_that_have_changed_since_are_asked_again(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.run(restarts=enough(2))
    for node in job.nodes():
        node.hello()
    job.step()
    job.node("n2").leaves()
    job.step()
    assert job.kinds("n1") == ["JOB", "PROBE", "PROBE"]
    reach(job, "n1", "x", "x")
    assert not run.state.started, "that was to the first question"
    reach(job, "n1", "", "")
    assert (run.state.started, run.state.plan.world_size) == (True, 4)


def test_answers_about_a_first_node_that_is_lost_start_nothing(fleet_of: FleetOf) -> None:
    """They may come while the next one is asked for a port."""
    job = fleet_of("n0", "n1", "n2")
    run = job.run(checks=CheckPolicy(quick=False, least=2))
    for node in job.nodes():
        node.hello()
    job.step()
    job.node("n0").leaves()
    job.step()
    reach(job, "n1", "", "")
    reach(job, "n2", "", "")
    assert not run.state.started
    job.node("n1").hello(port=29501)
    job.step()
    assert job.kinds("n2") == ["JOB", "PROBE", "PROBE"]
    reach(job, "n2", "", "")
    assert (run.state.started, run.state.master) == (True, "n1")
    assert job.news("n1")[-1][1]["master_port"] == 29501


def test_who_was_sent_its_job_again_owes_no_answer_to_a_question_before(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2", "n3")
    run = job.run(checks=CheckPolicy(quick=False, least=2))
    for node in job.nodes():
        node.hello()
    job.step()
    job.node("n0").leaves()
    job.step()
    job.node("n1").hello(port=29501)
    job.step()
    job.go(11.0)
    for _ in range(job.kinds("n2").count("PROBE")):
        reach(job, "n2", "", "")
    job.go(21.0)
    assert job.said()[-1] == f"n3: {startup.SILENT}; starting without it"
    reach(job, "n2", "", "")
    assert (run.state.started, run.state.plan.world_size) == (True, 4)


def test_workers_that_no_batch_can_be_cut_for(fleet_of: FleetOf) -> None:
    settings = BatchSettings("0.1", 9, (1,), 1, 9, 1, 1, prefer_larger=True)
    job = fleet_of("n0", "n1")
    run = job.run(batches=BatchPlan(settings, 9, (3, 9)))
    for node in job.nodes():
        node.hello()
    job.step()
    assert refusal(run) == [
        "--elastic_config: world size 4 is not in the elastic plan: "
        "4 ranks cannot divide a batch of 9; nearest valid: 3 and 9"
    ]


# -- what thousands of hosts cost ------------------------------------------------------------------


def start_of(size: int, done: Any) -> tuple[Startup, list[RunNode]]:
    """The start of so many nodes, and these."""
    nodes = lay_out([Host(f"n{number}", (0,)) for number in range(size)])
    members = [RunNode(NodeConnection(node), node, node.rank) for node in nodes]
    plan = Plan(nodes, Program("x.py"), "ssh", None, None)
    limits = StartLimits(connect=10.0, start=300.0)
    return Startup(plan, members, Clock().timers, done, limits), members


@pytest.mark.parametrize("order", [1, -1])
def test_hosts_that_fail_one_by_one_cost_as_much_as_they_are(order: int) -> None:
    def work(size: int) -> None:
        done: Any = Recorder()
        startup, nodes = start_of(size, done)
        for node in nodes[::order]:
            assert done.calls == []
            startup.fail(node, "its name does not resolve")
        assert done.calls[-1][0] == "fail"

    assert growth(work, 50) < LINEAR


def test_nodes_that_answer_one_by_one_cost_as_much_as_they_are() -> None:
    """Of the addresses of the master, too."""

    def work(size: int) -> None:
        done: Any = Recorder()
        startup, nodes = start_of(size, done)
        for node in nodes:
            port = 29500 if node is nodes[0] else None
            facts = ("0.1.0", node.name, node.name, "3.11.7", "cpu", (), 1, port, ("10.0.0.1",), ())
            startup.on_hello(node, messages.Hello(*facts, 0.0))
        for stage in (GateStage.START, GateStage.MASTER):
            ((_, then),) = [one[-2:] for one in done.calls if one[:2] == ("check", (stage,))]
            then({}, ())
        ((_, body),) = frames.Decoder().feed(done.calls[-1][2])
        verdicts = ("",) * len(messages.unpack(messages.Probe, body).candidates)
        ((_, answer),) = frames.Decoder().feed(
            messages.pack(frames.PROBED, messages.Probed(verdicts))
        )
        for node in nodes[1:]:
            startup.on_probed(node, answer)
        assert done.calls[-1][0] == "ready"

    assert growth(work, 50) < LINEAR
