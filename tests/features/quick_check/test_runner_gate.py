"""The quick check of a run: warnings, a refused start, and nodes that are left out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from dsrun.launcher.control import frames, messages
from dsrun.launcher.features.elastic.runner_policy import RunnerRounds
from dsrun.launcher.features.quick_check.runner_file_lists import PATIENCE
from dsrun.launcher.features.quick_check.runner_findings import TABLE
from dsrun.launcher.features.quick_check.runner_gate import QuickCheck
from dsrun.launcher.head.run import run_start
from dsrun.launcher.head.run.gate import Gates, GateStage
from dsrun.launcher.specs.policies import CheckPolicy, ElasticPolicy
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.sync import SyncSpec

from ...support import exec_nodes
from ...support.fake_fleet import refusal
from ...support.node_facts import facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.run.run import Run
    from dsrun.launcher.head.run.run_node import RunNode

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

TORCH = f"check: n2: torch 2.3, but 2.4 on n0, n1; {TABLE['torch'].advice}"
OLDER = {"torch": "2.3.0", "numpy": "1.26.4"}
LOW = {"limits": {"nofile": 256}}
NOFILE = (
    f"check: n2: the limit of open files is 256, but 1,024 on most nodes; {TABLE['nofile'].advice}"
)


def hello(job: FakeFleet, name: str, **changes: Any) -> None:
    job.node(name).hello(facts=facts(wall=time.time(), **changes))
    job.step()


def begin(fleet_of: FleetOf, changes: dict[str, Any], **spec: Any) -> tuple[FakeFleet, Run]:
    """Begin a run on three nodes, of which the last one has other facts."""
    job = fleet_of("n0", "n1", "n2")
    run = job.run(**spec)
    hello(job, "n0")
    hello(job, "n1")
    hello(job, "n2", **changes)
    return job, run


def elastic(least: int) -> dict[str, Any]:
    limits = ElasticPolicy(least, 3, 0)
    return {"elastic": limits, "restarts": lambda run: RunnerRounds(run, limits)}


def test_nodes_that_agree_start_without_a_word(fleet_of: FleetOf) -> None:
    job, run = begin(fleet_of, {})
    assert job.node("n1").got(frames.PROBE)()
    assert (job.said(), run.state.error) == ([], None)


def test_a_warning_is_printed_and_the_start_goes_on(fleet_of: FleetOf) -> None:
    job, run = begin(fleet_of, LOW)
    assert job.said("warning") == [NOFILE]
    assert job.node("n1").got(frames.PROBE)()
    assert run.state.error is None


def test_strict_makes_it_an_error(fleet_of: FleetOf) -> None:
    job, run = begin(fleet_of, LOW, checks=CheckPolicy(strict=True))
    assert refusal(run) == [NOFILE]
    assert not job.node("n1").got(frames.PROBE)()


def test_an_error_ends_the_start_after_the_warnings(fleet_of: FleetOf) -> None:
    job, run = begin(fleet_of, {"versions": OLDER, **LOW})
    assert refusal(run) == [TORCH]
    assert job.said("warning") == [NOFILE]


def test_nobody_knows_the_python_of_a_program(fleet_of: FleetOf) -> None:
    program = {"program": Program("x", no_python=True)}
    job, run = begin(fleet_of, {"versions": OLDER}, plan=program)
    assert (job.said("warning"), run.state.error) == ([TORCH], None)
    _, run = begin(fleet_of, {"script": "x"}, plan=program)
    assert run.state.error is not None


def test_without_it_nobody_is_asked_for_facts(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.run(checks=CheckPolicy(quick=False))
    ((_, task),) = [one for one in job.news("n0") if one[0] == "JOB"]
    assert "facts" not in task
    job = fleet_of("n0")
    job.run()
    ((_, task),) = [one for one in job.news("n0") if one[0] == "JOB"]
    assert task["facts"]


def test_an_elastic_job_starts_without_the_node_that_differs(fleet_of: FleetOf) -> None:
    job, run = begin(fleet_of, {"versions": OLDER, **LOW}, **elastic(2))
    torch = "n2: torch 2.3, but 2.4 on n0, n1; starting without it"
    assert job.said("warning") == [NOFILE, torch]
    assert job.node("n1").got(frames.PROBE)()
    assert run.state.error is None


def test_an_elastic_job_that_needs_all_nodes_does_not_start(fleet_of: FleetOf) -> None:
    _, run = begin(fleet_of, {"versions": OLDER}, **elastic(3))
    assert refusal(run) == [TORCH]


def test_files_beside_those_that_were_copied_do_not_matter(fleet_of: FleetOf) -> None:
    env = {**facts().env, "PYTHONPATH": "/copy/src"}
    odd = {"files": "1" * 64, "env": env}
    gates = {"gates": lambda run: Gates([(GateStage.START, lambda: QuickCheck(run))])}
    job, _ = begin(fleet_of, odd, sync=SyncSpec("/proj", 1, {}), **gates)
    assert job.node("n1").got(frames.PROBE)()
    assert job.said() == []


def test_a_newcomer_is_compared_with_the_others(fleet_of: FleetOf) -> None:
    job, run = begin(fleet_of, {"versions": OLDER, **LOW}, gates=lambda _run: Gates())
    found: list[dict[RunNode, str]] = []
    first, second, third = run.state.nodes
    run.state.started = True
    for late in (second, third):
        late.lose("gone")

    def refused(node: RunNode) -> dict[RunNode, str]:
        nodes = (node,)
        run.handle(lambda _run: check.check(nodes, lambda causes, _lines: found.append({**causes})))
        return found.pop()

    check = QuickCheck(run)
    assert refused(second) == {}
    assert refused(third) == {third: "torch 2.3, but 2.4 on n0"}
    assert job.said() == [NOFILE]
    assert refused(third) != {}
    assert job.said() == [], "each warning once"
    first.latest = None
    assert refused(third) == {}, "nobody is there to compare it with"


# -- files that differ ----------------------------------------------------------------------------


def asked_for_files(job: FakeFleet) -> dict[str, str]:
    """Return which nodes were asked for the names of their files, and in which folder."""
    asked = {name: exec_nodes.asked(job.node(name)) for name in job.hosts}
    folders = {}
    for name, (command,) in ((name, one) for name, one in asked.items() if one):
        assert (command["program"], command["argv"]) == ("facts", ["--files"])
        (task,) = exec_nodes.fed(job.node(name))
        folders[name] = messages.unpack(messages.NodeJob, task).workdir
    return folders


def answer(job: FakeFleet, name: str, text: str) -> None:
    exec_nodes.prints(job.node(name), text.encode())
    job.step()
    exec_nodes.exits(job.node(name), 0)
    job.step()


def test_files_that_differ_are_named_by_one_node_of_each_side(fleet_of: FleetOf) -> None:
    job, run = begin(fleet_of, {"files": "f2"})
    assert asked_for_files(job) == {"n0": "/work", "n2": "/work"}
    assert job.said() == []
    answer(job, "n0", '{"files": {"a.py": 1, "b.py": 2}}\n')
    answer(job, "n2", '{"files": {"a.py": 1, "c.py": 2}}\n')
    advice = TABLE["files"].advice
    assert job.said("warning") == [
        f"check: n2: *.py files (b.py, c.py) are not the same as on n0, n1; {advice}"
    ]
    assert job.node("n1").got(frames.PROBE)()
    assert run.state.error is None


def test_without_an_answer_the_start_goes_on_without_names(fleet_of: FleetOf) -> None:
    job, _ = begin(fleet_of, {"files": "f2"})
    answer(job, "n2", "[" * 100_000 + "\n")
    job.go(PATIENCE + 1)
    advice = TABLE["files"].advice
    assert job.said("warning") == [f"check: n2: *.py files are not the same as on n0, n1; {advice}"]
    assert job.node("n1").got(frames.PROBE)()


def test_a_node_that_is_lost_while_it_is_asked_does_not_end_the_next_question(
    fleet_of: FleetOf,
) -> None:
    job, run = begin(fleet_of, {"files": "f2"}, **elastic(2))
    answer(job, "n2", '{"files": {"a.py": 1}}\n')
    job.node("n0").leaves()
    job.step()
    asked = exec_nodes.asked(job.node("n1"))
    assert [one["argv"] for one in asked] == [["--files"]]
    answer(job, "n2", '{"files": {"a.py": 1}}\n')
    answer(job, "n1", '{"files": {"b.py": 1}}\n')
    assert any("(a.py, b.py) are not the same as on n1" in line for line in job.said("warning"))
    assert run.state.started


def test_a_start_that_is_given_up_meanwhile_stays_given_up(fleet_of: FleetOf) -> None:
    job, run = begin(fleet_of, {"files": "f2"})
    run.handle(run_start.call_off, "no")
    job.go(PATIENCE + 1)
    assert refusal(run) == ["no"]
    assert job.said() == []
