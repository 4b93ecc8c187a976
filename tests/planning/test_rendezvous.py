"""torchrun's words for who brings the nodes together, and in which words they are refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.parser import Command, parse
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.messages import NodeJob, Start
from dsrun.launcher.control.round_messages import Ranks
from dsrun.launcher.features.elastic import node_agent_environment as agent_environment
from dsrun.launcher.features.elastic.plan import elastic_policy
from dsrun.launcher.head.job.banner import banner
from dsrun.launcher.head.job.start import commands
from dsrun.launcher.planning import dry_run, rendezvous, this_node
from dsrun.launcher.planning.hosts import by_rank
from dsrun.launcher.planning.job import plan_job
from dsrun.launcher.planning.planner import make_plan
from dsrun.launcher.planning.shape import is_elastic
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.rendezvous import Rendezvous

if TYPE_CHECKING:
    from pathlib import Path

C10D = "--rdzv_backend c10d"


def command(words: str) -> Command:
    return rendezvous.apply(parse([*words.split(), "train.py"], {}))


def met(words: str) -> Rendezvous:
    found = command(words).rendezvous
    assert found is not None
    return found


def refused(words: str) -> str:
    with pytest.raises(UsageError) as caught:
        make_plan(command(words))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- torch's backends ---------------------------------------------------------------------------


def test_what_torch_is_given_where_nothing_else_is_said() -> None:
    expected = Rendezvous("c10d", "", "none", 1, 1, {"timeout": "900"}, "", 0, 0.1)
    assert met(C10D) == expected


@pytest.mark.parametrize("backend", ["c10d", "etcd", "etcd-v2"])
def test_the_line_that_opens_such_a_job_is_whole(backend: str) -> None:
    plan, origin, *_ = make_plan(command(f"--rdzv_backend {backend}"))
    line = banner(plan, origin.source, "20261122-044357-a27273")
    told = f"this machine, others: --rdzv_backend {backend}"
    assert line == f"{told}; job 20261122-044357-a27273"


def test_what_torch_is_given() -> None:
    words = "--rdzv-backend=etcd-v2 --rdzv-endpoint h:2379 --rdzv-id x --nnodes=2:4"
    more = "--rdzv-conf timeout=60,join_timeout=5 --local-addr 10.0.0.1 --max-restarts 3"
    given = met(f"{words} {more} --monitor-interval 5")
    conf = {"timeout": "60", "join_timeout": "5"}
    assert given == Rendezvous("etcd-v2", "h:2379", "x", 2, 4, conf, "10.0.0.1", 3, 5.0)
    assert (given.words, given.nodes) == ("--rdzv_backend etcd-v2 at h:2379", "2 to 4 nodes")


@pytest.mark.parametrize(
    "words",
    [
        "--nnodes 2 --node_rank 1 --master_addr h --master_port 5 --rdzv_endpoint h:1",
        "--nnodes 1:4 --rdzv_endpoint h",
    ],
)
def test_it_is_a_job_of_this_machine(words: str) -> None:
    """As with torchrun, which does not read --node_rank and --master_addr then."""
    asked = command(f"{C10D} --nproc_per_node 2 --max_restarts 3 {words}")
    plan = make_plan(asked).plan
    assert [node.host.name for node in plan.nodes] == [os.uname().nodename]
    assert (plan.launcher, plan.world_size, plan.master_addr) == ("local", 2, None)
    assert plan.rendezvous == asked.rendezvous
    assert (by_rank(asked.options), is_elastic(asked.options)) == (False, False)


@pytest.mark.parametrize(
    "scheduler",
    [
        "SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n[1-2] SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n[1-2]"
        " SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=1 SLURM_PROCID=1",
        "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1",
        "PET_NODE_RANK=1 PET_NNODES=2 PET_MASTER_ADDR=h",
    ],
)
def test_it_is_the_same_in_a_schedulers_task(scheduler: str) -> None:
    environ = dict(word.split("=", 1) for word in scheduler.split())
    asked = command(f"{C10D} --nnodes 2 --rdzv_endpoint h")
    assert this_node.apply(asked, environ) == asked
    assert this_node.apply(command("--nnodes 2"), environ).options.no_ssh


@pytest.mark.parametrize(("here", "given", "said"), [(1, 0, True), (2, 0, False), (0, 1, True)])
def test_a_tasks_own_rank_counts_for_more_than_an_option_that_is_the_same_in_all(
    here: int, given: int, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    step = (
        "SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n[1-3] SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n[1-3]"
        f" SLURM_STEP_NUM_NODES=3 SLURM_STEP_NUM_TASKS=3 SLURM_NODEID={here} SLURM_PROCID={here}"
    )
    environ = dict(word.split("=", 1) for word in step.split())
    found = this_node.apply(command(f"--no_ssh --node_rank {given}"), environ)
    assert found.options.node_rank == here
    line = (
        f"dsrun: ignoring --node_rank {given}: this is a task of srun (step 1.0, SLURM_NODEID) with"
        f" node rank {here}; a variable in a batch script is expanded once, on the first node\n"
    )
    assert capsys.readouterr().err == (line if said else "")


def test_no_number_of_nodes_is_refused_in_a_schedulers_task_too() -> None:
    environ = {"PET_NODE_RANK": "1", "PET_NNODES": "2", "PET_MASTER_ADDR": "h"}
    with pytest.raises(UsageError, match="--nnodes x: expected N or MIN:MAX"):
        this_node.apply(command("--nnodes x"), environ)


def test_standalone_stays_what_it_is() -> None:
    assert command(f"--standalone {C10D}").rendezvous is None


@pytest.mark.parametrize(
    "words",
    [
        "-H hosts", "--host a,b", "--include a", "-e a", "--num_nodes 2", "--launcher ssh",
        "--force_multi", "--no_ssh", "--rank_per_task", "--elastic_training",
        "--min_elastic_nodes 1", "--max_elastic_nodes 2", "--restart_window 3", "--min_uptime 3",
        "--no_restart_codes 2", "--elastic_config x", "--stdin rank0",
    ],
)  # fmt: skip
def test_what_contradicts_it(words: str) -> None:
    first = words.partition(" ")[0]
    flag = {"-H": "--hostfile", "-e": "--exclude"}.get(first, first)
    said = refused(f"{C10D} {words}")
    assert said.startswith(flag)
    assert " and --rdzv_backend c10d: " in said


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (f"{C10D} --nnodes 3:2", "--nnodes 3:2: expected N or MIN:MAX, such as 2 or 1:4"),
        (f"{C10D} --nnodes 0", "--nnodes 0: expected N or MIN:MAX"),
        (f"{C10D} --nnodes 1:x", "--nnodes 1:x: expected N or MIN:MAX"),
        ("--rdzv_conf a", "--rdzv_conf 'a': expected NAME=VALUE, joined by commas"),
        ("--rdzv_conf a=1,b=", "--rdzv_conf 'b=': expected NAME=VALUE, joined by commas"),
        ("--rdzv_conf timeout=soon", "--rdzv_conf timeout=soon: expected a number of seconds"),
        (f"{C10D} --nnodes 2 --rdzv_endpoint h:0", "--rdzv_endpoint h:0: port 0 works"),
        (f"{C10D} --nnodes 2", "--rdzv_backend c10d --nnodes 2: expected --rdzv_endpoint"),
        (f"{C10D} --nnodes 1:4", "--rdzv_backend c10d --nnodes 1:4: expected --rdzv_endpoint"),
        ("--rdzv_endpoint h:x", "--rdzv_endpoint: 'h:x': expected HOST:PORT, with a port from 1"),
        (
            "--rdzv_endpoint fd00::1:29500",
            "--rdzv_endpoint: 'fd00::1:29500': expected an IPv6 address in brackets:"
            " [fd00::1]:29500",
        ),
        (
            "--rdzv_endpoint fd00::1",
            "--rdzv_endpoint: 'fd00::1': expected an IPv6 address in brackets: [fd00::1]:PORT",
        ),
        ("--rdzv_endpoint h:70000", "--rdzv_endpoint: 'h:70000': expected HOST:PORT"),
        (
            "--rdzv_endpoint h:1 --master_addr g",
            "conflicting options: --rdzv_endpoint h:1 and --master_addr g; give one of them",
        ),
        (
            "--rdzv_endpoint h:1 --master_port 2",
            "conflicting options: --rdzv_endpoint h:1 and --master_port 2; give one of them",
        ),
        ("--host a,b --local_addr 10.0.0.1", "--local_addr 10.0.0.1: this command starts 2 nodes"),
    ],
)
def test_what_cannot_be_meant(words: str, complaint: str) -> None:
    assert refused(words).startswith(complaint)


def test_a_dry_run_says_whose_the_ranks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    asked = command(f"{C10D} --rdzv_endpoint h:1 --nnodes 2 --nproc_per_node 2 --dry_run")
    job = plan_job(asked)
    table = dry_run.as_table(job, commands(job))
    assert "chosen by torch, as are the ranks: --rdzv_backend c10d at h:1, --rdzv_id none" in table
    as_json = dry_run.as_json(job, commands(job))
    assert '"world_size": null' in as_json
    assert '"backend": "c10d"' in as_json


@pytest.mark.parametrize(("nodes", "size"), [("1", "2"), ("1:2", "null")])
def test_one_node_knows_its_workers_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: str, size: str
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    many = "--rdzv_endpoint h:1" if nodes != "1" else ""
    job = plan_job(command(f"{C10D} {many} --nnodes {nodes} --nproc_per_node 2 --dry_run"))
    assert f'"world_size": {size}' in dry_run.as_json(job, commands(job))


# -- dsrun's own --------------------------------------------------------------------------------


def test_an_endpoint_is_the_masters() -> None:
    options = command("--rdzv_backend static --rdzv_endpoint h:29500").options
    assert (options.master_addr, options.master_port) == ("h", 29500)
    options = command("--rdzv_endpoint [fe80::1]:5 --master_port 5").options
    assert (options.master_addr, options.master_port) == ("fe80::1", 5)
    options = command("--rdzv_endpoint h --master_port 7").options
    assert (options.master_addr, options.master_port) == ("h", 7)


def test_a_timeout_is_that_of_the_start() -> None:
    assert command("--rdzv_conf timeout=60").options.start_timeout == 60
    assert command("--rdzv_conf timeout=60 --start_timeout 5").options.start_timeout == 5


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("--local_addr 10.0.0.1 --num_gpus 1", "10.0.0.1"),
        ("--nnodes 2 --node_rank 0 --master_addr h --local_addr 10.0.0.1", "10.0.0.1"),
        ("--nnodes 2 --node_rank 1 --master_addr h --local_addr 10.0.0.1", "h"),
    ],
)
def test_ones_own_address_is_the_masters_on_the_first_node(words: str, address: str) -> None:
    assert make_plan(command(words)).plan.master_addr == address


def test_log_files_named_by_somebody_else_need_torchs_agent() -> None:
    policy = elastic_policy(command("--logs_specs mine").options, 2)
    assert policy is not None
    assert policy.agent == "torch"
    assert elastic_policy(command("--logs_specs default").options, 2) is None


def test_torchs_rendezvous_needs_torchs_agent() -> None:
    with pytest.raises(UsageError) as caught:
        command(f"{C10D} --elastic_agent dsrun")
    words = (
        "--elastic_agent dsrun: --rdzv_backend c10d needs torch's agent; leave out one of the two"
    )
    assert str(caught.value) == words
    assert command(f"{C10D} --elastic_agent torch").rendezvous == command(C10D).rendezvous


# -- on the node --------------------------------------------------------------------------------

TASK = NodeJob("1", "j", "h", Program("x"), "/", {}, None, None)
SAID = [
    {
        "RANK": f"{3 + local}", "LOCAL_RANK": f"{local}", "WORLD_SIZE": "5", "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2", "ROLE_RANK": f"{local}", "MASTER_ADDR": "h", "MASTER_PORT": "7",
        "TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_MAX_RESTARTS": "4",
    }
    for local in range(2)
]  # fmt: skip


def test_it_travels() -> None:
    task = TASK._replace(rendezvous=met(f"{C10D} --rdzv_conf a=b"))
    body = messages.pack(frames.JOB, task)[5:]
    found = messages.unpack(NodeJob, body)
    assert found == task
    with pytest.raises(frames.BadFrame):
        messages.unpack(NodeJob, body.replace(b'["c10d",', b'["c10d","",'))


def test_a_round_as_torchs_agent_tells_it() -> None:
    order = Start(0, (4, 5), 2, 0, 1, "", 0, 100)
    start = agent_environment.round_of(order, SAID, 2)
    assert (start.slots, start.credit, start.generation) == ((4, 5), 100, 2)
    assert agent_environment.ranks(start) == Ranks(3, 5, 1, 2, "h", 7, 1, 4)
    assert agent_environment.variables(start, 1)["ROLE_RANK"] == "1"
    # Which device is whose, and so the local rank, is the node launcher's to say.
    assert "LOCAL_RANK" not in agent_environment.variables(start, 1)
    assert (agent_environment.variables(order, 0), agent_environment.log_files(order, 0)) == (
        {},
        {},
    )


def test_the_files_that_the_agent_names() -> None:
    files = {"DSRUN_LOG_OUT": "/o", "DSRUN_LOG_ERR": "", "TORCHELASTIC_ERROR_FILE": ""}
    start = agent_environment.of_agent(Start(0, (0,), 1, 0, 1, "", 0, 1), [{**SAID[0], **files}])
    assert agent_environment.log_files(start, 0) == {1: "/o"}
    assert agent_environment.variables(start, 0) == {}  # the error file is ours
