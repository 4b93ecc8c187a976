"""Commands on a node, through the session of its control line: real processes, a played runner."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import LOST
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.command_messages import ExecCommand
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.session.commands import GRACE, MOST
from dsrun.launcher.node.session.session import START_TIMEOUT

from ...support.fake_runner import prepared, running, stopped
from ...support.leaks import open_files

if TYPE_CHECKING:
    from ...support.fake_runner import FakeRunner, Steps

pytestmark = pytest.mark.usefixtures("adopting")

STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'term\\n'))
os.write(1, b'ready\\n')
while True: time.sleep(600)
"""


def runs(r: FakeRunner, *argv: str, number: int = 1, **more: Any) -> None:
    """Have the runner start a command."""
    usual: dict[str, Any] = {
        "id": number,
        "argv": argv,
        "env": {},
        "workdir": "/",
        "stdin": False,
        "seconds": 0.0,
        "credit": 1 << 20,
        "lease": 1e6,
    }
    r.says(frames.EXEC, ExecCommand(**usual | more))


def python(text: str) -> tuple[str, ...]:
    return (sys.executable, "-ISc", text)


def printed(r: FakeRunner, number: int = 1, stream: int = 1) -> bytes:
    """What a command has printed so far."""
    whole = [frames.unpack_exec_output(b) for kind, b in r.received if kind == frames.EXEC_OUTPUT]
    return b"".join(data for one, where, data in whole if (one, where) == (number, stream))


def ends(r: FakeRunner) -> list[tuple[int, int, str]]:
    """(number, code, hint) of all commands that have ended."""
    return [(one["id"], one["code"], one["hint"]) for one in r.all(frames.EXEC_EXIT)]


def took(r: FakeRunner) -> int:
    """How much input commands have taken."""
    return sum(frames.unpack_exec_count(b)[1] for kind, b in r.received if kind == frames.EXEC_TOOK)


def test_a_command_needs_no_job(runner: FakeRunner) -> None:
    text = "echo out; echo err >&2; echo $A; pwd; cat; exit 3"

    def history(r: FakeRunner) -> Steps:
        runs(r, "sh", "-c", text, env={"A": "a b\udcff"}, workdir="/usr")
        yield r.got(frames.EXEC_EXIT)
        assert (printed(r), printed(r, stream=2)) == (b"out\na b\xff\n/usr\n", b"err\n")
        assert ends(r) == [(1, 3, "")]
        r.end()

    assert runner.play(history) == 0


