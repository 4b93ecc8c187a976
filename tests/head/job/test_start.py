"""Which backend starts which node, what is made before a job runs, and what follows its end."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from dsrun.launcher import backends
from dsrun.launcher.backends.base import StartCommand
from dsrun.launcher.backends.spec import BackendSpec, TaskIdentity
from dsrun.launcher.common.errors import LostError, UsageError
from dsrun.launcher.features.schedulers import runner_requeue as requeue
from dsrun.launcher.head.job import launch, start
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.policies import SupervisionPolicy
from dsrun.launcher.specs.program import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.backends.base import Part
    from dsrun.launcher.specs.plan import Node

SETTINGS = BackendSettings()


class Over:
    """A backend that starts nothing, and remembers what it was asked to prepare."""

    def __init__(self, settings: BackendSettings) -> None:
        self.settings = settings
        self.prepared: list[str] = []

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return what is wrong with a host of this name."""
        return "no way to bad" if "bad" in names(nodes) else ""

    def commands(self, nodes: Sequence[Node], _dial: object) -> list[StartCommand]:
        """Return one command a host, the last one first."""
        return [StartCommand([type(self).__name__], [name]) for name in reversed(names(nodes))]

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Remember these."""
        self.prepared += names(nodes)


class Here(Over):
    """The same in place of this machine's own."""


def names(nodes: Sequence[Node]) -> list[str]:
    """Return the names of hosts."""
    return [node.host.name for node in nodes]


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of backends of which none starts anything."""
    module = f"{backends.__name__}.made_up"
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(Over=Over, Here=Here))
    made: dict[str, dict[str, Any]] = {
        "over": {},
        "engine": {"engine": TaskIdentity(("N",))},
        "joined": {"joins": True},
    }
    for name, facts in made.items():
        monkeypatch.setitem(backends.BACKENDS, name, BackendSpec(".made_up:Over", **facts))
    own = BackendSpec(".made_up:Here", this_machine=True)
    monkeypatch.setitem(backends.BACKENDS, "local", own)


def plan(*hosts: str, launcher: str = "over") -> Plan:
    """Return a plan of hosts with two slots each."""
    nodes = lay_out([Host(name, (0, 1)) for name in hosts])
    return Plan(nodes, Program("x.py"), launcher, None, None)


def split(found: Sequence[Part]) -> list[tuple[str, list[str]]]:
    """Return each part in words."""
    return [(type(part.backend).__name__, names(part.nodes)) for part in found]


@pytest.mark.parametrize(
    ("launcher", "parts"),
    [
        ("over", [("Here", ["localhost"]), ("Over", ["far", "near"])]),
        ("engine", [("Over", ["far", "localhost", "near"])]),
        ("joined", [("Here", ["far"]), ("Over", ["localhost", "near"])]),
        ("local", [("Here", ["far", "localhost", "near"])]),
    ],
)
def test_which_backend_starts_which_node(launcher: str, parts: list[tuple[str, list[str]]]) -> None:
    assert (
        split(start.parts(plan("far", "localhost", "near", launcher=launcher), SETTINGS)) == parts
    )


def test_without_other_hosts_there_is_no_other_backend() -> None:
    assert split(start.parts(plan("localhost"), SETTINGS)) == [("Here", ["localhost"])]
    assert split(start.parts(plan("far"), SETTINGS)) == [("Over", ["far"])]


def test_this_machine_may_be_reached_like_any_other() -> None:
    settings = SETTINGS._replace(force_multi=True)
    assert split(start.parts(plan("far", "localhost"), settings)) == [
        ("Over", ["far", "localhost"])
    ]


def test_one_node_alone_is_this_machine() -> None:
    assert split(start.parts(plan("a", "b", "c"), SETTINGS, 1)) == [("Here", ["b"])]
    assert split(start.parts(plan("a", "b", "c"), SETTINGS, 0)) == [("Here", ["a"])]


def test_a_backend_that_cannot_is_the_users_fault() -> None:
    with pytest.raises(UsageError, match=r"^no way to bad$"):
        start.parts(plan("far", "bad"), SETTINGS)


def spec(of: Plan, **more: Any) -> JobSpec:
    """Return a job."""
    return JobSpec("job", of, "/", **more)


def test_commands_stand_in_the_order_of_ranks() -> None:
    job = spec(plan("far", "localhost", "near"))
    assert start.commands(job) == [
        StartCommand(["Over"], ["far"]),
        StartCommand(["Here"], ["localhost"]),
        StartCommand(["Over"], ["near"]),
    ]
    assert start.commands(job._replace(only=2)) == [StartCommand(["Here"], ["near"])]


def test_all_backends_get_ready_with_their_own_nodes() -> None:
    made = start.prepare(plan("far", "localhost"), SETTINGS)
    assert made.plan == plan("far", "localhost")
    prepared: list[Any] = [part.backend for part in made.parts]
    assert [one.prepared for one in prepared] == [["localhost"], ["far"]]
    assert [one.settings for one in prepared] == [SETTINGS, SETTINGS]
    assert split(start.prepare(plan("a", "b"), SETTINGS, 1).parts) == [("Here", ["b"])]


def test_where_ranks_are_started_each_is_a_node() -> None:
    made = start.prepare(plan("far"), SETTINGS._replace(rank_per_task=True))
    assert [(node.rank, node.slots) for node in made.plan.nodes] == [(0, (0,)), (1, (1,))]
    assert split(made.parts) == [("Over", ["far", "far"])]


class Ran(NamedTuple):
    """What a job was run with."""

    spec: JobSpec
    start: start.PreparedStart
    later: Any
    programs: Any


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Ran]:
    """All jobs that were run: each ends with 3, or is lost where its id says so."""
    jobs: list[Ran] = []

    def run(*given: Any) -> int:
        jobs.append(Ran(*given))
        if jobs[-1].spec.job_id == "lost":
            raise LostError("gone")
        return 3

    monkeypatch.setattr(launch, "run", run)
    return jobs


@pytest.fixture
def requeued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The codes with which a job was put into the queue again."""
    codes: list[int] = []

    def again(code: int, environ: object) -> None:
        assert environ is os.environ
        codes.append(code)

    monkeypatch.setattr(requeue, "requeue", again)
    return codes


