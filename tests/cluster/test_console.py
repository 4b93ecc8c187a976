"""What a person sees: labels, choices of ranks, colours, progress bars; and what workers read."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..support.limits import NEVER
from .command import COMMAND
from .jobs import EVERYWHERE, options
from .scripts import LOCAL, TRACEBACK, Terminal, hostfile, log_file, open_pipe, script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .command import Dsrun
    from .hosts import Cluster

SAY = "print('out', flush=True); print('err', file=sys.stderr)"
BAR = """
    if rank == 0:
        while True:
            sys.stderr.write(f"\\r at {time.monotonic():.3f} ")
            sys.stderr.flush()
            time.sleep(0.01)
    signal.pause()
"""
STEPS = """
    for step in range(200):
        sys.stderr.write(f"\\rstep {step:03d}")
        sys.stderr.flush()
        time.sleep(0.01)
"""


def lines(text: str) -> list[str]:
    """The lines of an output that are the workers', sorted, without what erases a live part."""
    text = re.sub(r"\r?(\x1b\[\d*A)?\x1b\[J", "", text)
    return sorted(line for line in text.splitlines() if not line.startswith("dsrun: "))


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ((), ["n1:0| ", "n1:1| ", "n2:2| "]),
        (("--prefix", ""), ["", "", ""]),
        (("--prefix={rank:03d} {local_rank}@{node_rank}",), ["000 0@0", "001 1@0", "002 0@1"]),
        (("--prefix", "[{host}/{local_rank}] "), ["[n1/0] ", "[n1/1] ", "[n2/0] "]),
        (("--prefix", "{{é}}{rank}|"), ["{é}0|", "{é}1|", "{é}2|"]),
        (("--console_ranks", "2"), ["n2:2| "]),
        (("--console_ranks", "0,1-2"), ["n1:0| ", "n1:1| ", "n2:2| "]),
        (("--local_ranks_filter", "1"), ["n1:1| "]),
        (("--local-ranks-filter", "0", "--console-ranks", "0-1"), ["n1:0| "]),
        (("--color", "never"), ["n1:0| ", "n1:1| ", "n2:2| "]),
    ],
)  # fmt: skip
def test_labels_and_who_is_shown(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, options: Sequence[str], labels: list[str]
) -> None:
    done = dsrun(*hostfile(cluster, tmp_path, 2, 1), *options, script(tmp_path, SAY))
    assert done.returncode == 0
    assert lines(done.stdout) == sorted(f"{label}out" for label in labels)
    assert lines(done.stderr) == sorted(f"{label}err" for label in labels)


@pytest.mark.parametrize(
    ("options", "out", "err"),
    [
        (("--redirects", "3"), "", ""),
        (("-r", "1"), "", "01"),
        (("-r2",), "01", ""),
        (("--redirects", "0:3,1:1"), "", "1"),
        (("--redirects", "3", "--tee", "3"), "01", "01"),
        (("--tee=3",), "01", "01"),
        ((), "01", "01"),
    ],
)
def test_logs_have_all_and_the_console_what_is_left(
    dsrun: Dsrun, tmp_path: Path, options: Sequence[str], out: str, err: str
) -> None:
    done = dsrun(*LOCAL, "--num_gpus", "2", "--log_dir", "logs", *options, script(tmp_path, SAY))
    assert done.returncode == 0
    assert lines(done.stdout) == [f"localhost:{rank}| out" for rank in out]
    assert lines(done.stderr) == [f"localhost:{rank}| err" for rank in err]
    for rank in (0, 1):
        for kind in ("out", "err"):
            assert log_file(tmp_path / "logs", rank, kind).read_text() == f"{kind}\n"


def test_logs_lie_on_the_nodes_and_are_private(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path
) -> None:
    hosts = hostfile(cluster, tmp_path, 1, 1)
    work = script(tmp_path, SAY)
    for flag in ("--log_dir", "--enable_each_rank_log"):
        assert dsrun(*hosts, flag, "/tmp/logs", work).returncode == 0
        for rank, name in enumerate(("n1", "n2")):
            folder = cluster.host(name).root / "tmp/logs"
            for kind in ("out", "err"):
                log = log_file(folder, rank, kind)
                assert log.read_text() == f"{kind}\n"
                assert stat.S_IMODE(log.stat().st_mode) == 0o600
                assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
            assert len(list(folder.glob("*/*"))) == 2
            cluster.host(name).run(["rm", "-r", "/tmp/logs"])


