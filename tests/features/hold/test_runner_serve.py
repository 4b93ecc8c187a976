"""A hold that belongs to one caller, as a program that has one: real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control.local_client import LocalClient
from dsrun.launcher.specs import codec
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program

from ...support.checkout import CHECKOUT
from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = HANG

SERVE = """
import socket, sys
from dsrun.launcher.cli.options import Options
from dsrun.launcher.common import entry

def run(words):
    from dsrun.launcher.features.hold.runner_serve import serve
    from dsrun.launcher.features.hold.plan import plan_hold
    return serve(plan_hold(Options(num_gpus=2, launcher="local", standalone=True)), line)

line = socket.socket(fileno=int(sys.argv.pop()))
entry.start(run)
"""

TELL = """
import json, os, sys
print(json.dumps([os.getpid(), os.environ["RANK"], os.environ["LOCAL_RANK"], sys.argv[2:]]))
"""


class Owned:
    """A process that holds this machine for the other end of a socket pair."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            argv = [sys.executable, "-c", SERVE, str(theirs.fileno())]
            env = {**os.environ, "PYTHONPATH": str(CHECKOUT / "tests" / "import")}
            self.process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], env=env)
        self.client = LocalClient(ours)

    def run(self, script: Path, *args: str) -> tuple[dict[str, Any], list[Any]]:
        """Run a script on both slots; return the answer, and what its workers have printed."""
        plan = Plan(
            lay_out([Host("localhost", (0, 1))]), Program(str(script), args), "", None, None
        )
        spec = JobSpec(f"job-{os.urandom(3).hex()}", plan, str(script.parent))
        read, write = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        request = {"do": "run", "spec": codec.encode(spec)}
        number = self.client.send(request, (null, write, null))
        os.close(write)
        os.close(null)
        with os.fdopen(read) as pipe:
            printed = [json.loads(line.partition("| ")[2]) for line in pipe]
        return self._answer(number), sorted(printed, key=lambda one: str(one[1]))

    def _answer(self, number: int) -> dict[str, Any]:
        for one in self.client.frames(LONG):
            if one.message.get("id") == number:
                return one.message
        raise AssertionError("no answer")


@pytest.fixture
def owned() -> Iterator[Owned]:
    """A hold of this machine."""
    made = Owned()
    yield made
    made.client.close()
    try:
        made.process.wait(LONG)
    finally:
        made.process.kill()


def test_runs_on_a_hold_of_ones_own(owned: Owned, tmp_path: Path) -> None:
    """Each has its own workers on the same node launcher; the code is the code as it is now."""
    described = owned.client.ask({"do": "describe"}, seconds=LONG)
    assert [host["slots"] for host in described["hosts"]] == [[0, 1]]
    script = tmp_path / "tell.py"
    script.write_text(TELL)
    answer, told = owned.run(script, "one")
    assert answer["code"] == 0
    assert [one[1:] for one in told] == [["0", "0", ["one"]], ["1", "1", ["one"]]]
    script.write_text(TELL.replace("sys.argv[2:]", "'changed'"))
    _, again = owned.run(script)
    assert [one[3] for one in again] == ["changed", "changed"]
    assert {one[0] for one in told}.isdisjoint(one[0] for one in again)
    script.write_text("import sys; sys.exit(3)")
    assert owned.run(script)[0]["code"] == 3


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT])
def test_signals_for_runs_do_not_end_it(owned: Owned, number: int) -> None:
    owned.client.ask({"do": "describe"}, seconds=LONG)
    owned.process.send_signal(number)
    assert owned.client.ask({"do": "describe"}, seconds=LONG)["ok"]
    assert owned.process.poll() is None


def test_it_ends_with_its_caller(owned: Owned) -> None:
    owned.client.ask({"do": "describe"}, seconds=LONG)
    owned.client.close()
    assert owned.process.wait(LONG) == 128 + signal.SIGHUP


def held_below_a_shell(*ignored: str) -> subprocess.Popen[str]:
    """Start a shell that starts a hold in the foreground; return once the hold has its node."""
    hold = [str(CHECKOUT / "bin" / "dsrun-hold"), "--num_gpus", "1", "--launcher", "local"]
    line = " ".join(["trap '' HUP;" if ignored else "", *hold, "; true"])
    shell = subprocess.Popen(
        ["sh", "-c", line], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    assert shell.stderr is not None
    while "holding 1 node" not in (told := shell.stderr.readline()):
        assert told
    return shell


def test_one_in_the_foreground_ends_with_the_program_that_started_it() -> None:
    shell = held_below_a_shell()
    shell.kill()
    shell.wait(HANG)
    assert shell.stderr is not None
    told = shell.stderr.read()  # to its end: the hold has closed it, too
    assert "dsrun: the program that started this hold has exited: releasing all nodes" in told
    shell.stderr.close()


def test_one_under_nohup_stays() -> None:
    shell = held_below_a_shell("HUP")
    (child,) = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
    pidfd = os.pidfd_open(int(child))
    shell.kill()
    shell.wait(HANG)
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    assert shell.stderr is not None
    assert "program that started" not in shell.stderr.read()
    shell.stderr.close()
    os.close(pidfd)
