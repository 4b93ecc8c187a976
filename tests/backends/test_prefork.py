"""The node launcher as a fork of the runner: what it sees, and that it always ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from dsrun.launcher.common.poll import ready

from ..support.checkout import BIN, IMPORTABLE
from ..support.limits import HANG

SHOWS = """
import json, os, resource, sys
def lines(name):
    return open(f"/proc/self/{name}").read().splitlines()
status = dict(line.split(":", 1) for line in lines("status"))
limits = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
fds = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
       if os.path.exists(f"/proc/self/fd/{fd}")}
sets = ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd")
print(json.dumps({
    "argv": sys.argv,
    "path": sys.path,
    "environ": dict(os.environ),
    "fds": {fd: to.partition(":")[0] for fd, to in fds.items()},
    "kinds": [os.fstat(fd).st_mode & 0o170000 for fd in (0, 1, 2)],
    "signals": [int(status[name], 16) & ~(3 << 31) for name in sets],
    "status": [status[name] for name in ("Threads", "NoNewPrivs", "Umask")],
    "limits": {name: resource.getrlimit(number) for name, number in limits.items()},
    "own session": os.getsid(0) == os.getpid() == os.getpgrp(),
    "cwd": os.getcwd(),
    "oom": [lines("oom_score_adj"), os.nice(0)],
    "name": lines("comm"),
    "command": open("/proc/self/cmdline").read().rstrip(chr(0)).split(chr(0)),
}), flush=True)
os._exit(0)
"""
"""Shows all that a process is started with, but signals 32 and 33, which are the C library's own:
glibc 2.36 has them ignored in what posix_spawn starts."""

STARTS = """
import json, os, resource, signal, sys
from dsrun.launcher.backends import child, prefork
os.umask(0o027)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, lambda *_: None)
signal.signal(signal.SIGWINCH, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2})
os.dup2(os.open("/dev/zero", os.O_RDONLY), 77)
os.open("/dev/full", os.O_WRONLY)
os.environ["LATE"] = "yes"
sys.stdout.write("once")
argv = [sys.executable, "-E", "-S", "-c", *sys.argv[2:]]
forks = sys.argv[1] == "fork"
started = prefork.fork(argv) if forks else child.spawn(argv, os.environ)
os.close(started.stdin)
shown, errors = (open(fd).read() for fd in started[2:])
code = os.waitstatus_to_exitcode(os.waitpid(started.pid, 0)[1])
print(json.dumps([shown, errors, code]))
"""
"""Starts it from a process that has changed much of its state."""


def started(way: str, program: str, *words: str) -> Any:
    """What a program has printed, on either stream, and its exit code, started this way."""
    ran = subprocess.run(
        [sys.executable, "-c", STARTS, way, program, *words],
        env={**os.environ, **IMPORTABLE},
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG,
    )
    assert ran.stdout.startswith("once[")
    return json.loads(ran.stdout.removeprefix("once"))


def shown(way: str) -> dict[str, Any]:
    printed, errors, code = started(way, SHOWS, "a", "b c")
    assert (errors, code) == ("", 0)
    found: dict[str, Any] = json.loads(printed)
    # `python -c` has the folder it runs in among its modules' until the node command drops it.
    found["path"] = [folder for folder in found["path"] if folder and ".zip" not in folder]
    return found


def test_a_fork_sees_what_a_spawned_program_sees() -> None:
    fork, spawned = shown("fork"), shown("spawn")
    # As much of the command as fits in the space of the runner's own.
    whole = "\0".join(spawned.pop("command"))
    part = "\0".join(fork.pop("command"))
    assert whole.startswith(part)
    assert part.startswith(f"{sys.executable}\0-E\0-S\0-c\0")
    assert fork == spawned
    assert fork["own session"]
    assert fork["argv"] == ["-c", "a", "b c"]
    assert fork["environ"]["LATE"] == "yes"
    assert fork["fds"]["77"] == "/dev/zero"
    assert "/dev/full" not in fork["fds"].values()


def test_a_fork_that_ends_by_an_error_says_it_and_does_not_go_on_as_the_runner() -> None:
    printed, errors, code = started("fork", "raise KeyError('of its own')")
    assert printed == ""
    assert "KeyError: 'of its own'" in errors
    assert code == 70


def dsrun(
    folder: Path, *words: str, hook: str = "", **options: Any
) -> tuple[subprocess.CompletedProcess[str], bool]:
    """Run dsrun; returns how that ended, and whether all that it started has ended.

    `hook` is run as it starts.
    """
    (folder / "sitecustomize.py").write_text(textwrap.dedent(hook))
    held, given = os.pipe()
    try:
        ran = subprocess.run(
            [sys.executable, str(BIN / "dsrun"), *words],
            env={**os.environ, "PYTHONPATH": str(folder)},
            cwd=folder,
            pass_fds=[given],
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG,
            **options,
        )
        os.close(given)
        return ran, bool(ready([held], HANG)) and os.read(held, 1) == b""
    finally:
        os.close(held)


COUNTS = """
    import os
    os.register_at_fork(after_in_parent=lambda: os.write(2, b"forked\\n"))
