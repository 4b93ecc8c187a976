"""What workers print arrives: whole, in order, in bounded memory, whatever reads it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.poll import WRITE, ready
from dsrun.launcher.resources.ranges import parse_ranks

from ..support.limits import HANG, wait_for
from ..support.needs import need
from .command import COMMAND
from .jobs import AT_ONCE, BY_NAME, options
from .scripts import (
    LOCAL,
    TRACEBACK,
    has_stopped_writing,
    hostfile,
    lines_by_rank,
    log_file,
    node_launchers,
    open_pipe,
    peak_memory,
    script,
    workers,
)

if TYPE_CHECKING:
    from io import FileIO

    from .command import Dsrun
    from .hosts import Cluster

MIB = 1 << 20
MOST_MEMORY = 200 * MIB

MUCH = """
    import hashlib
    line = b"%d " % rank + b"x" * 97 + b"\\n"
    block, count = line * 10_000, int(sys.argv[1])
    if rank == 2:
        for _ in range(200):
            os.write(1, b"t" * 8191 + b"\\n")
        open("ticked", "w").close()
        wait_for_file("go")
    else:
        digest = hashlib.sha256()
        for number in range(20 * count):
            if number >= count and os.path.exists("ticked"):
                break
            part = b"%d\\n" % number + block
            sys.stdout.buffer.write(part)
            digest.update(part)
        else:
            sys.exit("rank 2 starves")
        sys.stdout.flush()
        open(f"sum{rank}.new", "w").write(digest.hexdigest())
        os.rename(f"sum{rank}.new", f"sum{rank}")
        wait_for_file("go")
"""
"""Ranks 0 and 1 go on until rank 2, too, has written more than lies in pipes."""

FOREVER = """
    print("begun", file=sys.stderr, flush=True)
    while True:
        sys.stdout.write("x" * 99 + "\\n")