@pytest.mark.parametrize(
    ("when", "term", "env", "coloured"),
    [
        ("always", False, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {}, True),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("never", True, {}, False),
        ("always", True, {"TERM": "dumb"}, True),
    ],
)
def test_colours(
    dsrun: Dsrun, tmp_path: Path, when: str, term: bool, env: dict[str, str], coloured: bool
) -> None:
    work = script(tmp_path, "print('hi')")
    with Terminal() as terminal:
        outputs: dict[str, Any] = terminal.outputs if term else {}
        two = ("--num_gpus", "2", "--no_fold", "--accelerator", "cpu")
        done = dsrun(*LOCAL, *two, "--color", when, work, env=env, **outputs)
        shown = terminal.rest().decode().replace("\r\n", "\n") if term else done.stdout
    assert done.returncode == 0
    if coloured:
        codes = set(re.findall(r"\x1b\[(\d+)mlocalhost:[01]\| \x1b\[0mhi\n", shown))
        assert len(codes) == 2
    else:
        assert lines(shown) == ["localhost:0| hi", "localhost:1| hi"]
        assert "\x1b" not in shown


def test_a_terminal_that_can_do_nothing_is_asked_for_nothing(dsrun: Dsrun, tmp_path: Path) -> None:
    work = script(tmp_path, "print('half', end='', flush=True); wait_for_file('go'); print(' one')")
    with Terminal() as terminal:
        options = (*LOCAL, "--num_gpus", "1", "-q", work)
        running = dsrun.start(*options, env={"TERM": "dumb"}, **terminal.outputs)
        terminal.read_until(b"half")
        (tmp_path / "go").touch()
        assert running.wait().returncode == 0
        assert terminal.rest() == b"localhost:0| half one\r\n"


def test_a_progress_bar_moves_on_a_terminal(dsrun: Dsrun, tmp_path: Path) -> None:
    with Terminal() as terminal:
        running = dsrun.start(
            *LOCAL, "--num_gpus", "2", script(tmp_path, BAR),
            stdout=terminal.slave, stderr=terminal.slave,
        )  # fmt: skip
        for _ in range(10):
            now, shown = time.monotonic(), 0.0
            while shown < now:
                shown = float(terminal.read_next(rb"localhost:0\| \x1b\[0m at ([0-9.]{5,}) "))
        running.process.send_signal(signal.SIGTERM)
        assert running.wait().returncode == 143


def test_a_progress_bar_moves_in_a_pipe(dsrun: Dsrun, tmp_path: Path) -> None:
    """A state is shown a second after the one before; what comes in between is left out."""
    began = looked = time.monotonic()
    running = dsrun.start(*LOCAL, "--num_gpus", "2", script(tmp_path, BAR))
    states: list[float] = []
    while len(states) < 3 or states[-1] < looked:
        again = rf"(?:localhost:0\|  at ([0-9.]+) ?\n){{{len(states) + 1}}}"
        states.append(float(running.wait_for_output(again)[1]))
        looked = looked if len(states) > 3 else time.monotonic()
    assert time.monotonic() - began > len(states) - 1
    running.process.send_signal(signal.SIGTERM)
    assert running.wait().returncode == 143
    assert states == sorted(set(states))


@pytest.mark.parametrize("term", [True, False])
def test_eight_progress_bars_cost_little_and_end_right(
    dsrun: Dsrun, tmp_path: Path, term: bool
) -> None:
    work = script(tmp_path, STEPS)
    options = (*LOCAL, "--num_gpus", "8", work)
    with Terminal() as terminal:
        outputs: dict[str, Any] = terminal.outputs if term else {}
        running = dsrun.start(*options, **outputs)
        began = time.monotonic()
        terminal.read_to_end(running.process)
        seconds = time.monotonic() - began
        done = running.wait()
        shown = terminal.rest().decode() if term else done.stderr
    assert done.returncode == 0
    for rank in range(8):
        states = re.findall(rf"localhost:{rank}\| (?:\x1b\[0m)?step (\d{{3}})", shown)
        assert states[-1] == "199"
        assert states == sorted(states)
        assert len(states) <= (12 if term else 1) * seconds + 3


def test_a_prompt_is_shown_before_its_line_ends(dsrun: Dsrun, tmp_path: Path) -> None:
    work = script(tmp_path, "print('name? ', end='', flush=True); wait_for_file('go'); print('x')")
    running = dsrun.start(*LOCAL, "--num_gpus", "1", work)
    running.wait_for_output(r"localhost:0\| name\? $")
    (tmp_path / "go").touch()
    assert running.wait().stdout == "localhost:0| name? x\n"


