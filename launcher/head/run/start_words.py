"""What a run tells the user when it starts."""

from __future__ import annotations

from ...common.wording import counted
from ..fleet.hosts import by_cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .run import Run

NO_DEVICES = "no accelerator found: workers run on the CPU (--accelerator cpu hides this message)"


def log_folders(run: Run) -> None:
    """Log where each node has made its private folder for log files, if it has."""
    if run.spec.output.log_private:
        folders = {n.name: f"log files in {n.hello.log_dir}" for n in run.nodes if n.hello}
        for line in by_cause(folders):
            run.log(line)


def log_start(run: Run, port: int, *, cpu_only: bool) -> None:
    """Log the size of the run and its master; warn if expected devices are missing."""
    if run.spec.workers.expects_devices and cpu_only:
        run.log(NO_DEVICES)
    plan = run.plan
    where = f"{plan.nodes[0].host.name}: master {run.master}:{port}"
    size = counted(plan.world_size or 0, "worker")
    run.log(f"{size} on {counted(len(plan.nodes), 'node')}; {where}", "debug")