def again_at(*codes: int) -> SupervisionPolicy:
    """Return the policy that requeues at these exit codes."""
    return SupervisionPolicy(requeue_codes=frozenset(codes))


def test_a_job_is_run_with_the_plan_that_its_backends_see(ran: list[Ran]) -> None:
    settings = SETTINGS._replace(rank_per_task=True)
    assert start.launch(spec(plan("far"), backend=settings)) == 3
    ((job, begun, _, _),) = ran
    assert job.plan == begun.plan
    assert [node.slots for node in job.plan.nodes] == [(0,), (1,)]
    made = start.prepare(plan("localhost"), SETTINGS)
    start.launch(spec(plan("far")), made)
    assert (ran[1].start, ran[1].spec.plan) == (made, made.plan)


@pytest.mark.parametrize(("codes", "again"), [((), []), ((1,), []), ((1, 3), [3])])
@pytest.mark.usefixtures("ran")
def test_a_code_puts_the_job_into_the_queue_again(
    requeued: list[int], codes: tuple[int, ...], again: list[int]
) -> None:
    start.launch(spec(plan("far"), supervision=again_at(*codes)))
    assert requeued == again


@pytest.mark.usefixtures("ran")
def test_so_does_the_code_of_a_job_that_could_not_be_started(requeued: list[int]) -> None:
    job = spec(plan("far"), supervision=again_at(LostError("").exit_code))._replace(job_id="lost")
    with pytest.raises(LostError, match="gone"):
        start.launch(job)
    assert requeued == [LostError("").exit_code]


def test_later_hosts_share_a_backend_of_a_kind(ran: list[Ran]) -> None:
    start.launch(spec(plan("far")))
    later = ran[0].later
    nodes = plan("b", "c", "localhost").nodes
    parts = [later(node) for node in nodes]
    assert split(parts) == [("Over", ["b"]), ("Over", ["c"]), ("Here", ["localhost"])]
    assert parts[0].backend is parts[1].backend