@pytest.mark.parametrize("cut", [0, 1, 2, 4])
def test_harmful_escape_sequences_do_not_reach_a_terminal(
    dsrun: Dsrun, tmp_path: Path, cut: int
) -> None:
    work = script(
        tmp_path,
        r"""
        harmful = [
            b"\x1b]52;c;QQ==\x07", b"\x1b]0;title\x1b\\", b"\x1b[2J", b"\x1b[10;10H", b"\x1b[6n",
            b"\x1bP+q\x1b\\", b"\x1bc", b"\x1b[?1049h", b"\xc2\x9b2J",
            b"\x0e\x05\x0b", b"\xe2\x80\xae",
        ]
        cut = int(sys.argv[1])
        for one in harmful:
            os.write(1, b"<" + one[:cut])
            if cut:
                time.sleep(0.15)
            os.write(1, one[cut:] + b">\n")
        os.write(1, b"\x1b[31mred\x1b[0m end\n")
        """,
    )
    with Terminal() as terminal:
        done = dsrun(
            *LOCAL, "--num_gpus", "1", "--no_local_rank", work, str(cut),
            stdout=terminal.slave, stderr=terminal.slave,
        )  # fmt: skip
        shown = terminal.rest()
    assert done.returncode == 0
    assert b"\x1b[31mred\x1b[0m end" in shown
    # What dsrun itself sends to move its live part about.
    left = re.sub(rb"\x1b\[(\d*A|J|[0-9;]*m)", b"", shown)
    assert re.findall(rb"[^\t\r\n -~]", left) == []


def test_each_stream_is_shown_as_what_it_is(dsrun: Dsrun, tmp_path: Path) -> None:
    """One of them a terminal, the other a file: what is in the file is neither drawn nor cut."""
    work = script(
        tmp_path,
        r"""
        os.write(1, b"\x1b]0;t\x07out\n")
        os.write(2, b"wait")
        time.sleep(0.3)
        os.write(2, b"\r\x1b]0;t\x07err\n")
        """,
    )
    for shown, stored, name in (("stdout", "stderr", b"err"), ("stderr", "stdout", b"out")):
        with Terminal() as terminal, (tmp_path / "file").open("w") as file:
            streams: dict[str, Any] = {shown: terminal.slave, stored: file}
            assert dsrun(*LOCAL, "--num_gpus", "1", "-q", work, **streams).returncode == 0
            seen = terminal.rest()
        assert b"\x1b]" not in seen
        assert b"\x1b[J" not in seen
        found = (tmp_path / "file").read_bytes()
        assert found.endswith(b"localhost:0| \x1b]0;t\x07" + name + b"\n")
        assert b"\x1b[J" not in found


def test_escape_sequences_stay_in_logs_and_pipes(dsrun: Dsrun, tmp_path: Path) -> None:
    work = script(tmp_path, r"os.write(1, b'\x1b]52;c;QQ==\x07.\n')")
    done = dsrun(*LOCAL, "--num_gpus", "1", "--log_dir", "logs", work)
    assert log_file(tmp_path / "logs", 0).read_bytes() == b"\x1b]52;c;QQ==\x07.\n"
    assert done.stdout == "localhost:0| \x1b]52;c;QQ==\x07.\n"


def test_a_terminal_is_left_as_it_was(dsrun: Dsrun, tmp_path: Path) -> None:
    work = script(tmp_path, "print('\\rhalf', end='', flush=True); signal.pause()")
    with Terminal() as terminal:
        before = termios.tcgetattr(terminal.slave)
        options = (*LOCAL, "--num_gpus", "2", work)
        running = dsrun.start(*options, stdin=terminal.slave, **terminal.outputs)
        terminal.read_until(b"half")
        running.process.send_signal(signal.SIGINT)
        assert running.wait().returncode == 130
        assert termios.tcgetattr(terminal.slave) == before
        assert terminal.rest().endswith(b"\n")


READ = "print(repr(sys.stdin.read()), flush=True)"


@pytest.mark.parametrize("where", ["local", "ssh"])
@pytest.mark.parametrize(
    ("options", "first"), [((), "''"), (("--stdin=none",), "''"), (("--stdin", "rank0"), "'hi\\n'")]
)
def test_standard_input(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, where: str, options: Sequence[str], first: str
) -> None:
    hosts = (*LOCAL, "--num_gpus", "2") if where == "local" else hostfile(cluster, tmp_path, 1, 1)
    work = script(tmp_path, READ)
    running = dsrun.start(*hosts, "--prefix", "{rank}| ", *options, work, stdin=subprocess.PIPE)
    assert running.process.stdin
    with suppress(BrokenPipeError):  # nobody reads it: the job may be over by now
        running.process.stdin.write(b"hi\n")
        running.process.stdin.close()
    done = running.wait()
    assert done.returncode == 0
    assert lines(done.stdout) == [f"0| {first}", "1| ''"]


