"""A node's HELLO."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time

from dsrun.launcher import __version__
from dsrun.launcher.common.network import own_addresses
from dsrun.launcher.control.messages import Task
from dsrun.launcher.node import hello
from dsrun.launcher.node.devices import Devices
from dsrun.launcher.specs.policies import WatchPolicy
from dsrun.launcher.specs.program import Program

from ..support.tasks import ELASTIC

TASK = Task(__version__, "j", "n0", Program("train.py"), "/", {}, None, None)
CPU = Devices({"DSRUN_ACCELERATOR": "cpu"}, {})


def test_one_machine_has_one_name() -> None:
    assert hello.machine() == hello.machine() != ""
    other = subprocess.run(
        [sys.executable, "-c", "import os; print(os.stat('/proc/self/ns/net').st_ino)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() in hello.machine()


def test_a_hello_has_all_that_was_found() -> None:
    before = time.monotonic()
    found = hello.hello(TASK, CPU, 3, None, ["", "one problem", ""], "/logs")
    assert before <= found.clock <= time.monotonic()
    assert found._replace(clock=0.0) == (
        __version__,
        os.uname().nodename,
        hello.machine(),
        platform.python_version().rstrip("+abrc"),
        "cpu",
        (),
        3,
        None,
        (),
        ("one problem",),
        0.0,
        "/logs",
        (os.getppid(), os.getpid()),
        None,
        None,
    )


def test_addresses_are_told_where_others_need_them() -> None:
    first = hello.hello(TASK._replace(port=0), CPU, 1, 4711, [], "")
    assert (first.port, first.addresses) == (4711, own_addresses())
    elastic = hello.hello(TASK._replace(elastic=ELASTIC), CPU, 1, None, [], "")
    assert (elastic.port, elastic.addresses) == (None, own_addresses())
    linked = hello.hello(TASK._replace(watch=WatchPolicy(slow=True)), CPU, 1, None, [], "")
    assert linked.addresses == own_addresses()