"""


TWO_THREADS = f"""{COUNTS}
    import threading
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


@pytest.mark.parametrize(
    ("words", "code", "forks"),
    [
        (["--num_gpus", "1", "--no_python", "true"], 0, 1),
        (["--python", "./python", "--num_gpus", "1", "--no_python", "true"], 0, 0),
        (["--help"], 0, 0),
        (["--version"], 0, 0),
        (["--no_such_option"], 2, 0),
        (["--num_gpus", "x", "train.py"], 2, 0),
        (["--dry_run", "--no_python", "true"], 0, 0),
        (["--launcher", "local", "--host", "w0", "train.py"], 2, 0),
    ],
)
def test_only_what_runs_here_on_the_same_python_is_forked(
    tmp_path: Path, words: list[str], code: int, forks: int
) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    ran, gone = dsrun(tmp_path, *words, hook=COUNTS)
    assert ran.returncode == code, ran.stderr
    assert ran.stderr.count("forked\n") == forks
    assert gone


def test_a_runner_of_two_threads_does_not_fork(tmp_path: Path) -> None:
    ran, gone = dsrun(tmp_path, "--num_gpus", "1", "--no_python", "true", hook=TWO_THREADS)
    assert ran.returncode == 0, ran.stderr
    assert "forked" not in ran.stderr
    assert gone


def test_what_is_refused_once_it_is_forked_leaves_nothing(tmp_path: Path) -> None:
    ran, gone = dsrun(tmp_path, "--num_gpus", "1", "no_such_script.py", hook=COUNTS)
    assert ran.returncode == 2, ran.stderr
    assert ran.stderr.startswith("forked\ndsrun: no such script: ")
    assert gone


@pytest.mark.parametrize("side", ["after_in_parent", "after_in_child"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_all_as_it_forks_leaves_nothing(
    tmp_path: Path, side: str, number: signal.Signals
) -> None:
    # The runner waits for the child's signal, and does not begin to look after it.
    waits = ", after_in_parent=signal.pause" if side == "after_in_child" else ""
    hook = f"""
        import os, signal
        os.register_at_fork({side}=lambda: os.killpg(0, {int(number)}){waits})
    """
    words = ["--num_gpus", "1", "--no_python", "sleep", "1200"]
    ran, gone = dsrun(tmp_path, *words, hook=hook, start_new_session=True)
    assert ran.returncode == -number, ran.stderr
    assert gone


WORKER = """
import json, os, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "environ": dict(os.environ),
    "flags": list(sys.flags),
    "path": sys.path,
    "fds": {fd: os.readlink(f"/proc/self/fd/{fd}").partition(":")[0]
            for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")},
    "signals": [int(status[name], 16) & ~(3 << 31) for name in ("SigBlk", "SigIgn", "SigCgt")],
    "umask": status["Umask"],
    "sessions": [os.getsid(0) == os.getpid(), os.getsid(os.getppid()) == os.getppid()],
    "cwd": os.getcwd(),
    "oom": open("/proc/self/oom_score_adj").read(),
    "above": open(f"/proc/{os.getppid()}/comm").read(),
}))
"""

OF_THE_JOB = {"MASTER_PORT", "DSRUN_JOB_ID", "DSRUN_NODE_LAUNCHER", "TORCHELASTIC_ERROR_FILE"}
OF_THE_JOB |= {"TORCHELASTIC_RUN_ID", "GROUP_RUN_ID"}


def test_a_worker_sees_no_difference(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    words = ["--num_gpus", "1", "--quiet", "--prefix=", "worker.py"]
    seen = []
    for hook in (COUNTS, TWO_THREADS):
        ran, _ = dsrun(tmp_path, *words, hook=hook)
        assert ran.returncode == 0, ran.stderr
        one = json.loads(ran.stdout)
        assert one["environ"].keys() >= {"RANK", "MASTER_PORT", "DSRUN_NODE_LAUNCHER"}
        one["environ"] = {k: v for k, v in one["environ"].items() if k not in OF_THE_JOB}
        seen.append(one)
    assert seen[0] == seen[1]
