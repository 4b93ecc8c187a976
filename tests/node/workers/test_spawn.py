"""One worker: how it starts, why it does not, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.workers.spawn import Process, SpawnFailed, WorkerSpec, spawn

from ...support.checkout import IMPORTABLE
from ...support.leaks import open_files
from ...support.limits import HANG
from ...support.specs import ENV, PYTHON, python, shell


def finished(process: Process) -> tuple[int, bytes, bytes]:
    """Wait for a spawned process; return its exit status as a shell shows it, and its output."""
    os.close(process.stdin)
    texts = []
    for fd in (process.stdout, process.stderr):
        os.set_blocking(fd, True)
        with os.fdopen(fd, "rb") as pipe:
            texts.append(pipe.read())
    _, status = os.waitpid(process.pid, 0)
    return os.waitstatus_to_exitcode(status), texts[0], texts[1]


def test_streams_arguments_and_environment_are_the_workers_own(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "\udcff")
    Path(os.fsdecode(folder)).mkdir()
    show = (
        "import os,sys;"
        "print([os.fsencode(a) for a in sys.argv[1:]], dict(os.environb), os.getcwdb());"
        "print('err', file=sys.stderr); print(repr(sys.stdin.read()))"
    )
    argv = [PYTHON, b"-I", b"-S", b"-c", show.encode(), b"", b"a b", b"\xfe\n'"]
    code, out, err = finished(spawn(WorkerSpec(0, argv, {b"X": b"\xfd", b"LC_ALL": b"C"}, folder)))
    assert (code, err) == (0, b"err\n")
    assert out.decode() == f"{argv[5:]} {{b'X': b'\\xfd', b'LC_ALL': b'C'}} {folder!r}\n''\n"


def test_a_worker_leads_a_session_and_starts_as_after_a_login() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = spawn(
            python(
                """
                import os, signal
                print(os.getsid(0) == os.getpgid(0) == os.getpid())
                print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
                print(signal.getsignal(signal.SIGHUP) == signal.SIG_DFL)
                """
            )
        )
        _, out, err = finished(process)
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    assert (out, err) == (b"True\nset()\nTrue\n", b"")


def test_a_worker_inherits_nothing_but_its_streams() -> None:
    """The launcher's own descriptors are not inherited, above all those of other workers."""
    show = shell("readlink /proc/self/fd/*; :")
    first, second = spawn(shell("cat", keep_stdin=True)), spawn(show)
    ours = {
        str(Path(f"/proc/self/fd/{fd}").readlink())
        for fd in (first.stdin, first.stdout, first.stderr)
    }
    found = set(finished(second)[1].decode().split())
    assert os.devnull in found
    assert not found & ours
    assert finished(first)[0] == 0


def test_a_worker_stays_on_its_cpus() -> None:
    cpu = max(os.sched_getaffinity(0))
    show = python("import os; print(os.sched_getaffinity(0))", cpus=(cpu,))
    assert finished(spawn(show))[1].decode() == f"{{{cpu}}}\n"


def test_what_comes_before_it_binds_it() -> None:
    """The command is given its own CPUs by that, and might refuse others."""
    cpu = min(os.sched_getaffinity(0))
    show = python("import os, sys; print(sys.argv, len(os.sched_getaffinity(0)))", cpus=(cpu,))
    spec = show._replace(prefix=(b"/usr/bin/env", b"-u", b"A"), argv=[*show.argv, b"x"])
    code, out, _ = finished(spawn(spec))
    assert (code, out) == (0, b"['-c', 'x'] %d\n" % len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(("path", "seen"), [(b"", "/hook"), (b"/a:/b", "/hook:/a:/b")])
def test_what_it_runs_first_comes_first_on_its_path(path: bytes, seen: str) -> None:
    spec = shell('echo "$PYTHONPATH"', hook=b"/hook")
    env = {**spec.env, **({b"PYTHONPATH": path} if path else {})}
    assert finished(spawn(spec._replace(env=env)))[1].decode() == f"{seen}\n"


def test_a_worker_may_keep_its_standard_input() -> None:
    process = spawn(shell("cat", keep_stdin=True))
    os.write(process.stdin, b"word\n")
    assert finished(process) == (0, b"word\n", b"")


def test_what_is_no_program_names_the_right_that_is_missing() -> None:
    with pytest.raises(SpawnFailed, match=r"^/etc/passwd: Permission denied: user .* may not exec"):
        spawn(WorkerSpec(0, [b"/etc/passwd"], ENV, b"/"))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (WorkerSpec(0, [b"/no/such"], ENV, b"/"), "/no/such: No such file or directory"),
        (WorkerSpec(0, [b"true"], ENV, b"/no/such"), "/no/such: No such file or directory"),
        (WorkerSpec(0, [b"true"], ENV, b"/", (4095,)), "true: Invalid argument"),
        (
            WorkerSpec(0, [b"true", b"x" * (1 << 18)], ENV, b"/"),
            "true: the arguments and environment are too long; largest: argument 1, 262144 bytes",
        ),
        (
            WorkerSpec(0, [b"true"], {**ENV, b"BIG": b"x" * (1 << 18)}, b"/"),
            "true: the arguments and environment are too long; largest: BIG, 262144 bytes",
        ),
    ],
)
def test_what_cannot_be_started_says_why_and_leaves_nothing(spec: WorkerSpec, reason: str) -> None:
    before = open_files()
    with pytest.raises(SpawnFailed) as caught:
        spawn(spec)
    assert str(caught.value) == reason
    assert open_files() == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_worker_dies_with_the_process_that_started_it() -> None:
    """The parent-death signal works even if no process is left to clean up."""
    text = f"""
import sys
sys.path.insert(0, {IMPORTABLE["PYTHONPATH"]!r})
from dsrun.launcher.node.workers.spawn import WorkerSpec, spawn
print(spawn(WorkerSpec(0, [b"sleep", b"600"], {ENV!r}, b"/")).pid, flush=True)
import signal; signal.pause()
"""
    parent = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        worker = int(parent.stdout.readline())
    loop, fd = Loop(), os.pidfd_open(worker)
    loop.add_reader(fd, loop.stop)
    late = loop.call_later(HANG, lambda: pytest.fail("it lives on"))
    parent.kill()
    parent.wait()
    loop.run()
    late.cancel()
    os.close(fd)
    assert processes.started(worker) == 0 or processes.stat(worker)[0] == "Z"


def test_what_is_read_and_written_of_a_worker_never_waits() -> None:
    process = spawn(python("import sys; sys.stdin.read()", keep_stdin=True))
    assert (process.status, process.signalled) == (None, False)
    fds = (process.stdin, process.stdout, process.stderr)
    assert [os.get_blocking(fd) for fd in fds] == [False] * 3
    assert finished(process) == (0, b"", b"")
