"""Workers fail in every way they can, and what they have started with them: faults on the node."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.control_groups import removed
from ..support.limits import wait_for
from .command import COMMAND
from .jobs import BY_NAME, DEAF, GRACE, OBEDIENT, Job, everywhere, here_and_there, options, state
from .scripts import node_launchers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .command import Dsrun
    from .hosts import Cluster

pytestmark = pytest.mark.observed

EXIT_3 = "os._exit(3)", 3, "exited with code 3"
KILLED = "os.kill(os.getpid(), 9)", 137, r"was killed by SIGKILL \(signal 9\)"
NO_CORE = "import resource, faulthandler; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"
CRASH = f"{NO_CORE}; faulthandler.enable(); os.kill(os.getpid(), signal.SIG"

CODES = [
    *(0, 1, 2, 3, 42, 64, 69, 70, 75, 124, 125, 126, 127, 128, 129),
    *(130, 137, 143, 192, 254, 255, 256, 257, 300),
]
"""What means something to a shell, to dsrun or to the kernel, and what is beside it."""


@contextmanager
def memory_lock(folders: pytest.TempPathFactory, how: int) -> Iterator[None]:
    """Hold a lock of flock(2) that all processes of a run of pytest share."""
    lock = os.open(folders.getbasetemp().parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, how)
        yield
    finally:
        os.close(lock)


@pytest.fixture
def memory_lasts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test has the out-of-memory killer come: any failure on the machine may be put to it."""
    with memory_lock(tmp_path_factory, fcntl.LOCK_SH):
        yield


@pytest.fixture
def memory_ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """This test may have the out-of-memory killer come."""
    with memory_lock(tmp_path_factory, fcntl.LOCK_EX):
        yield


@everywhere
@pytest.mark.usefixtures("memory_lasts")
@pytest.mark.parametrize(("end", "code", "words"), [EXIT_3, KILLED], ids=["exit", "kill"])
def test_the_first_failure_ends_the_job(
    site: Cluster, tmp_path: Path, launcher: str, end: str, code: int, words: str
) -> None:
    fails = f"wait_to_go(); os.write(2, b'it broke'); {end}"
    worker = f"if rank == 1:\n    {fails}\nelse:\n    {OBEDIENT}"
    with Job(site, tmp_path, worker, launcher=launcher) as job:
        pid = job.said(1, r"is up (\d+)")[1]
        job.go()
        returncode, errors = job.wait()
        job.clean()
    host = "localhost" if launcher == "local" else "n1"
    others = job.size - 1
    assert returncode == code
    assert re.search(
        rf"(?m)^dsrun: rank 1 \({host}, local rank 1, pid {pid}\) {words} after [\d.]+ s;"
        rf" {others} other ranks? stopped\n  the end of its standard error is above$",
        errors,
    )
    assert [job.heard(rank) for rank in range(job.size) if rank != 1] == [["SIGTERM"]] * others


@pytest.mark.parametrize(
    ("end", "code", "words", "last"),
    [
        (f"{CRASH}SEGV)", 139, "was killed by SIGSEGV", "Fatal Python error: Segmentation fault"),
        (f"{CRASH}ABRT)", 134, "was killed by SIGABRT", "Fatal Python error: Aborted"),
        (f"{CRASH}BUS)", 135, "was killed by SIGBUS", "Fatal Python error: Bus error"),
        ("raise ValueError('lr < 0')", 1, "exited with code 1", "ValueError: lr < 0"),
    ],
    ids=["SEGV", "ABRT", "BUS", "exception"],
)
def test_last_words_are_in_the_report(
    cluster: Cluster, tmp_path: Path, end: str, code: int, words: str, last: str
) -> None:
    worker = f"if rank == 2:\n    wait_to_go()\n    {end}\n{OBEDIENT}"
    with Job(cluster, tmp_path, worker) as job:
        job.go()
        returncode, errors = job.wait()
    assert returncode == code
    printed, _, report = errors.rpartition("dsrun: rank 2 (n2, local rank 0, pid")
    assert words in report
    assert f"\n    {last}" in report or (last in printed and "is above" in report)


