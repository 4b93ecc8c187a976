"""A line that is started once for each node by something else than one srun for all of them."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.parser import Command, parse
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.planning import rendezvous, this_node
from dsrun.launcher.planning.planner import make_plan

STEP = (
    "SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n[1-4] SLURM_STEP_ID={node} SLURM_STEP_NODELIST={hosts}"
    " SLURM_STEP_NUM_NODES={nodes} SLURM_STEP_NUM_TASKS={nodes} SLURM_NODEID=0 SLURM_PROCID=0"
)
ALONE = [STEP.format(node=node, hosts=f"n{node + 1}", nodes=1) for node in range(2)]
PAIR = STEP.format(node=0, hosts="n[1-2]", nodes=2)
PET = "PET_NODE_RANK=0 PET_NNODES=2 PET_MASTER_ADDR=h"
TOGETHER = "; start the nodes of the job together, or give each of them --nnodes, --node_rank and"


def placed(words: str, environ: str) -> Command:
    variables = dict(word.split("=", 1) for word in environ.split())
    command = rendezvous.apply(parse([*words.split(), "train.py"], variables))
    return this_node.apply(command, variables)


@pytest.mark.parametrize(
    "address", ["--master_addr=h1", "--rdzv_endpoint=h1:29500", "--master_addr h1 --no_ssh"]
)
@pytest.mark.parametrize("count", ["--nnodes=2", "--num_nodes=2"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_line_that_says_nodes_rank_and_address_means_them_in_a_step_of_its_own(
    address: str, count: str, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ALONE[rank].split():
        monkeypatch.setenv(*variable.split("=", 1))
    plan = make_plan(placed(f"{count} --node_rank={rank} {address}", ALONE[rank])).plan
    assert [node.host.name for node in plan.nodes] == ["node-0", "node-1"]
    assert (plan.launcher, plan.master_addr) == ("none", "h1")


@pytest.mark.parametrize("environ", [PET, PAIR])
def test_it_means_them_wherever_the_environment_has_another_number_of_nodes(environ: str) -> None:
    options = placed("--nnodes=4 --node_rank=3 --master_addr=h1", environ).options
    assert (options.no_ssh, options.nnodes, options.node_rank) == (True, "4", 3)


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        ("--no_ssh --host=a,b --node_rank=1", ALONE[1]),
        ("--no_ssh --hostfile=hosts --node_rank=1", ALONE[1]),
        # A shell on each node of an allocation, whose list of hosts may have another order.
        ("--nnodes=2 --node_rank=1 --master_addr=h", "SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n[1-4]"),
    ],
)
def test_nothing_is_added_to_a_line_that_says_all(words: str, environ: str) -> None:
    given = parse([*words.split(), "train.py"], {}).options
    assert vars(placed(words, environ).options) == {**vars(given), "no_ssh": True}


@pytest.mark.parametrize(
    ("words", "environ", "said"),
    [
        ("--nnodes=2", ALONE[0], f"task of srun (step 1.0, SLURM_NODEID), which sets 1{TOGETHER}"),
        ("--num_nodes=2 --node_rank=1", ALONE[1], f"--num_nodes 2: this is a task{{}}1{TOGETHER}"),
        ("--nnodes=2 --master_addr=h", ALONE[1], TOGETHER),
        ("--node_rank=1 --master_addr=h --nnodes=1", ALONE[1], f"--node_rank 1: {{}}0{TOGETHER}"),
        ("--node_rank=1 --nnodes=1:2 --master_addr=h", ALONE[1], TOGETHER),
        ("--nnodes=4 --node_rank=1", PAIR, TOGETHER),
        ("--nnodes=4", PET, TOGETHER),
        ("--nnodes=1", PAIR, "which sets 2; leave --nnodes out"),
        ("--node_rank=1", PET, "which sets 0; leave --node_rank out"),
    ],
)
def test_no_advice_parts_a_job(words: str, environ: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        placed(words, environ)
    start, _, end = said.rpartition("{}")
    text = str(caught.value)
    assert start in text
    assert end in text
    assert "\n" not in text


def test_more_agents_than_places_are_told_before_torch_meets_them() -> None:
    step = STEP.format(node=0, hosts="n[1-2]", nodes=2).replace("TASKS=2", "TASKS=4")
    words = "--nnodes={} --rdzv_backend=c10d --rdzv_endpoint=n1:29400"
    told = "srun started dsrun 4 times on 2 nodes, but --nnodes allows"
    with pytest.raises(UsageError, match=told):
        placed(words.format(2), step)
    assert placed(words.format(4), step).rendezvous is not None


WORLD = "RANK=1 WORLD_SIZE=2"


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        ("--no_ssh", WORLD),
        ("--no_ssh --node_rank=0", WORLD),
        ("--no_ssh --node_rank=0", "RANK=0 WORLD_SIZE=8"),
        ("--no_ssh --num_nodes=2 --master_addr=h", WORLD),
    ],
)
def test_a_world_of_several_is_no_job_of_one_node(words: str, environ: str) -> None:
    rank, size = (word.partition("=")[2] for word in environ.split())
    with pytest.raises(UsageError) as caught:
        placed(words, environ)
    assert str(caught.value) == (
        f"--no_ssh: RANK={rank} and WORLD_SIZE={size} are set; if they are this node's, use"
        f" --nnodes={size} --node_rank={rank} --master_addr=HOST, else unset them"
    )


@pytest.mark.parametrize(
    ("words", "environ", "told"),
    [
        ("", WORLD, True),
        ("--num_gpus=2", WORLD, True),
        ("--host=a,b", WORLD, False),
        ("--standalone", WORLD, False),
        ("--nnodes=2 --node_rank=1 --master_addr=h", WORLD, False),
        ("--no_ssh --nnodes=2 --node_rank=1 --master_addr=h", WORLD, False),
        ("", f"{WORLD} LOCAL_RANK=0", False),
        ("--no_ssh --node_rank=0", f"{WORLD} LOCAL_RANK=0", False),
        ("", "RANK=0 WORLD_SIZE=1", False),
        ("", "RANK=x WORLD_SIZE=2", False),
        ("", "WORLD_SIZE=2", False),
    ],
)
def test_a_world_that_is_not_used_is_a_line(words: str, environ: str, told: bool) -> None:
    notes = placed(words, environ).notes
    assert [note.partition(" are not used")[0] for note in notes] == (
        ["RANK=1 and WORLD_SIZE=2"] if told else []
    )
