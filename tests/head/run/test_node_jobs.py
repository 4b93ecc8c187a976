"""What each node is sent first, from the job's spec."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.head.run.node_jobs import tasks
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.environment import ForwardedEnv
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.policies import (
    BindingPolicy,
    CheckPolicy,
    DebugPolicy,
    ElasticPolicy,
    HookPolicy,
    OutputPolicy,
    SupervisionPolicy,
    WatchPolicy,
    WorkerPolicy,
)
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.rendezvous import Rendezvous

PLAN = Plan(lay_out([Host("w0", (0, 1)), Host("w1", (3,))]), Program("x.py"), "ssh", None, 4000)
SPEC = JobSpec("j", PLAN, "/work", supervision=SupervisionPolicy(heartbeat_timeout=16.0))
TORCH = Rendezvous("c10d", "w0:1", "none", 1, 2, {}, "", 3, 0.1)


def test_the_first_node_alone_keeps_the_masters_port() -> None:
    task = tasks(SPEC)
    first, second = (task(node) for node in PLAN.nodes)
    assert [(one.host, one.slots, one.port) for one in (first, second)] == [
        ("w0", (0, 1), 4000),
        ("w1", (3,), None),
    ]
    assert first._replace(host="", slots=None, port=None) == second._replace(
        host="", slots=None, port=None
    )
    any_port = tasks(SPEC._replace(plan=PLAN._replace(master_port=None)))
    assert any_port(PLAN.nodes[0]).port == 0
    torchs = tasks(SPEC._replace(plan=PLAN._replace(rendezvous=TORCH)))
    assert torchs(PLAN.nodes[0]).port is None


def test_core_lists_are_a_hosts_own_or_everybodys() -> None:
    everybodys = tasks(SPEC._replace(binding=BindingPolicy("core", "0-3")))
    assert [everybodys(node).binding.core_list for node in PLAN.nodes] == ["0-3", "0-3"]
    own = tasks(SPEC._replace(binding=BindingPolicy("core"), core_lists=(("w1", "4-7"),)))
    assert [own(node).binding.core_list for node in PLAN.nodes] == ["", "4-7"]


def test_nodes_of_an_elastic_job_end_before_others_have_their_ranks() -> None:
    static = tasks(SPEC)(PLAN.nodes[0])
    assert (static.lease, static.last_grace, static.has_rounds) == (16.0, 30.0, False)
    policy = ElasticPolicy(1, 2, 3, notice_by="SIGUSR1")
    elastic = tasks(SPEC._replace(elastic=policy))(PLAN.nodes[0])
    assert (elastic.lease, elastic.last_grace, elastic.has_rounds) == (15.0, 1.0, True)
    assert (elastic.elastic, static.elastic) == (policy, None)
    torchs = tasks(SPEC._replace(plan=PLAN._replace(rendezvous=TORCH)))(PLAN.nodes[0])
    assert (torchs.lease, torchs.last_grace, torchs.has_rounds) == (16.0, 30.0, True)


@pytest.mark.parametrize(("timeout", "sample"), [(0.0, 0.0), (0.5, 0.2), (20.0, 2.0), (300.0, 2.0)])
def test_nodes_report_what_workers_do_if_that_is_watched(timeout: float, sample: float) -> None:
    spec = SPEC._replace(watch=WatchPolicy(hang_timeout=timeout))
    assert tasks(spec)(PLAN.nodes[0]).sample == sample
    slow = tasks(SPEC._replace(watch=WatchPolicy(timeout, slow=True)))(PLAN.nodes[0])
    assert (slow.sample, slow.watch.slow) == (min(sample or 1.0, 1.0), True)
    metrics = spec._replace(hooks=HookPolicy(metrics_file="m.prom"))
    assert tasks(metrics)(PLAN.nodes[0]).sample == (sample or 2.0)


@pytest.mark.parametrize(
    ("ranks", "changes", "nodes"),
    [
        (frozenset({0}), {}, [True, False]),
        (frozenset({0}), {"elastic": ElasticPolicy(1, 2, 0)}, [True, True]),
        (frozenset({0}), {"plan": PLAN._replace(rendezvous=TORCH)}, [True, True]),
        (frozenset(), {}, [True, True]),
    ],
)
def test_only_nodes_that_may_have_debugged_ranks_need_a_debugger(
    ranks: frozenset[int], changes: dict[str, Any], nodes: list[bool]
) -> None:
    task = tasks(SPEC._replace(debug=DebugPolicy(ranks), **changes))
    made = [task(node) for node in PLAN.nodes]
    assert [bool(one.debug_secret) for one in made] == nodes
    assert {one.debug for one in made} == {DebugPolicy(ranks)}
    assert tasks(SPEC)(PLAN.nodes[0]).debug_secret == ""


def test_torchs_agent_is_for_torchs_rounds_and_where_it_is_asked_for() -> None:
    def of_torch(**fields: Any) -> bool:
        return tasks(SPEC._replace(**fields))(PLAN.nodes[0]).torch_agent

    assert not of_torch()
    assert not of_torch(elastic=ElasticPolicy(1, 2, 3))
    assert of_torch(elastic=ElasticPolicy(1, 2, 3, agent="torch"))
    assert of_torch(plan=PLAN._replace(rendezvous=TORCH))


def test_texts_travel_by_their_bytes() -> None:
    odd = "\udcff"
    spec = SPEC._replace(
        plan=PLAN._replace(program=Program(odd, (odd,), python=f"/{odd}")),
        workdir=f"/{odd}",
        travel=ForwardedEnv({"A": odd}),
        workers=WorkerPolicy(venv_script=f"/{odd}", run_id=odd),
        output=OutputPolicy(log_dir=odd),
    )
    sent = tasks(spec)(PLAN.nodes[0])
    texts = (sent.program.script, *sent.program.args, sent.workers.run_id, sent.env["A"])
    texts += (sent.output.log_dir,)
    assert set(texts) == {odd}
    assert (sent.workdir, sent.workers.venv_script, sent.program.python) == (f"/{odd}",) * 3


def test_the_users_own_variable_wins_over_the_signals_that_end_the_job() -> None:
    name = "TORCHELASTIC_SIGNALS_TO_HANDLE"
    watched = SupervisionPolicy(end_signals=("SIGTERM", "SIGUSR2"))
    spec = SPEC._replace(supervision=watched)
    assert tasks(spec)(PLAN.nodes[0]).env[name] == "SIGTERM,SIGUSR2"
    own = spec._replace(travel=ForwardedEnv({name: "SIGINT"}))
    assert tasks(own)(PLAN.nodes[0]).env[name] == "SIGINT"


@pytest.mark.parametrize(("job", "settle"), [({}, 0.0), ({"SLURM_JOB_ID": "7"}, 0.15)])
def test_in_a_slurm_job_signals_take_a_moment(
    job: dict[str, str], settle: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    for name, value in job.items():
        monkeypatch.setenv(name, value)
    assert tasks(SPEC)(PLAN.nodes[0]).settle == settle


def test_workers_on_this_machine_begin_with_the_environment_of_the_command() -> None:
    nodes = lay_out([Host("localhost", (0,)), Host("w1", (0,)), Host("localhost", (0,), port=22)])
    environ = {"A": "\udcff", "CUDA_VISIBLE_DEVICES": "3"}
    spec = SPEC._replace(plan=PLAN._replace(nodes=nodes), environ=environ)
    assert [tasks(spec)(node).base for node in nodes] == [environ, None, None]
    assert tasks(spec._replace(environ=None))(nodes[0]).base is None
    reached = spec._replace(backend=BackendSettings(force_multi=True))
    assert tasks(reached)(nodes[0]).base is None
    by_engine = spec._replace(plan=spec.plan._replace(launcher="slurm"))
    assert tasks(by_engine)(nodes[0]).base is None


def test_nodes_try_each_other_only_if_there_are_others() -> None:
    def tried(**changes: Any) -> bool:
        return tasks(SPEC._replace(**changes))(PLAN.nodes[0]).reach

    alone = PLAN._replace(nodes=PLAN.nodes[:1])
    twice = PLAN._replace(nodes=lay_out([Host("w0", (0,)), Host("w0", (1,))]))
    assert tried()
    assert [tried(plan=alone), tried(plan=twice)] == [False, False]
    assert tried(plan=alone, elastic=ElasticPolicy(1, 4, 3))
    assert not tried(plan=alone, elastic=ElasticPolicy(1, 1, 3))
    assert not tried(checks=CheckPolicy(quick=False))
    assert not tried(only=1)
    assert not tried(plan=PLAN._replace(rendezvous=TORCH))