@contextmanager
def memory_cgroup(size: int) -> Iterator[Path]:
    """A control group with so many bytes of memory and no swap; empty at the end of the block."""
    roots = {"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"}
    for root, limit in roots.items():
        group = Path(root, f"dsrun-test-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / limit).exists():
                (group / limit).write_text(f"{size}")
                yield group
                return
        finally:
            wait_for(partial(removed, group), "an empty cgroup")
    pytest.skip("no control group with a memory limit can be made here")


@everywhere
@pytest.mark.usefixtures("memory_ends")
def test_the_out_of_memory_killer_is_named(site: Cluster, tmp_path: Path, launcher: str) -> None:
    with memory_cgroup(64 << 20) as group:
        eat = (
            f"wait_to_go(); open('{group}/cgroup.procs', 'w').write('0');"
            " print(len(b'x' * (256 << 20)))"
        )
        worker = f"if rank == 1:\n    {eat}\n{OBEDIENT}"
        with Job(site, tmp_path, worker, launcher=launcher) as job:
            job.go()
            returncode, errors = job.wait()
    assert returncode == 137
    assert re.search(
        r"dsrun: rank 1 .* SIGKILL \(signal 9\) \(out of memory\)[\s\S]*"
        r"\n  why: the kernel's OOM killer killed \S+ .*, which used \d+ MiB: its cgroup .* 64 MiB",
        errors,
    )


@pytest.mark.parametrize("launcher", ["ssh", *BY_NAME])
@pytest.mark.parametrize("code", [0, 1, 2, 69, 75, 255])
def test_exit_codes_come_from_afar(dsrun: Dsrun, launcher: str, code: int) -> None:
    shell = ["--no_local_rank", "--no_python", "sh", "-c", f"exit {code}"]
    where = (*options(launcher), "--host", "n1,n2", "--num_gpus", "1")
    assert dsrun(*where, *shell).returncode == code


def test_exit_codes_are_the_low_eight_bits(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "end.py").write_text("import os, sys; os._exit(int(sys.argv[1]))")
    shell = 'for code in $CODES; do "$@" end.py $code 2>/dev/null; echo $code $?; done'
    words = [*COMMAND, "--launcher", "local", "--num_gpus", "1", "--no_local_rank"]
    done = cluster.login.run(
        ["sh", "-c", shell, "sh", *words],
        env={"CODES": " ".join(map(str, CODES))},
        cwd=tmp_path,
        timeout=240,
    )
    assert done.stdout.splitlines() == [f"{code} {code & 255}" for code in CODES]


@everywhere
def test_a_rank_that_is_done_leaves_the_others_alone(
    site: Cluster, tmp_path: Path, launcher: str
) -> None:
    early = "if rank == 1:\n    say('is up')\n    os._exit(0)\n"
    worker = f"{early}hear('SIGUSR1', 'SIGTERM'); wait_to_go()"
    with Job(site, tmp_path, worker, launcher=launcher) as job:
        others = [rank for rank in range(job.size) if rank != 1]
        wait_for(lambda: len(job.pids()) == job.size - 1, "the end of rank 1")
        # What goes round by the runner is behind all that the exit has led to.
        job.running.process.send_signal(signal.SIGUSR1)
        for rank in others:
            job.said(rank, "hears SIGUSR1")
        job.go()
        assert job.wait()[0] == 0, str(job.running)
    assert [job.heard(rank) for rank in others] == [["SIGUSR1"]] * len(others)


@everywhere
def test_of_two_failures_at_once_the_one_named_gives_the_code(
    site: Cluster, tmp_path: Path, launcher: str
) -> None:
    worker = "wait_to_go()\nif rank in (0, 1, 3):\n    os._exit(3 + rank)\nrest()"
    with Job(site, tmp_path, worker, launcher=launcher) as job:
        job.go()
        returncode, errors = job.wait()
    named = re.search(r"dsrun: rank ([013]) .* exited with code ([346]) after", errors)
    assert named
    assert int(named[2]) == returncode == 3 + int(named[1])


@pytest.mark.parametrize("deaf", [False, True])
def test_a_stopped_worker_is_continued_and_ended(
    cluster: Cluster, tmp_path: Path, deaf: bool
) -> None:
    stops = f"if rank == 0:\n    {DEAF if deaf else OBEDIENT}\nif rank == 1:\n    wait_to_go()"
    grace = ("--grace", f"{GRACE}") if deaf else ()
    with Job(cluster, tmp_path, f"{stops}\n    os._exit(3)\n{OBEDIENT}", *grace) as job:
        stopped = of_rank(job, 0, "n1")
        os.kill(stopped, signal.SIGSTOP)
        wait_for(lambda: state(stopped) == "T", "a stopped worker")
        job.go()
        assert job.wait()[0] == 3
        job.clean()
    assert job.heard(0) == ["SIGTERM"]


def of_rank(job: Job, rank: int, host: str) -> int:
    """The pid of a rank, as the real machine counts."""
    environments = {pid: Path(f"/proc/{pid}/environ").read_bytes() for pid in job.pids(host)}
    (found,) = [p for p, text in environments.items() if f"\0RANK={rank}\0".encode() in text]
    return found


LIVES_ON = """
hear("SIGTERM")
say("is up")
while not heard:
    time.sleep(0.005)
while True:
    say("lives", time.monotonic())
    time.sleep(0.02)
"""
"""Does not end when it is told to, and says until when it lives."""


@everywhere
@pytest.mark.parametrize("slots", [4])
def test_deaf_ranks_get_one_grace_for_all(
    site: Cluster, tmp_path: Path, launcher: str, slots: int
) -> None:
    """No rank is killed before the last one was told to stop."""
    worker = f"if rank == 1:\n    wait_to_go()\n    os._exit(3)\n{LIVES_ON}"
    grace = ("--grace", f"{GRACE}")
    with Job(site, tmp_path, worker, *grace, launcher=launcher, slots=slots) as job:
        began = time.monotonic()
        job.go()
        assert job.wait()[0] == 3
        ended = time.monotonic()
        job.clean()
    others = [rank for rank in range(job.size) if rank != 1]
    assert [job.heard(rank) for rank in others] == [["SIGTERM"]] * len(others)
    told = [float(line.split()[2]) for rank in others for line in job.words(rank)[1:2]]
    lived = [float(job.words(rank)[-1].split()[-1]) for rank in others]
    assert max(told) <= min(lived)
    assert ended - began >= GRACE


FORKED = """
def child(deaf=False):
    signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else signal.SIG_DFL)
    with open(f"{folder}/child", "w") as file:
        file.write(str(os.getpid()))
    os.write(ready, b".")
    time.sleep(6000)
    os._exit(0)

def children():
    for _ in range(2):
        os.fork() or child()

def session():
    os.fork() or (os.setsid(), child())

def daemon(deaf=False):
    if os.fork() == 0:
        os.setsid()
        os.fork() or child(deaf)
        os._exit(0)
    os.wait()

def hopper():
    if os.fork() == 0:
        os.write(ready, b".")
        end = time.monotonic() + 240
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
            os.setsid()
        os._exit(0)
    os.wait()

see, ready = os.pipe()
"""
TREES = ("children()", "session()", "daemon()", "daemon(deaf=True)", "hopper()")


@everywhere
@pytest.mark.parametrize("tree", TREES)
def test_what_a_dead_rank_has_started_is_ended(
    site: Cluster, tmp_path: Path, launcher: str, tree: str
) -> None:
    """Rank 1 dies, rank 0 is stopped; both have started something."""
    fails = "    wait_to_go()\n    os._exit(3)"
    worker = (
        f"{FORKED}\nif rank in (0, 1):\n    {tree}\n    os.read(see, 1)\nif rank == 1:\n{fails}"
    )
    with Job(site, tmp_path, f"{worker}\n{OBEDIENT}", launcher=launcher) as job:
        job.go()
        assert job.wait()[0] == 3
        job.clean()


BACKGROUND = f"{FORKED}\nif rank == 1:\n    daemon()\n    os.read(see, 1)\nwait_to_go()"


@everywhere
def test_a_daemon_left_by_a_clean_end_is_stopped_with_a_warning(
    site: Cluster, tmp_path: Path, launcher: str
) -> None:
    with Job(site, tmp_path, BACKGROUND, launcher=launcher) as job:
        job.go()
        returncode, errors = job.wait()
        job.clean()
    assert returncode == 0
    child = (tmp_path / "child").read_text()
    assert re.findall("stopped processes that the job left running: .*python.* (.*)\n", errors) == [
        f"{child})"
    ]


@here_and_there
def test_allow_background_leaves_a_daemon_alone(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    """It keeps its rank's output open, too, and nobody waits for the end of that."""
    with Job(cluster, tmp_path, BACKGROUND, "--allow_background", launcher=launcher) as job:
        job.go()
        returncode, errors = job.wait()
        wait_for(lambda: len(node_launchers(cluster)) == 0, "the end of the node launchers")
        left = job.pids()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert (returncode, len(left)) == (0, 1)
    assert "left running" not in errors


@everywhere
def test_a_child_that_keeps_the_output_open_does_not_delay_the_end(
    site: Cluster, tmp_path: Path, launcher: str
) -> None:
    worker = f"{FORKED}\nif rank == 1:\n    children()\n    os.read(see, 1)\nwait_to_go()"
    with Job(site, tmp_path, worker, launcher=launcher) as job:
        job.go()
        assert job.wait()[0] == 0
        job.clean()