@pytest.mark.parametrize("source", ["pipe", "file", "/dev/null", "closed"])
def test_rank_0_reads_from_anything(cluster: Cluster, tmp_path: Path, source: str) -> None:
    data = os.urandom(3_000_000)
    work = script(
        tmp_path,
        "open(f'got-{rank}', 'wb').write(sys.stdin.buffer.read()); time.sleep(0.01)",
    )
    (tmp_path / "data").write_bytes(data)
    feeds = {"pipe": "cat data | exec", "file": "exec < data", "/dev/null": "exec < /dev/null",
             "closed": "exec <&-"}  # fmt: skip
    start = feeds[source] if source == "pipe" else f"{feeds[source]}; exec"
    options = [*LOCAL, "--num_gpus", "2", "--stdin", "rank0", work]
    done = cluster.login.run(["sh", "-c", f'{start} "$@"', "sh", *COMMAND, *options], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "got-0").read_bytes() == (data if source in {"pipe", "file"} else b"")
    assert (tmp_path / "got-1").read_bytes() == b""


def test_input_that_nobody_takes_does_not_keep_the_job(dsrun: Dsrun, tmp_path: Path) -> None:
    work = script(tmp_path, "os.close(0); print('closed', flush=True); wait_for_file('go')")
    with open_pipe() as (read_end, write_end):
        running = dsrun.start(*LOCAL, "--num_gpus", "2", "--stdin", "rank0", work, stdin=read_end)
        running.wait_for_output(r"0\| closed")
        os.write(write_end, b"x" * 10_000)
        (tmp_path / "go").touch()
        done = running.wait()
    assert done.returncode == 0
    assert TRACEBACK not in done.stderr


def test_input_comes_as_it_is_typed(dsrun: Dsrun, tmp_path: Path) -> None:
    work = script(
        tmp_path,
        """
        for line in sys.stdin:
            print("got", line.strip(), flush=True)
            if line == "bye\\n":
                break
        """,
    )
    with open_pipe() as (read_end, write_end):
        running = dsrun.start(*LOCAL, "--num_gpus", "1", "--stdin", "rank0", work, stdin=read_end)
        for word in ("one", "two", "bye"):
            os.write(write_end, f"{word}\n".encode())
            running.wait_for_output(f"got {word}")
        assert running.wait().returncode == 0


@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize("stdin", ["none", "rank0"])
def test_workers_have_three_descriptors_and_no_more(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, where: str, stdin: str
) -> None:
    hosts = (*LOCAL, "--num_gpus", "2")
    if where != "local":
        hosts = (*options(where), *hostfile(cluster, tmp_path, 2, 1))
    work = script(
        tmp_path,
        """
        names = os.listdir("/proc/self/fd")
        kinds = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)]
        here = [fd for fd in names if os.path.exists(f"/proc/self/fd/{fd}") or fd in "012"]
        print(*sorted(here), kinds[0].partition(":")[0].rpartition("/")[2], flush=True)
        os.close(0)
        print("alive", flush=True)
        """,
    )
    with (tmp_path / "stray").open("w") as stray, open_pipe() as (read_end, _):
        done = dsrun(
            *hosts, "--prefix", "{rank}| ", "--stdin", stdin, "--no_worker_hook", work,
            stdin=read_end, pass_fds=(stray.fileno(),),
        )  # fmt: skip
    assert done.returncode == 0
    count = 2 if where == "local" else 3
    first = "pipe" if stdin == "rank0" else "null"
    expected = [f"{rank}| 0 1 2 {'null' if rank else first}" for rank in range(count)]
    assert lines(done.stdout) == sorted([*expected, *(f"{r}| alive" for r in range(count))])


def test_connecting_is_shown_on_a_terminal_and_taken_away(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path
) -> None:
    sshd = int(cluster.path("/run/n2/sshd.pid").read_text())
    with Terminal() as terminal:
        cluster.host("n2").run(["kill", "-STOP", str(sshd)])
        try:
            running = dsrun.start(
                *hostfile(cluster, tmp_path, 1, 1), "--connect_timeout", f"{NEVER:g}",
                script(tmp_path, SAY), stdout=terminal.slave, stderr=terminal.slave,
            )  # fmt: skip
            terminal.read_until(b"1/2 hosts, waiting for n2")
        finally:
            cluster.host("n2").run(["kill", "-CONT", str(sshd)])
        shown = terminal.read_to_end(running.process).decode()
    assert running.wait().returncode == 0
    after = shown.rpartition("waiting for n2")[2]
    assert re.match(r"\x1b?.*\r\x1b\[J", after)
    assert lines(after.rpartition("\x1b[J")[2].replace("\r\n", "\n")) != []
