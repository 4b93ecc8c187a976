"""Measure the quick check: processor time of a node's facts, and extra time of a start on hosts.

    python benchmarks/check.py                      4 hosts x 2 over ssh, with and without the check
    python benchmarks/check.py --hosts 64 --rounds 5
    python benchmarks/check.py --no_hosts           the facts of this machine alone

The first facts of a process include the imports. If there is a driver, NVML is measured separately,
because a separate process queries it while the other facts are collected. The hosts are the virtual
ones of `tests/cluster` (this needs root).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import CHECKOUT, DSRUN, WORKERS, bar, command_time, take_turns
from tests.cluster.hosts import Cluster
from tests.cluster.machines import user_environment

HOSTFILE = "/run/hostfile"
HELLO = str(WORKERS / "hello.py")
WITH, WITHOUT = "with the check", "--no_check"

FACTS = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from dsrun.launcher import __version__
from dsrun.launcher.control.messages import NodeJob
from dsrun.launcher.node.workers.prepare import NodeSetup
from dsrun.launcher.specs.program import Program
program = Program("check", module=True)
task = NodeJob(__version__, "j", "n0", program, sys.argv[2], {}, None, None)
setup = NodeSetup(task, print)
setup.hello()
setup.task = task._replace(facts=True)
times = []
for _ in range(20):
    began = time.process_time()
    setup.hello()
    times.append(time.process_time() - began)
asked = 0.0
if os.path.exists("/dev/nvidiactl"):
    from dsrun.accelerator.hardware import nvml
    from dsrun.launcher.features.quick_check.node_collect import environ_of
    from dsrun.launcher.features.quick_check.node_interpreter import interpreter
    from dsrun.launcher.features.quick_check.node_devices import ASKED
    python = os.fsdecode(setup.python)
    sys.path.extend(interpreter(python, environ_of(setup)).folders)
    began = time.perf_counter()
    nvml.read(*ASKED)
    asked = time.perf_counter() - began
print(json.dumps({"first": times[0], "later": sorted(times)[10], "nvml": asked}))
"""


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="The quick check before a start.")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--no_hosts", action="store_true", help="only this machine's facts")
    options = parser.parse_args()
    of_one_node()
    if not options.no_hosts:
        of_a_start(options.hosts, options.workers, options.rounds)


def of_one_node() -> None:
    """Print the processor time of the facts, for folders of several sizes."""
    print(f"{'Python files':>12}  {'first':>9}  {'later':>9}  {'NVML':>9}")
    for files in (10, 500, 2000):
        with tempfile.TemporaryDirectory() as folder:
            for number in range(files):
                path = Path(folder, f"package{number // 50}", f"{number}.py")
                path.parent.mkdir(exist_ok=True)
                path.write_text("x" * number)
            found = facts_time(folder)
        cells = (f"{found[name] * 1000:6.1f} ms" for name in ("first", "later", "nvml"))
        print(f"{files:>12}  {'  '.join(cells)}")
        if files == 10:
            bar("facts of one node, milliseconds", found["later"] * 1000, 5.0)


def facts_time(folder: str) -> dict[str, float]:
    """Return the seconds that facts take in a process like the node launcher's."""
    importable = str(CHECKOUT / "tests" / "import")
    argv = [sys.executable, "-E", "-S", "-c", FACTS, importable, folder]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = json.loads(printed)
    return found


def of_a_start(hosts: int, workers: int, rounds: int) -> None:
    """Print the time of a whole run with and without the check, in turns."""
    with Cluster(hosts, shared=[CHECKOUT]) as cluster:
        cluster.path(HOSTFILE).write_text(cluster.hostfile(workers))
        env = user_environment()
        peers = {
            WITH: [*DSRUN, "-H", HOSTFILE, HELLO],
            WITHOUT: [*DSRUN, "-H", HOSTFILE, "--no_check", HELLO],
        }
        measures = {
            name: partial(
                command_time,
                cluster.login.argv(command, CHECKOUT),
                "worker here",
                hosts * workers,
                env=env,
            )
            for name, command in peers.items()
        }
        figures = take_turns(measures, rounds)
    print(figures.table(f"{hosts} hosts x {workers}", WITHOUT))
    bar("extra time of the check, milliseconds", figures.excess(WITH, WITHOUT) * 1000, 50.0)


if __name__ == "__main__":
    main()