"""


@pytest.fixture(params=["local", "ssh", "pdsh", *BY_NAME])
def two_ranks(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> tuple[str, ...]:
    """Options for two workers: both at the login, or each on a host of its own."""
    if request.param == "local":
        return (*LOCAL, "--num_gpus", "2")
    need(*({"pdsh"} & {request.param}))
    return (*options(request.param), *hostfile(cluster, tmp_path, 1, 1))


def is_full(pipe: int) -> bool:
    """Whether a write would wait: pages count, and small writes leave some of them half empty."""
    return not ready([pipe], 0, WRITE)


@pytest.mark.parametrize(
    ("where", "megabytes"), [("local", 200), ("ssh", 20), *((name, 20) for name in BY_NAME)]
)
def test_megabytes_are_exact_and_cost_no_memory(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, where: str, megabytes: int
) -> None:
    hosts = (*LOCAL, "--num_gpus", "3")
    if where != "local":
        hosts = (*options(where), *hostfile(cluster, tmp_path, 3))
    work = script(tmp_path, MUCH)
    with Path(os.devnull).open("wb") as nowhere:
        running = dsrun.start(
            *hosts, "--no_local_rank", "--log_dir", "logs", work, str(megabytes), stdout=nowhere
        )
        sums = [tmp_path / f"sum{rank}" for rank in (0, 1)]
        wait_for(lambda: all(s.exists() for s in sums), "all output to be written")
        wait_for(
            lambda: all(
                log_file(tmp_path / "logs", r).stat().st_size > megabytes * 1e6 for r in (0, 1)
            ),
            "all output to be logged",
        )
        peaks = [peak_memory(pid) for pid in (running.pid, *node_launchers(cluster))]
        (tmp_path / "go").touch()
        assert running.wait().returncode == 0
    assert len(peaks) >= 3
    assert max(peaks) < MOST_MEMORY
    for rank in (0, 1):
        found = subprocess.run(
            ["sha256sum", log_file(tmp_path / "logs", rank)], capture_output=True, check=True
        )
        assert found.stdout.decode().split()[0] == sums[rank].read_text()
    shutil.rmtree(tmp_path / "logs")


def test_any_bytes_are_logged_as_they_are(
    dsrun: Dsrun, two_ranks: tuple[str, ...], tmp_path: Path
) -> None:
    work = script(
        tmp_path,
        """
        for stream in (1, 2):
            data = bytes(range(256)) + os.urandom(300_000) + b"\\0\\r\\r\\n\\xff\\xc3"
            open(f"wrote-{rank}-{stream}", "wb").write(data)
            while data:
                data = data[os.write(stream, data):]
        """,
    )
    done = dsrun(*two_ranks, "--log_dir", "logs", work)
    assert done.returncode == 0
    assert TRACEBACK not in done.stderr
    for rank in (0, 1):
        for stream, kind in ((1, "out"), (2, "err")):
            logged = log_file(tmp_path / "logs", rank, kind).read_bytes()
            assert logged == (tmp_path / f"wrote-{rank}-{stream}").read_bytes()


def test_a_line_of_10_mb(dsrun: Dsrun, two_ranks: tuple[str, ...], tmp_path: Path) -> None:
    work = script(
        tmp_path,
        """
        if rank == 1:
            sys.stdout.write("a" * 10_000_000 + "z\\nafter\\n")
            sys.stdout.flush()
            wait_for_file("go")
        """,
    )
    shown = tmp_path / "shown"
    with shown.open("wb") as file:
        running = dsrun.start(
            *two_ranks, "--log_dir", "logs", "--prefix", "{rank}| ", work, stdout=file
        )
        wait_for(lambda: b"| after\n" in shown.read_bytes()[-99:], "the line after")
        assert peak_memory(running.pid) < MOST_MEMORY
        (tmp_path / "go").touch()
        assert running.wait().returncode == 0
    first, *more, last = shown.read_text().splitlines()
    assert last == "1| after"
    assert all(piece.startswith("1+ ") for piece in more)
    content = first.removeprefix("1| ") + "".join(piece.removeprefix("1+ ") for piece in more)
    assert content == "a" * 10_000_000 + "z"
    assert log_file(tmp_path / "logs", 1).read_text() == content + "\nafter\n"


def test_the_last_line_may_lack_its_end(
    dsrun: Dsrun, two_ranks: tuple[str, ...], tmp_path: Path
) -> None:
    work = script(tmp_path, "os.write(1, b'first\\nlast'); os.write(2, b'error')")
    done = dsrun(*two_ranks, "--log_dir", "logs", "--prefix", "{rank}| ", work)
    assert sorted(done.stdout.splitlines()) == ["0| first", "0| last", "1| first", "1| last"]
    assert done.stdout.endswith("\n")
    assert {"0| error", "1| error"} <= set(done.stderr.splitlines())
    assert log_file(tmp_path / "logs", 1).read_bytes() == b"first\nlast"


def test_last_words_are_heard_out(dsrun: Dsrun, two_ranks: tuple[str, ...], tmp_path: Path) -> None:
    work = script(
        tmp_path,
        """
        def last_words(*_):
            for number in range(1000):
                print(f"{number:04d} " + "x" * 95)
            sys.exit(0)

        signal.signal(signal.SIGTERM, last_words)
        print("ready", flush=True)
        while True:
            time.sleep(0.02)
        """,
    )
    shown = tmp_path / "shown"  # a file reads at any time, a busy test may not
    with shown.open("wb") as file:
        running = dsrun.start(*two_ranks, "--prefix", "{rank}| ", work, stdout=file)
        wait_for(lambda: shown.read_text().count("| ready\n") == 2, "both ranks")
        running.process.send_signal(signal.SIGTERM)
        done = running.wait()
    assert done.returncode == 143
    assert "BrokenPipe" not in done.stderr
    for rank in (0, 1):
        numbers = re.findall(rf"^{rank}\| (\d{{4}}) x{{95}}$", shown.read_text(), re.MULTILINE)
        assert numbers == [f"{number:04d}" for number in range(1000)]


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("errors", ["read", "unread"])
def test_a_reader_that_does_not_read(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, ending: int, errors: str
) -> None:
    work = script(tmp_path, FOREVER)
    with open_pipe() as (_read_end, write_end):
        stderr = write_end if errors == "unread" else subprocess.PIPE
        options = (*LOCAL, "--num_gpus", "2", *AT_ONCE, work)
        running = dsrun.start(*options, stdout=write_end, stderr=stderr)
        wait_for(lambda: is_full(write_end), "the pipe to be full")
        pids = workers(cluster, "work.py")
        wait_for(lambda: all(map(has_stopped_writing, pids)), "the workers to wait")
        peaks = [peak_memory(pid) for pid in (running.pid, *node_launchers(cluster))]
        running.process.send_signal(ending)
        assert running.wait().returncode == 128 + ending
    assert len(pids) == 2
    assert max(peaks) < MOST_MEMORY


def test_a_reader_that_does_not_read_on_and_a_worker_that_fails(
    dsrun: Dsrun, tmp_path: Path
) -> None:
    work = script(
        tmp_path,
        """
        if rank == 1:
            wait_for_file("go")
            sys.exit(7)
        while True:
            print("x" * 99)
        """,
    )
    with open_pipe() as (_read_end, write_end):
        running = dsrun.start(*LOCAL, "--num_gpus", "2", *AT_ONCE, work, stdout=write_end)
        wait_for(lambda: is_full(write_end), "the pipe to be full")
        (tmp_path / "go").touch()
        assert running.wait().returncode == 7


def test_a_slow_reader_gets_everything(dsrun: Dsrun, tmp_path: Path) -> None:
    """While the job runs; what is unread for a second after its end is dropped."""
    work = script(tmp_path, "print(('y' * 99 + '\\n') * 20_000, end=''); wait_for_file('go')")
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb", buffering=0) as pipe:
        running = dsrun.start(*LOCAL, "--num_gpus", "1", "--prefix", "", work, stdout=write_end)
        wait_for(lambda: is_full(write_end), "the pipe to be full")
        os.close(write_end)
        got = read(pipe, 2_000_000)
        (tmp_path / "go").touch()
        assert (running.wait().returncode, read(pipe, 1)) == (0, 0)
    assert got == 2_000_000


def read(pipe: FileIO, size: int) -> int:
    """Read so many bytes, fewer if there are no more; returns how many."""
    got = 0
    while got < size and ready([pipe.fileno()], HANG):
        block = pipe.read(65536)
        if not block:
            break
        got += len(block)
    return got


def test_a_reader_that_has_gone(dsrun: Dsrun, tmp_path: Path) -> None:
    work = script(tmp_path, FOREVER)
    read_end, write_end = os.pipe()
    running = dsrun.start(*LOCAL, "--num_gpus", "2", *AT_ONCE, work, stdout=write_end)
    os.close(write_end)
    running.wait_for_output("begun")
    os.close(read_end)
    done = running.wait()
    assert done.returncode == 128 + signal.SIGPIPE
    assert TRACEBACK not in done.stderr


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("full", ["stdout", "both"])
def test_an_output_that_takes_nothing(dsrun: Dsrun, tmp_path: Path, code: int, full: str) -> None:
    work = script(
        tmp_path, f"print(('z' * 99 + '\\n') * 10_000, end='', flush=True); sys.exit({code})"
    )
    with Path("/dev/full").open("wb") as device:
        outputs: dict[str, Any] = {"stdout": device}
        if full == "both":
            outputs["stderr"] = device
        done = dsrun(*LOCAL, "--num_gpus", "1", "--log_dir", "logs", work, **outputs)
    assert done.returncode == (code or 74)
    assert log_file(tmp_path / "logs", 0).stat().st_size == 1_000_000
    assert TRACEBACK not in done.stderr
    if full == "stdout":
        warnings = [line for line in done.stderr.splitlines() if "cannot write to" in line]
        assert warnings == [
            "dsrun: cannot write to standard output (No space left on device);"
            " continuing without it"
        ]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_dsrun_with_closed_descriptors(cluster: Cluster, tmp_path: Path, closed: str) -> None:
    work = script(
        tmp_path,
        """
        if rank == 1:
            wait_for_file("stop")  # it is stopped before
        open(f"fds-{rank}", "w").write(" ".join(sorted(os.listdir("/proc/self/fd"))[:3]))
        print("out", flush=True)
        sys.exit(5)
        """,
    )
    options = [*LOCAL, "--num_gpus", "2", "--log_dir", "logs", "--no_worker_hook", work]
    done = cluster.login.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *options], cwd=tmp_path
    )
    assert done.returncode == 5
    assert TRACEBACK not in done.stderr
    assert (tmp_path / "fds-0").read_text() == "0 1 2"
    assert log_file(tmp_path / "logs", 0).read_text() == "out\n"


def test_a_log_folder_that_is_removed(dsrun: Dsrun, tmp_path: Path) -> None:
    work = script(
        tmp_path,
        """
        print("before", flush=True)
        wait_for_file("go")
        print("after")
        """,
    )
    running = dsrun.start(*LOCAL, "--num_gpus", "2", "--log_dir", "logs", work)
    for rank in (0, 1):
        running.wait_for_output(rf"{rank}\| before")
    shutil.rmtree(tmp_path / "logs")
    (tmp_path / "go").touch()
    done = running.wait()
    assert done.returncode == 0
    assert done.stdout.count("| after\n") == 2
    assert TRACEBACK not in done.stderr


def test_a_log_disk_that_is_full(dsrun: Dsrun, cluster: Cluster, tmp_path: Path) -> None:
    work = script(tmp_path, "print(('w' * 99 + '\\n') * 5_000, end='')")
    with cluster.host("n1").tmpfs("/tmp/small", "128k"):
        done = dsrun(*hostfile(cluster, tmp_path, 1), "--log_dir", "/tmp/small", work)
        (log,) = (cluster.host("n1").root / "tmp/small").glob("*/rank-0000.out")
        size = log.stat().st_size
    (cluster.host("n1").root / "tmp/small").rmdir()
    assert done.returncode == 0
    assert done.stdout.count("\n") == 5_000
    assert done.stderr.count("log ends here") == 1
    assert "n1" in done.stderr
    assert "No space left on device" in done.stderr
    assert 0 < size <= 128 * 1024


@pytest.mark.parametrize("where", ["local", "ssh", "pdsh", *BY_NAME])
def test_lines_are_whole_and_in_order(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, where: str
) -> None:
    work = script(
        tmp_path,
        """
        for number in range(10_000):
            print(f"<{rank}:{number}:" + "-" * (number * 7 % 300) + ">")
        """,
    )
    hosts = (*LOCAL, "--num_gpus", "8")
    if where != "local":
        hosts = (*options(where), *hostfile(cluster, tmp_path, 2, 2, 2, 2))
    shown = tmp_path / "shown"
    with shown.open("wb") as file:
        assert dsrun(*hosts, "--prefix", "{rank}| ", work, stdout=file).returncode == 0
    by_rank = lines_by_rank(shown.read_text())
    assert sorted(by_rank) == [*range(8)]
    for rank, texts in by_rank.items():
        assert texts == [f"<{rank}:{n}:{'-' * (n * 7 % 300)}>" for n in range(10_000)]


@pytest.mark.tier("test")
@pytest.mark.parametrize("where", ["local", "ssh"])
def test_bars_and_long_lines_lose_double_and_delay_nothing(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, where: str
) -> None:
    """What is printed of carriage returns takes no longer than other output: no node is lost."""
    work = script(
        tmp_path,
        """
        for number in range(12):
            os.write(1, b"x\\r" + b"%d" % number + b"A" * 60_000 + b"\\n")
            os.write(1, b"\\r" * 65_000 + b"<%d>\\n" % number)
        """,
    )
    hosts = (*LOCAL, "--num_gpus", "4")
    if where != "local":
        hosts = (*options(where), *hostfile(cluster, tmp_path, 2, 2))
    shown = tmp_path / "shown"
    with shown.open("wb") as file:
        assert dsrun(*hosts, "--prefix", "{rank}| ", work, stdout=file).returncode == 0
    expected = [text for n in range(12) for text in (f"{n}{'A' * 60_000}", f"<{n}>")]
    by_rank = lines_by_rank(shown.read_text())
    for rank in range(4):
        assert [text for text in by_rank[rank] if text != "x"] == expected


@pytest.mark.tier("test")
def test_the_same_line_of_all_ranks_is_printed_once(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path
) -> None:
    work = script(
        tmp_path,
        """
        open(f"up-{rank}", "w").close()
        for other in range(8):
            wait_for_file(f"up-{other}")
        last = 0
        while not os.path.exists("seen"):
            number = int(time.monotonic() * 10)  # the same for all; on a busy machine some are late
            if number > last:
                last = number
                print(f"own {rank}\\nstep {number}", flush=True)
                if rank < 6:
                    print(f"most {number}", file=sys.stderr, flush=True)
            time.sleep(0.01)
        """,
    )
    hosts = hostfile(cluster, tmp_path, 2, 2, 2, 2)
    running = dsrun.start(*hosts, "--fold", "--log_dir", str(tmp_path / "logs"), work)
    running.wait_for_output(r"(?m)^n1-n4:0-7\| step \d+$")
    running.wait_for_output(r"(?m)^n1-n3:0-5\| most \d+$")
    (tmp_path / "seen").touch()
    ended = running.wait()
    assert ended.returncode == 0, ended.stderr
    printed = re.findall(r"^ *(n\S+):(\S+)\| (.*)$", ended.stdout, re.MULTILINE)
    for rank in range(8):
        said = [text for _, ranks, text in printed if rank in parse_ranks("", ranks)]
        logged = log_file(tmp_path / "logs", rank, "out").read_text().splitlines()
        assert said == logged
        assert {*said[::2]} == {f"own {rank}"}
        steps = [int(text.removeprefix("step ")) for text in said[1::2]]
        assert steps == sorted(set(steps))


def test_workers_of_one_node_do_not_starve_each_other(dsrun: Dsrun, tmp_path: Path) -> None:
    work = script(
        tmp_path,
        """
        if rank == 1:
            for number in range(20):
                print(f"tick {number}", file=sys.stderr, flush=True)
                time.sleep(0.01)
        while rank == 0 and not os.path.exists("go"):
            print("x" * 99)
        """,
    )
    with Path(os.devnull).open("wb") as nowhere:
        running = dsrun.start(*LOCAL, "--num_gpus", "2", work, stdout=nowhere)
        running.wait_for_output("tick 19")
        (tmp_path / "go").touch()
        assert running.wait().returncode == 0
