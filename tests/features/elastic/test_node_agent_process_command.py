"""How torch's agent and spare workers are started."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from dsrun.launcher import __version__
from dsrun.launcher.control.messages import NodeJob, Start
from dsrun.launcher.features.elastic import node_agent_process as agent_process
from dsrun.launcher.specs.policies import OutputPolicy, WorkerPolicy
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.rendezvous import Rendezvous

from ...support.node_setup import node_setup
from ...support.tasks import ELASTIC

FOLDER = Path(agent_process.__file__).parent
START = Start(4, (0, 1, 2), 8, 2, 3, "h", 1, 1)
TASK = NodeJob(
    __version__,
    "j",
    "n0",
    Program("train.py", ("--lr", "1"), python=sys.executable),
    "/",
    {"DSRUN_ACCELERATOR": "cpu", "MINE": "1", "TORCH_ELASTIC_WORKER_IDENTICAL": "1"},
    (0, 1, 2),
    None,
    workers=WorkerPolicy(role="trainer"),
    output=OutputPolicy(logs_specs=("name", "dir", "", "", "")),
    elastic=ELASTIC,
    lease=20.0,
)


def test_the_agent_of_the_runners_rounds() -> None:
    spec = agent_process.agent_command(node_setup(TASK, print), START, 7)
    python, option, _, program, text = spec.argv
    assert (python, option) == (os.fsencode(sys.executable), b"-c")
    assert Path(os.fsdecode(program)) == FOLDER / "agent.py"
    assert json.loads(text) == {
        "role": "trainer",
        "workers": 3,
        "job": "j",
        "shim": [sys.executable, "-E", "-S", str(FOLDER / "shim.py")],
        "interval": 0.05,
        "barrier": 300.0,
        "rendezvous": None,
        "logs": ["name", "dir", "", "", ""],
    }
    assert (spec.rank, spec.workdir, spec.stdin) == (4, b"/", 7)
    # Nodes may have different numbers of workers.
    assert spec.env[b"TORCH_ELASTIC_WORKER_IDENTICAL"] == b"0"
    assert (spec.env[b"MINE"], spec.env[b"PATH"]) == (b"1", os.environb[b"PATH"])


def test_the_agent_of_torchs_rounds() -> None:
    """What the other nodes' agents were told holds here as well."""
    rendezvous = Rendezvous("c10d", "h:1", "id", 1, 2, {"timeout": "9"}, "", 3, 0.1)
    task = TASK._replace(rendezvous=rendezvous)
    spec = agent_process.agent_command(node_setup(task, print), START, 7)
    assert json.loads(spec.argv[-1])["rendezvous"] == rendezvous._asdict()
    assert spec.env[b"TORCH_ELASTIC_WORKER_IDENTICAL"] == b"1"
