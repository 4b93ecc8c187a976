"""A node's HELLO."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from dsrun.launcher import __version__
from dsrun.launcher.common.network import own_addresses
from dsrun.launcher.control.messages import Hello, NodeJob
from dsrun.launcher.node.machine.devices import NodeDevices
from dsrun.launcher.node.workers.prepare import FileFindings, NodeSetup, machine
from dsrun.launcher.specs.policies import OutputPolicy, WatchPolicy
from dsrun.launcher.specs.program import Program

from ...support.tasks import ELASTIC

TASK = NodeJob(__version__, "j", "n0", Program("train.py"), "/", {}, (0, 1, 2), None)
CPU = NodeDevices({"DSRUN_ACCELERATOR": "cpu"}, {})


def test_one_machine_has_one_name() -> None:
    assert machine() == machine() != ""
    other = subprocess.run(
        [sys.executable, "-c", "import os; print(os.stat('/proc/self/ns/net').st_ino)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() in machine()


def hello(task: NodeJob, *problems: str) -> Hello:
    setup = NodeSetup(task, print, FileFindings(problems, {}, "python", devices=CPU))
    try:
        return setup.hello()
    finally:
        setup.close()


def test_a_hello_has_all_that_was_found() -> None:
    before = time.monotonic()
    found = hello(TASK._replace(output=OutputPolicy(log_dir="logs")), "", "one problem")
    assert before <= found.clock <= time.monotonic()
    assert found._replace(clock=0.0) == (
        __version__,
        os.uname().nodename,
        machine(),
        "python",
        "cpu",
        (),
        3,
        None,
        (),
        ("one problem",),
        0.0,
        "/logs/j",
        (os.getppid(), os.getpid()),
        None,
        None,
        (),
    )


def test_addresses_are_told_where_others_need_them() -> None:
    first = hello(TASK._replace(port=0))
    assert first.port
    assert first.addresses == own_addresses()
    elastic = hello(TASK._replace(elastic=ELASTIC))
    assert (elastic.port, elastic.addresses) == (None, own_addresses())
    linked = hello(TASK._replace(watch=WatchPolicy(slow=True)))
    assert linked.addresses == own_addresses()
