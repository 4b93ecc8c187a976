"""The workers of a node as real processes on a real loop: heard, stopped, swept."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.node import descendants, processes
from dsrun.launcher.node.workers.group import Crew, Events, Manners
from dsrun.launcher.node.workers.spawn import Process, SpawnFailed, Spec

from .specs import ENV, bomb, python, shell

# -- a crew -------------------------------------------------------------------------------------


@pytest.fixture
def adopting() -> Iterator[None]:
    """Adopt the orphans of this test, as a node launcher does, and leave none.

    A crew takes all children of its process for its own, at the end at the latest.
    """
    assert processes.children() == [], "these tests would kill what others have started"
    processes.adopt_orphans()
    yield
    left = processes.children()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    processes._prctl(36, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    assert left == []


class Watched:
    """A crew on a real loop, and all that it told.

    Attributes:
        says: stop the loop once every worker has written this.
    """

    def __init__(self, *specs: Spec, manners: Manners | None = None, credit: int = 1 << 30) -> None:
        self.loop = Loop()
        self.output: dict[tuple[int, int], bytes] = {}
        self.exits: dict[int, tuple[int, bool]] = {}
        self.notes: list[str] = []
        self.took: list[int] = []
        self.left: list[int] | None = None
        self.says: bytes | None = None
        events = Events(self._output, self._exited, self.notes.append, self._done, self.took.append)
        self.crew = Crew(self.loop, manners or Manners(), events)
        self.loop.on_signals([signal.SIGCHLD], lambda _number: self.crew.reap())
        self.crew.start(specs, {}, credit)

    def _output(self, rank: int, stream: int, data: bytes) -> None:
        self.output[rank, stream] = self.output.get((rank, stream), b"") + data
        ranks = [process.spec.rank for process in self.crew.processes]
        if self.says is not None and all(
            self.says in self.output.get((rank, 1), b"") for rank in ranks
        ):
            self.loop.stop()

    def _exited(self, process: Process) -> None:
        assert process.status is not None
        code = os.waitstatus_to_exitcode(process.status)
        self.exits[process.spec.rank] = (code, process.signalled)

    def _done(self, left: list[int]) -> None:
        self.left = left
        self.loop.stop()

    def until(self, text: bytes) -> None:
        """Run until every worker has written this, or nothing is left."""
        self.says = text
        self._run()
        self.says = None

    def to_the_end(self) -> None:
        """Run until nothing is left."""
        self._run()
        assert self.left == []

    def _run(self) -> None:
        late = self.loop.after(20.0, lambda: pytest.fail(f"late: {self.output} {self.exits}"))
        self.loop.run()
        late.cancel()


pytestmark = pytest.mark.usefixtures("adopting")


def test_exits_are_told_once_each_with_all_output() -> None:
    watched = Watched(
        shell("echo out; echo err >&2; exit 7", 4),
        python("import os; os.kill(os.getpid(), 9)", 5),
        python("print('x' * 300000, end='')", 6),
    )
    watched.to_the_end()
    assert watched.exits == {4: (7, False), 5: (-9, False), 6: (0, False)}
    assert watched.output == {(4, 1): b"out\n", (4, 2): b"err\n", (6, 1): b"x" * 300000}
    assert watched.notes == []


def test_a_worker_that_cannot_start_leaves_those_before_it_running() -> None:
    with pytest.raises(SpawnFailed, match="/no/such: No such file"):
        Watched(shell("exit 0"), Spec(1, [b"/no/such"], ENV, b"/"))
    assert os.waitpid(-1, 0)[1] == 0


TRAP = """
import os, signal, sys
def on_term(number, frame):
    os.write(1, b'term\\n')
    {then}
signal.signal(signal.SIGTERM, on_term)
os.write(1, b'ready\\n')
while True: signal.pause()
"""


def test_the_first_step_is_the_signal() -> None:
    watched = Watched(*(python(TRAP.format(then="sys.exit(3)"), rank) for rank in range(2)))
    watched.until(b"ready")
    watched.crew.stop(signal.SIGTERM, 60.0)
    watched.crew.stop(signal.SIGTERM, 60.0)
    watched.to_the_end()
    assert watched.exits == {0: (3, True), 1: (3, True)}
    assert watched.output == {(0, 1): b"ready\nterm\n", (1, 1): b"ready\nterm\n"}


def test_the_last_step_is_sigkill_after_one_grace_for_all() -> None:
    watched = Watched(*(python(TRAP.format(then="pass"), rank) for rank in range(3)))
    watched.until(b"ready")
    began = watched.loop.clock()
    watched.crew.stop(signal.SIGTERM, 0.3)
    watched.to_the_end()
    assert watched.exits == dict.fromkeys(range(3), (-9, True))
    assert 0.3 <= watched.loop.clock() - began < 0.3 * 3


def test_a_second_stop_shortens_the_grace_and_never_lengthens_it() -> None:
    watched = Watched(python(TRAP.format(then="pass")))
    watched.until(b"ready")
    watched.crew.stop(signal.SIGTERM, 60.0)
    watched.until(b"term")
    watched.crew.stop(signal.SIGTERM, 0.1)
    watched.crew.stop(signal.SIGTERM, 60.0)
    watched.to_the_end()
    assert watched.output[0, 1] == b"ready\nterm\n"
    assert watched.exits == {0: (-9, True)}


def test_another_signal_is_passed_on_as_well() -> None:
    watched = Watched(
        shell(
            "trap 'echo int' INT; trap 'echo term; exit 4' TERM; echo ready; "
            "while :; do sleep 60 & wait $!; done",
            0,
        )
    )
    watched.until(b"ready")
    watched.crew.stop(signal.SIGINT, 60.0)
    watched.until(b"int")
    watched.crew.stop(signal.SIGTERM, 60.0)
    watched.to_the_end()
    assert watched.exits == {0: (4, True)}


def test_a_stopped_worker_is_woken_to_be_stopped() -> None:
    watched = Watched(python(TRAP.format(then="sys.exit(0)")))
    watched.until(b"ready")
    pid = watched.crew.processes[0].pid
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)
    watched.crew.stop(signal.SIGTERM, 60.0)
    watched.to_the_end()
    assert watched.exits == {0: (0, True)}


def test_signals_for_the_workers_reach_each_once_and_end_nothing() -> None:
    text = """
    import os, signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    os.write(1, b'ready\\n')
    signal.sigwait([signal.SIGUSR1])
    os.write(1, b'usr1\\n')
    """
    watched = Watched(python(text, 0), python(text, 1))
    watched.until(b"ready")
    watched.crew.signal_all(signal.SIGUSR1)
    watched.to_the_end()
    assert watched.exits == {0: (0, False), 1: (0, False)}
    assert watched.output == {(0, 1): b"ready\nusr1\n", (1, 1): b"ready\nusr1\n"}


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.dup2(os.open('/dev/null', os.O_RDWR), 1)
        time.sleep(60)
    os._exit(0)
os.wait()
print('ready', flush=True)
{then}
"""