def test_without_a_folder_it_runs_at_home(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def history(r: FakeRunner) -> Steps:
        monkeypatch.setenv("HOME", "/usr/lib")
        runs(r, "pwd", workdir="")
        yield r.got(frames.EXEC_EXIT)
        monkeypatch.setenv("HOME", "/no/such")
        runs(r, "pwd", workdir="", number=2)
        yield r.got(frames.EXEC_EXIT, 2)
        assert (printed(r), printed(r, 2)) == (b"/usr/lib\n", b"/\n")
        r.end()

    runner.play(history)


@pytest.mark.parametrize(
    ("program", "more", "code", "hint"),
    [
        ("no-such-program", {}, 127, "no-such-program: not found on PATH"),
        ("/no/such", {}, 127, "/no/such: No such file or directory"),
        ("/etc/passwd", {}, 126, "/etc/passwd: Permission denied"),
        ("true", {"workdir": "/no/folder"}, 126, "/no/folder: No such file or directory"),
        ("true", {"env": {"A": "x" * 200_000}}, 126, "true: the arguments and environment are too"),
    ],
)
def test_why_it_cannot_be_started(
    runner: FakeRunner, program: str, more: dict[str, Any], code: int, hint: str
) -> None:
    def history(r: FakeRunner) -> Steps:
        runs(r, program, **more)
        yield r.got(frames.EXEC_EXIT)
        ((_, how, why),) = ends(r)
        assert (how, why[: len(hint)]) == (code, hint)
        r.end()

    runner.play(history)


def test_input_is_taken_as_it_is_read(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        runs(r, *python("import sys; print(len(sys.stdin.read()))"), stdin=True)
        for count in range(1, 41):
            r.sends(frames.EXEC_INPUT, b"\0\0\0\1" + b"x" * 10_000)
            yield lambda sent=count: took(r) >= (sent - 6) * 10_000  # type: ignore[misc]
        r.sends(frames.EXEC_INPUT, b"\0\0\0\1")
        yield r.got(frames.EXEC_EXIT)
        assert printed(r) == b"400000\n"
        assert took(r) == 400_000
        r.end()

    runner.play(history)


def test_input_that_nobody_reads_is_taken_all_the_same(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        runs(r, "sh", "-c", "exec <&-; echo closed; sleep 600", stdin=True)
        yield lambda: printed(r) == b"closed\n"
        r.sends(frames.EXEC_INPUT, b"\0\0\0\1" + b"x" * 1000)
        yield lambda: took(r) == 1000
        r.sends(frames.EXEC_STOP, b"\0\0\0\1" + bytes([signal.SIGKILL]))
        yield r.got(frames.EXEC_EXIT)
        r.sends(frames.EXEC_INPUT, b"\0\0\0\1late")
        r.sends(frames.EXEC_STOP, b"\0\0\0\1\2")
        r.sends(frames.EXEC_CREDIT, b"\0\0\0\1" + bytes(8))
        r.end()

    assert runner.play(history) == 0


def test_output_stops_without_credit_and_goes_on_with_it(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        runs(r, *python("print('x' * 999_999)"), credit=100_000)
        yield lambda: len(printed(r)) >= 100_000
        yield r.skip(1000.0)
        had = len(printed(r))
        assert had < 100_000 + 65_536
        assert ends(r) == []
        r.sends(frames.EXEC_CREDIT, b"\0\0\0\1" + (1 << 20).to_bytes(8, "big"))
        yield r.got(frames.EXEC_EXIT)
        assert len(printed(r)) == 1_000_000
        r.end()

    runner.play(history)


def test_it_is_killed_if_a_signal_does_not_end_it(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        runs(r, *python(STUBBORN))
        yield lambda: b"ready" in printed(r)
        r.sends(frames.EXEC_STOP, b"\0\0\0\1" + bytes([signal.SIGTERM]))
        yield lambda: b"term" in printed(r)
        yield r.skip(GRACE / 2)
        assert ends(r) == []
        yield r.skip(GRACE)
        yield r.got(frames.EXEC_EXIT)
        assert ends(r) == [(1, -signal.SIGKILL, "")]
        r.end()

    runner.play(history)


def test_a_limit_ends_it(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        runs(r, "sleep", "600", seconds=500.0)
        yield r.skip(300.0)
        assert ends(r) == []
        yield r.skip(300.0)
        yield r.got(frames.EXEC_EXIT)
        assert ends(r) == [(1, -signal.SIGTERM, "stopped after 500 s")]
        r.end()

    runner.play(history)


def test_commands_and_a_job_do_not_disturb_each_other(runner: FakeRunner) -> None:
    """Neither what a command leaves, nor the end of the job's workers; nor a second job."""
    leaves = "sleep 600 >/dev/null 2>&1 & echo $!"

    def history(r: FakeRunner) -> Steps:
        runs(r, *python(STUBBORN))
        yield lambda: b"ready" in printed(r)
        yield from running(r)
        runs(r, "sh", "-c", leaves, number=2)
        runs(r, "cat", number=3, stdin=True)
        yield r.got(frames.EXEC_EXIT)
        assert not processes.started(int(printed(r, 2)))
        yield from stopped(r)
        yield from running(r)
        r.sends(frames.EXEC_INPUT, b"\0\0\0\3still here\n")
        yield lambda: printed(r, 3) == b"still here\n"
        yield from stopped(r)
        assert (len(ends(r)), r.exits()) == (1, [(0, 3, True), (0, 3, True)])
        r.sends(frames.EXEC_STOP, b"\0\0\0\1" + bytes([signal.SIGKILL]))
        r.sends(frames.EXEC_STOP, b"\0\0\0\3" + bytes([signal.SIGTERM]))
        yield r.got(frames.EXEC_EXIT, 3)
        r.end()

    assert runner.play(history) == 0
    assert runner.notes() == []
    spared = [word.split()[1:] for word in runner.told if word.startswith(b"spare")]
    assert spared == [[b"%d" % runner.guard.pid]] * len(spared)


@pytest.mark.parametrize("how", ["the line ends", "END"])
def test_no_command_outlives_the_control_line(runner: FakeRunner, how: str) -> None:
    pids = list[int]()

    def history(r: FakeRunner) -> Steps:
        runs(r, *python(STUBBORN))
        runs(
            r, *python("import os, time; print(os.getpid(), flush=True); time.sleep(600)"), number=2
        )
        yield lambda: b"ready" in printed(r) and b"\n" in printed(r, 2)
        pids.append(int(printed(r, 2)))
        (r.leaves if how == "the line ends" else r.end)()
        yield lambda: not processes.started(pids[0])
        yield r.skip(GRACE)

    assert runner.play(history) == (LOST if how == "the line ends" else 0)
    assert processes.children() == [] or processes.children() == [runner.guard.pid]
    assert not processes.started(pids[0])


def test_heartbeats_begin_with_a_command_and_a_silent_runner_is_left(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        yield r.skip(START_TIMEOUT - 100.0)
        runs(r, "sleep", "600", lease=160.0)
        yield r.got(frames.BEAT)
        for _ in range(20):
            r.sends(frames.BEAT)
            yield r.skip(10.0)
        assert 15 < r.beats() < 30
        yield r.skip(161.0)
        yield lambda: r.closed

    assert runner.play(history) == LOST
    ((note, number),) = runner.notes()
    assert (note.startswith("no heartbeat from the runner for 1"), number) == (True, 9)


def test_a_job_that_follows_counts_by_its_own_lease(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        runs(r, "true", lease=100.0)
        yield r.got(frames.EXEC_EXIT)
        yield from prepared(r, "exit 0", lease=1000.0)
        yield r.skip(150.0)
        assert not r.closed
        r.end()

    assert runner.play(history) == 0


def test_so_many_at_once_and_no_more(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        for number in range(MOST + 1):
            runs(r, "cat", number=number, stdin=True)
        yield r.got(frames.EXEC_EXIT)
        assert ends(r) == [(MOST, 126, f"{MOST} commands are running already")]
        for number in range(MOST):
            r.sends(frames.EXEC_INPUT, number.to_bytes(4, "big"))
        yield r.got(frames.EXEC_EXIT, MOST + 1)
        r.end()

    assert runner.play(history) == 0


def test_commands_leave_no_descriptor_open(runner: FakeRunner) -> None:
    """Whether they end by themselves, cannot be started, or are stopped."""
    seen = list[int]()

    def history(r: FakeRunner) -> Steps:
        for number in range(1, 4):
            runs(r, "sh", "-c", "cat; echo x", number=3 * number, stdin=True)
            r.sends(frames.EXEC_INPUT, (3 * number).to_bytes(4, "big"))
            runs(r, "/no/such", number=3 * number + 1)
            runs(r, "sleep", "600", number=3 * number + 2, stdin=True)
            r.sends(frames.EXEC_STOP, (3 * number + 2).to_bytes(4, "big") + b"\x0f")
            yield r.got(frames.EXEC_EXIT, 3 * number)
            seen.append(len(open_files()))
        r.end()

    assert runner.play(history) == 0
    assert len(set(seen)) == 1


def test_a_supervisor_that_is_killed_is_reported(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        runs(r, *python("import os, time; print(os.getppid(), flush=True); time.sleep(600)"))
        yield lambda: b"\n" in printed(r)
        os.kill(int(printed(r)), signal.SIGKILL)
        yield r.got(frames.EXEC_EXIT)
        assert ends(r) == [(1, -9, "its parent process was killed")]
        yield lambda: len(processes.children()) == 1
        r.end()

    runner.play(history)


@pytest.mark.parametrize(
    "frame",
    [
        messages.pack(frames.EXEC, ExecCommand(1, ("true",), {}, "", False, 0.0, 1, 1.0)),
        messages.pack(frames.EXEC, ExecCommand(2, (), {}, "", False, 0.0, 1, 1.0)),
        frames.pack_numbered(frames.EXEC_STOP, 1, b"\xff"),
        frames.pack(frames.EXEC_INPUT, b"\0"),
    ],
)
def test_what_makes_no_sense_ends_the_session(runner: FakeRunner, frame: bytes) -> None:
    def history(r: FakeRunner) -> Steps:
        runs(r, "sleep", "600")
        yield lambda: bool(processes.children())
        r._socket.sendall(frame)
        yield lambda: r.closed

    assert runner.play(history) == LOST
