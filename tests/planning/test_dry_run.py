"""The plan as a table and as JSON."""

from __future__ import annotations

import json
from typing import Any

from dsrun.launcher.backends.base import StartCommand
from dsrun.launcher.planning import dry_run
from dsrun.launcher.resources import world_info
from dsrun.launcher.resources.hostfile import Host
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.environment import ForwardedEnv
from dsrun.launcher.specs.host_updates import HostUpdates
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Origin, Plan, lay_out
from dsrun.launcher.specs.policies import (
    ElasticPolicy,
    OutputPolicy,
    Streams,
    SupervisionPolicy,
    WorkerPolicy,
)
from dsrun.launcher.specs.program import Program

TRAVEL = ForwardedEnv(
    {"HF_TOKEN": "hush", "NCCL_DEBUG": "INFO", "OMP_X": "a b", "LONG": "x" * 71},
    ("WANDB_API_KEY",),
    frozenset({"HF_TOKEN"}),
)
PLAN = Plan(
    lay_out([Host("w0", (0, 1, 3)), Host("w1", (2,)), Host("w2"), Host("w3", ("GPU-a",))]),
    Program("train.py", ("--lr", "0 1"), python="/py"),
    "ssh",
    None,
    4000,
)
SPEC = JobSpec(
    "j", PLAN, "/work", TRAVEL, origin=Origin("--host (a; b)", "ssh (why)", python="--python")
)
COMMANDS = [
    StartCommand(["ssh", "w0", "x y"], ["w0", "w2", "w3"], 1),
    StartCommand(["ssh", "-p", "2", "w1", "x y"], ["w1"], 3),
]


def test_the_plan_as_json() -> None:
    shown = json.loads(dry_run.as_json(SPEC, COMMANDS))
    assert {name: shown[name] for name in FIELDS} == FIELDS


FIELDS = {
    "format": 2,
    "launcher": "ssh",
    "master_addr": None,
    "master_port": 4000,
    "world_size": None,
    "nodes": [
        {"node_rank": 0, "host": "w0", "first_rank": 0, "devices": [0, 1, 3], "python": "/py"},
        {"node_rank": 1, "host": "w1", "first_rank": 3, "devices": [2], "python": "/py"},
        {"node_rank": 2, "host": "w2", "first_rank": 4, "devices": None, "python": "/py"},
        {"node_rank": 3, "host": "w3", "first_rank": None, "devices": ["GPU-a"], "python": "/py"},
    ],
    "program": ["/py", "-u", "train.py", "--local_rank=0", "--lr", "0 1"],
    "environment": ["HF_TOKEN", "LONG", "NCCL_DEBUG", "OMP_X"],
    "withheld": ["WANDB_API_KEY"],
    "world_info": None,
    "commands": [
        {"argv": ["ssh", "w0", "x y"], "hosts": ["w0", "w2", "w3"], "host_at": 1},
        {"argv": ["ssh", "-p", "2", "w1", "x y"], "hosts": ["w1"], "host_at": 3},
    ],
}
"""What was there before a `JobSpec` was."""


def test_every_policy_is_there_as_json() -> None:
    spec = SPEC._replace(
        core_lists=(("w0", "0-3"),),
        supervision=SupervisionPolicy(grace=5.0, requeue_codes=frozenset({8, 1})),
        output=OutputPolicy(redirects=Streams(1, ((0, 3),))),
        elastic=ElasticPolicy(1, 4, 2),
        updates=HostUpdates(hostfile="hosts"),
    )
    shown = json.loads(dry_run.as_json(spec, COMMANDS))
    private = {"environ", "payload"}  # whole environments, and what only workers understand
    of_roles = {"role", "ports", "former_ports"}  # the dry run of several roles has them there
    left = set(JobSpec._fields) - {"job_id", "plan", "travel", "only", "held"} - private - of_roles
    assert left <= shown.keys()
    assert shown["core_lists"] == {"w0": "0-3"}
    assert shown["supervision"]["requeue_codes"] == [1, 8]
    assert shown["supervision"]["grace"] == 5.0
    assert shown["output"]["redirects"] == {"default": 1, "by_rank": [[0, 3]]}
    assert (shown["elastic"]["most"], shown["updates"]["hosts"]["num_gpus"]) == (4, None)
    assert shown["batches"] is None
    assert "hush" not in json.dumps(shown)