def test_daemonised_grandchildren_are_swept_and_named() -> None:
    watched = Watched(python(DAEMON.format(then="")))
    watched.to_the_end()
    assert watched.exits == {0: (0, False)}
    (note,) = watched.notes
    assert note.startswith("left running by the job, stopped: ")
    assert sys.executable in note


def test_a_failed_workers_daemons_are_swept_without_a_word() -> None:
    watched = Watched(python(DAEMON.format(then="sys.exit(5)")))
    watched.to_the_end()
    assert watched.exits == {0: (5, False)}
    assert watched.notes == []


def test_daemons_are_asked_before_they_are_killed() -> None:
    text = """
    import os, signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    if os.fork() == 0:
        os.setsid()
        signal.sigwait([signal.SIGTERM])
        os.write(1, b'asked')
    """
    watched = Watched(python(text))
    watched.to_the_end()
    assert watched.output == {(0, 1): b"asked"}


def test_daemons_that_ignore_sigterm_are_killed() -> None:
    text = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + DAEMON.format(then="")
    watched = Watched(python(text))
    watched.to_the_end()
    assert watched.exits == {0: (0, False)}


def test_daemons_are_swept_when_the_job_is_stopped() -> None:
    watched = Watched(python(DAEMON.format(then="time.sleep(60)")))
    watched.until(b"ready")
    watched.crew.stop(signal.SIGTERM, 60.0)
    watched.to_the_end()
    assert watched.exits == {0: (-15, True)}


@pytest.mark.parametrize("seats", [80, 300])
def test_a_fork_bomb_is_ended(tmp_path: Path, seats: int) -> None:
    watched = Watched(python(bomb(tmp_path, seats)))
    watched.until(b"full")
    watched.crew.stop(signal.SIGTERM, 0.1)
    watched.to_the_end()
    assert watched.exits == {0: (-9, True)}


HOPPER = """
import os, signal, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b'ready')
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
        os.setsid()
    os._exit(0)
signal.pause()
"""
"""A worker with a child that goes on as its own child, again and again."""


def test_a_process_that_goes_on_as_its_own_child_is_ended_at_once() -> None:
    watched = Watched(python(HOPPER))
    watched.until(b"ready")
    began = time.monotonic()
    watched.crew.stop(signal.SIGTERM, 0.1)
    watched.to_the_end()
    assert time.monotonic() - began < descendants.PATIENCE / 2


def test_the_background_may_stay_when_asked_for() -> None:
    watched = Watched(python(DAEMON.format(then="")), manners=Manners(allow_background=True))
    watched.to_the_end()
    assert watched.notes == []
    (daemon,) = processes.children()
    os.kill(daemon, signal.SIGKILL)
    assert os.waitpid(daemon, 0)[1] == signal.SIGKILL


def test_a_shell_and_its_program_are_signalled_together() -> None:
    watched = Watched(shell("echo ready; sleep 60; exit 3"), manners=Manners(group=True))
    watched.until(b"ready")
    watched.crew.stop(signal.SIGTERM, 60.0)
    watched.to_the_end()
    assert watched.exits == {0: (-15, True)}


# -- credit and input ---------------------------------------------------------------------------


def test_output_waits_for_credit_and_memory_stays_bounded() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watched = Watched(python("import os\nfor _ in range(512): os.write(1, b'x' * 65536)"), credit=1)
    got = 0
    while watched.left is None:
        watched.loop.after(0.0, lambda: watched.crew.grant(1 << 20))
        watched.until(b"x")
        got += len(watched.output.pop((0, 1), b""))
    assert got == 512 * 65536
    assert watched.exits == {0: (0, False)}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


def test_input_is_passed_on_and_ended() -> None:
    watched = Watched(shell("cat; echo end", keep_stdin=True), shell("cat", 1))
    data = bytes(range(256)) * 4096
    watched.crew.feed(data)
    watched.crew.feed(b"")
    watched.to_the_end()
    assert watched.output == {(0, 1): data + b"end\n"}
    assert sum(watched.took) == len(data)


def test_input_that_nobody_reads_is_dropped() -> None:
    watched = Watched(shell("exec <&-; echo ready; sleep 0.2", keep_stdin=True))
    watched.until(b"ready")
    watched.crew.feed(b"x" * 300000)
    watched.to_the_end()
    assert sum(watched.took) == 300000
