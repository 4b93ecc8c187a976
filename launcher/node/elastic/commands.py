"""The command of torch's agent, which runs beside the workers of an elastic job."""

from __future__ import annotations

import json
import os
import sys

from ...specs import environment
from ..workers.spawn import WorkerSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...control.messages import NodeJob, Start
    from ..workers.prepare import NodeSetup

BOOT = (
    b"import sys; sys.path[:] = [p for p in sys.path if p]; del sys.argv[0];"
    b"import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
)
"""Runs a file with neither its own folder nor the current one on `sys.path`."""

INTERVAL = 0.05
"""Seconds between two checks of torch's agent on its workers; it can only poll."""

BARRIER = 300.0
"""Seconds for which an agent that has finished waits for the others: torch's own default."""

_FOLDER = os.path.dirname(__file__)


def agent(setup: NodeSetup, start: Start, stdin: int) -> WorkerSpec:
    """Return the command of torch's agent; its standard input is the socket to the launcher."""
    task = setup.task
    env = {**setup.base, **task.env}
    if task.rendezvous is None:
        # Nodes may have different numbers of workers.
        env["TORCH_ELASTIC_WORKER_IDENTICAL"] = "0"
    wire = environment.from_wire
    program = os.fsencode(os.path.join(_FOLDER, "agent.py"))
    settings = json.dumps(_settings(task, len(start.slots))).encode()
    return WorkerSpec(
        rank=start.first_rank,
        argv=[setup.python, b"-c", BOOT, program, settings],
        env={wire(name): wire(value) for name, value in env.items()},
        workdir=setup.workdir,
        stdin=stdin,
    )


def _settings(task: NodeJob, workers: int) -> dict[str, object]:
    # The JSON list of a rendezvous becomes an object for the agent.
    rendezvous = task.rendezvous._asdict() if task.rendezvous is not None else None
    return {
        "role": task.workers.role,
        "workers": workers,
        "job": task.job_id,
        "shim": [sys.executable, "-E", "-S", os.path.join(_FOLDER, "shim.py")],
        "interval": INTERVAL,
        "barrier": BARRIER,
        "rendezvous": rendezvous,
        "logs": task.output.logs_specs,
    }
