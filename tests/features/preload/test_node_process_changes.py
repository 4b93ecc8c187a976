"""What an import has changed of its process is undone in each fork."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.workers.spawn import WorkerSpec

from ...support.checkout import IMPORTABLE
from ...support.preloading import COMMON, cold, preloader
from ...support.specs import PYTHON

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("adopting")

CHANGES = {
    "CPUs": "os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])",
    "limits": """
        for number in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_STACK):
            soft, hard = resource.getrlimit(number)
            resource.setrlimit(number, (1 << 19 if soft == -1 else max(soft // 2, 0), hard))
        """,
    "a handler": "signal.signal(signal.SIGUSR1, print); signal.signal(signal.SIGINT, print)",
    "ignored signals": "signal.signal(signal.SIGHUP, signal.SIG_IGN)",
    "default signals": "signal.signal(signal.SIGPIPE, signal.SIG_DFL)",
    "a handler in C": "faulthandler.register(signal.SIGUSR2)",
    "faulthandler": "faulthandler.enable()",
    "blocked signals": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, 40])",
    "a wake-up descriptor": "signal.set_wakeup_fd(os.open(os.devnull, 1 | os.O_NONBLOCK))",
    "umask": "os.umask(0o7)",
    "folder": "os.chdir('/')",
    "policy": "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
    "idle": "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))",
    "variables": "os.environ['LANG'] = 'x'; os.environ.pop('PATH'); os.environ['MORE'] = '1'",
    "variables of C": "os.putenv('MORE', '1'); os.unsetenv('LANG')",
    "time zone": "os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()",
    "locale": "locale.setlocale(locale.LC_ALL, 'C')",
    "dumpable": "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)",
    "OOM score": "open('/proc/self/oom_score_adj', 'w').write('500')",
    "core dumps": "open('/proc/self/coredump_filter', 'w').write('0x1')",
}
IMPORTS = "import ctypes, faulthandler, locale, os, resource, signal, subprocess, time\n"

TELLS = IMPORTS + dedent("""
    def signals():
        names = {"SigBlk", "SigIgn", "SigCgt", "SigPnd"}
        rows = (line.split() for line in open("/proc/self/status"))
        return [row for row in rows if row[0].rstrip(":") in names]

    def shown(name):
        return open(f"/proc/self/{name}", "rb").read()

    print(sorted(os.sched_getaffinity(0)), os.umask(0o22), os.getcwd())
    print([resource.getrlimit(one) for one in range(16)])
    print(signals(), [signal.getsignal(one) for one in signal.valid_signals()])
    print(faulthandler.is_enabled(), signal.set_wakeup_fd(-1))
    print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))
    print(sorted(os.environ.items()), subprocess.check_output(["/usr/bin/env", "-0"]))
    print(time.tzname, locale.setlocale(locale.LC_ALL))
    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), shown("oom_score_adj"), shown("coredump_filter"))
""")


def module(folder: Path, change: str) -> None:
    """Write a module that makes a change when it is imported, and a script that tells of it."""
    (folder / "changes.py").write_text(IMPORTS + dedent(change))
    (folder / "train.py").write_text(TELLS)


def worker(folder: Path) -> WorkerSpec:
    env = {os.fsencode(name): os.fsencode(value) for name, value in COMMON.items()}
    return WorkerSpec(0, [PYTHON, b"-u", b"train.py"], env, os.fsencode(folder))


@pytest.mark.parametrize(
    "change",
    [*CHANGES.values(), "\n".join(map(dedent, CHANGES.values()))],
    ids=[*CHANGES, "everything"],
)
def test_a_fork_is_like_a_process_that_has_not_imported(tmp_path: Path, change: str) -> None:
    module(tmp_path, change)
    with preloader(["changes"], tmp_path, tmp_path) as process:
        assert (process.report["failed"], process.report["unsafe"]) == ({}, "")
        forked = process.run(worker(tmp_path))
    ended = cold(worker(tmp_path)).ends()
    assert forked.out.splitlines() == ended.out.splitlines()
    assert forked == ended
    assert ended.status == 0


def test_the_second_fork_is_like_the_first(tmp_path: Path) -> None:
    module(tmp_path, "os.umask(0o7)\nos.register_at_fork(after_in_child=lambda: os.umask(0o77))")
    with preloader(["changes"], tmp_path, tmp_path) as process:
        first, second = process.run(worker(tmp_path)), process.run(worker(tmp_path))
    assert first == second == cold(worker(tmp_path)).ends()


def test_libraries_rely_on_the_cpus_from_before_the_import(tmp_path: Path) -> None:
    cpus = os.sched_getaffinity(0)
    module(tmp_path, f"os.sched_setaffinity(0, [{max(cpus)}])")
    with preloader(["changes"], tmp_path, tmp_path) as process:
        assert process.report["cpus"] in {None, *()} or {*process.report["cpus"]} == cpus


UNPRIVILEGED = """
import os
from dsrun.launcher.features.preload.node_process_changes import ProcessSurroundings
before = ProcessSurroundings()
os.setgid(65534)
os.setuid(65534)
{change}
print(before.restore())
"""


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ("os.nice(5)", "its priority"),
        ("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (99, 99))", "its limits"),
        ("os.umask(0)", ""),
    ],
)
def test_what_the_kernel_does_not_let_undo_is_named(change: str, part: str) -> None:
    if os.getuid():
        pytest.skip("needs root, to become somebody else")
    ran = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED.format(change=change)],
        env={**os.environ, **IMPORTABLE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"{part} cannot be restored: " if part else "\n")