TABLE = """\
hosts     --host (a; b)
launcher  ssh (why)
workers   one per device on 4 nodes
master    node 0, on port 4000
program   /py -u train.py --local_rank=0 --lr '0 1'
python    /py (--python)
folder    /work
timeouts  10 s to connect; 300 s to start; 15 s without a heartbeat
stop      on SIGTERM, SIGINT or SIGHUP; SIGKILL after 30 s
output    lines prefixed with '{host}:{rank}| '

node  host  ranks  devices  python
0     w0    0-2    0-1,3    /py
1     w1    3      2        /py
2     w2    ?      all      /py
3     w3    ?      GPU-a    /py

variables sent to the nodes:
  HF_TOKEN='***'
  LONG={long}...
  NCCL_DEBUG=INFO
  OMP_X='a b'
not sent because they look like secrets: WANDB_API_KEY (send one with --export NAME)

commands:
  each HOST of w0, w2, w3:
    ssh HOST 'x y'
  w1:
    ssh -p 2 w1 'x y'"""


def test_the_plan_as_a_table() -> None:
    shown = dry_run.as_table(SPEC, COMMANDS)
    assert shown == TABLE.replace("{long}", "x" * 67)


def test_a_large_plan_is_cut_and_one_command_is_shown_once() -> None:
    hosts = [Host(f"w{at}", (0,)) for at in range(70)]
    plan = Plan(lay_out(hosts), Program("x", local_rank=False), "pdsh", "m", None)
    spec = JobSpec("j", plan, "/", backend=BackendSettings("/py"))
    commands = [StartCommand(["pdsh", "all"], [host.name for host in hosts])]
    shown = dry_run.as_table(spec, commands)
    assert "workers   70 on 70 nodes\nmaster    m, on a free port\n" in shown
    assert "\n63    w63   63     0        /py\n... and 6 more nodes (--json shows all)\n\n" in shown
    assert "variables sent to the nodes:\n  none\n\n" in shown
    assert shown.endswith("commands:\n  w0, w1, w2, w3, w4 ...:\n    pdsh all")
    assert len(json.loads(dry_run.as_json(spec, commands))["nodes"]) == 70


def test_a_plan_whose_slots_are_known_has_its_world_info() -> None:
    nodes = lay_out([Host("w0", (0, 2)), Host("w1", ("GPU-a",))])
    plan = Plan(nodes, Program("x"), "ssh", None, None)
    text = json.loads(dry_run.as_json(JobSpec("j", plan, "/"), []))["world_info"]
    assert world_info.decode(text) == {"w0": (0, 2), "w1": ("GPU-a",)}


# -- the workers' Python --------------------------------------------------------------------------


def shown_python(program: Program, **fields: Any) -> tuple[str, str, str | None]:
    """The row, the cell of a node, and the field of a node."""
    plan = Plan(lay_out([Host("w0", (0,))]), program, "ssh", None, None)
    spec = JobSpec("j", plan, "/", backend=BackendSettings("/own"), **fields)
    lines = dry_run.as_table(spec, []).split("\n")
    row = next((line for line in lines if line.startswith("python")), "")
    node = lines[lines.index("node  host  ranks  devices  python") + 1]
    python = json.loads(dry_run.as_json(spec, []))["nodes"][0]["python"]
    return row[6:].strip(), node.split()[-1], python


def test_each_node_has_its_python_and_where_that_comes_from() -> None:
    found = Program("x", project_python="/env/bin/python")
    script = WorkerPolicy(venv_script="/env/bin/activate")
    assert shown_python(Program("x")) == ("/own (dsrun's own)", "/own", "/own")
    assert shown_python(found, origin=Origin(python=".venv")) == (
        "/env/bin/python (.venv)",
        "/env/bin/python",
        "/env/bin/python",
    )
    of_script = Origin(python="--venv_script")
    assert shown_python(found, origin=of_script, workers=script) == (
        "found on each node (--venv_script)",
        "?",
        None,
    )
    assert shown_python(Program("x", no_python=True)) == ("", "-", None)


def test_the_command_of_a_worker_has_the_python_that_is_known() -> None:
    found, script = Program("x", project_python="/py"), WorkerPolicy(venv_script="/v")
    plan = Plan(lay_out([Host("w0", (0,))]), found, "ssh", None, None)
    assert dry_run.argv(JobSpec("j", plan, "/"))[0] == "/py"
    assert dry_run.argv(JobSpec("j", plan, "/", workers=script))[0] == "python"
