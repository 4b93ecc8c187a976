"""The end of a job: the first failure in words and as JSON, true exit codes, and no noise."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..support.limits import wait_for
from .command import own_lines
from .scripts import LOCAL, TRACEBACK, Terminal, frozen, hostfile, log_file, script
from .test_workers import memory_lasts

if TYPE_CHECKING:
    import subprocess

    from .command import Dsrun
    from .hosts import Cluster

__all__ = ["memory_lasts"]

pytestmark = pytest.mark.usefixtures("memory_lasts")

BOOM = """
    print("pid", os.getpid(), flush=True)
    if rank == 2:
        wait_for_file("go")
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
            file.write('{"message": "as @record does"}')
        raise ValueError("boom")
    time.sleep(6000)
"""
RECORDED = ["  the exception recorded by @record:", "    as @record does"]
REPORT = "report.json"


def report_lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of the report: from the first line of dsrun's own that says how it ended."""
    lines = done.stderr.splitlines()
    starts = [n for n, line in enumerate(lines) if re.match(r"dsrun: (rank|stopped|lost)", line)]
    assert len(starts) == 1, done.stderr
    return lines[starts[0] :]


def read_report(folder: Path) -> dict[str, Any]:
    """What `--report_file` was given."""
    content: dict[str, Any] = json.loads((folder / REPORT).read_text())
    return content


def run_boom(
    dsrun: Dsrun, folder: Path, *hosts: str
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Let rank 2 fail once all four are up; returns how it ended, and the pid of rank 2."""
    running = dsrun.start(
        *hosts, "--log_dir", "logs", "--report_file", REPORT, script(folder, BOOM)
    )
    for rank in range(4):
        running.wait_for_output(rf":{rank}\| pid \d+")
    pid = int(running.wait_for_output(r":2\| pid (\d+)")[1])
    (folder / "go").touch()
    return running.wait(), pid


@pytest.mark.tier("test")
@pytest.mark.parametrize("where", ["local", "ssh", "openssh", "pdsh"])
def test_the_first_failure_is_explained(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, where: str
) -> None:
    hosts = (*LOCAL, "--num_gpus", "4")
    if where != "local":
        hosts = ("--launcher", where, *hostfile(cluster, tmp_path, 2, 2))
    host, local_rank = ("localhost", 2) if where == "local" else ("n2", 0)
    began = time.monotonic()
    done, pid = run_boom(dsrun, tmp_path, *hosts)
    most = time.monotonic() - began

    assert done.returncode == 1
    headline, *details = report_lines(done)
    who = rf"rank 2 \({host}, local rank {local_rank}, pid {pid}\)"
    assert re.fullmatch(
        rf"dsrun: {who} exited with code 1 after \d+\.\d s; 3 other ranks stopped", headline
    )
    assert details[:3] == [*RECORDED, "  the end of its standard error is above"]
    assert re.search(rf"(?m)^{host}:2\| ValueError: boom$", done.stderr)
    log = log_file(tmp_path / "logs", 2, "err")
    assert details[-1] == f"  its log: {host}:{log.with_suffix('')}.err (and .out)"
    # The worker's own, as it came; dsrun has none to show.
    assert done.stderr.count(TRACEBACK) == 1
    assert "launcher/" not in done.stderr

    found = read_report(tmp_path)
    first = found["first_failure"]
    assert found["failures"] == [first]
    assert "ValueError: boom" in first.pop("stderr")
    assert f"pid {pid}" in first.pop("stdout")
    assert 0 <= first.pop("after_seconds") <= found.pop("seconds") <= most
    assert first == {
        "rank": 2,
        "local_rank": local_rank,
        "host": host,
        "pid": pid,
        "code": 1,
        "signal": None,
        "exit_code": 1,
        "hint": "",
        "message": "as @record does",
        "traceback": "",
        "log": str(log),
        "evidence": [],
    }
    job_id = found.pop("job_id")
    assert log.parent.name == job_id
    del found["first_failure"], found["failures"]
    names = [host] if where == "local" else ["n1", "n2"]
    pythons = [{"host": name, "path": sys.executable, "origin": "dsrun"} for name in names]
    assert found == {
        "format": 1,
        "exit_code": 1,
        "world_size": 4,
        "hosts": names,
        "pythons": pythons,
        "cause": "failure",
        "lost": [],
        "stopped": 3,
        "signal": None,
        "left": [],
        "unseen": [],
        "verdict": {"class": "unknown", "retry": "unknown", "sentence": "", "advice": ""},
    }


@pytest.mark.parametrize("number", [9, 7, 11, 6, 15, 10])
def test_death_by_a_signal_in_words(dsrun: Dsrun, tmp_path: Path, number: int) -> None:
    work = script(
        tmp_path,
        f"""
        if rank == 1:
            os.kill(os.getpid(), {number})
        time.sleep(6000)
        """,
    )
    done = dsrun(*LOCAL, "--num_gpus", "2", "--report_file", REPORT, work)
    assert done.returncode == 128 + number
    name = signal.Signals(number).name
    headline, *details = report_lines(done)
    assert f" was killed by {name} (signal {number}) after " in headline
    if number not in {signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV}:
        assert details == ["  it printed nothing"]
        return
    assert details[0] == "  the end of its standard error is above"
    assert "| Fatal Python error: " in done.stderr
    assert details[-1].startswith("  why: ") or number == signal.SIGBUS
    first = read_report(tmp_path)["first_failure"]
    assert (first["code"], first["signal"], first["exit_code"]) == (None, name, 128 + number)


@pytest.mark.parametrize("code", [1, 2, 7, 69, 75, 126, 127, 130, 137, 255])
def test_exit_codes_are_the_first_failures(dsrun: Dsrun, tmp_path: Path, code: int) -> None:
    work = script(tmp_path, f"sys.exit({code}) if rank else time.sleep(6000)")
    done = dsrun(*LOCAL, "--num_gpus", "2", work)
    assert done.returncode == code
    assert f" exited with code {code} after " in report_lines(done)[0]
    assert TRACEBACK not in done.stderr


@pytest.mark.usefixtures("torch_is_here")
def test_what_torchs_record_keeps_of_an_exception_is_reported(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path
) -> None:
    work = script(
        tmp_path,
        """
        from torch.distributed.elastic.multiprocessing.errors import record

        @record
        def main():
            if rank == 1:
                raise ValueError("boom")
            time.sleep(6000)

        main()
        """,
    )
    done = dsrun(*hostfile(cluster, tmp_path, 1, 1), "--report_file", REPORT, work)
    assert done.returncode == 1
    first = read_report(tmp_path)["first_failure"]
    assert (first["rank"], first["message"]) == (1, "ValueError: boom")
    assert first["traceback"].startswith("Traceback (most recent call last):\n")
    assert first["traceback"].endswith("ValueError: boom\n")
    # The worker's own output ends with it.
    assert "recorded" not in done.stderr


def test_a_job_that_ends_well_says_so_in_a_line_if_it_has_several_hosts(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path
) -> None:
    work = script(tmp_path, "pass")
    hosts = hostfile(cluster, tmp_path, 2, 1)
    done = dsrun(*hosts, "--report_file", REPORT, work)
    assert (done.returncode, done.stdout) == (0, "")
    opening, end = own_lines(done.stderr)
    assert re.fullmatch(r"dsrun: done after [\d.]+ s: 3 workers on 2 hosts", end)
    assert opening.startswith("dsrun: 2 nodes from hostfile ")
    assert "/hosts over ssh; job " in opening
    found = read_report(tmp_path)
    assert opening.endswith(f"; job {found['job_id']}")
    assert (found["cause"], found["exit_code"], found["first_failure"]) == ("none", 0, None)
    assert (found["world_size"], found["failures"], found["stopped"]) == (3, [], 0)
    assert dsrun(*hosts, "--quiet", work).stderr == ""
    assert own_lines(dsrun("--num_gpus", "2", "--accelerator", "cpu", work).stderr) == []


def test_cpu_workers_in_place_of_devices_are_told_of(dsrun: Dsrun, tmp_path: Path) -> None:
    done = dsrun("--num_gpus", "2", script(tmp_path, "pass"))
    assert done.returncode == 0
    assert own_lines(done.stderr) == [
        "dsrun: no accelerator found: workers run on the CPU (--accelerator cpu hides this message)"
    ]


@pytest.mark.parametrize("options", [("--quiet",), ("--log_level", "critical"), ()])
def test_the_report_comes_last_and_is_never_quiet(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, options: tuple[str, ...]
) -> None:
    work = script(
        tmp_path,
        """
        def stop(*_):
            print("last words", file=sys.stderr)
            sys.exit(0)

        signal.signal(signal.SIGTERM, stop)
        if rank == 0:
            open("up", "w").close()
            signal.pause()
        wait_for_file("up")
        sys.exit(4)
        """,
    )
    done = dsrun(*hostfile(cluster, tmp_path, 1, 1), *options, work)
    assert done.returncode == 4
    assert report_lines(done) == done.stderr.splitlines()[-2:]
    assert "n1:0| last words\n" in done.stderr


def test_the_last_lines_are_shown(dsrun: Dsrun, tmp_path: Path) -> None:
    work = script(
        tmp_path,
        r"""
        sys.stdout.write("plain\n")
        for number in range(500):
            os.write(2, b"line %d \xff\n" % number)
        sys.exit(3)
        """,
    )
    done = dsrun(*LOCAL, "--num_gpus", "1", "--redirects", "3", "--log_dir", "logs", work)
    details = report_lines(done)[2:-1]
    assert details == [f"    line {number} \ufffd" for number in range(480, 500)]


def test_without_errors_the_output_is_shown(dsrun: Dsrun, tmp_path: Path) -> None:
    done = dsrun(*LOCAL, "--num_gpus", "1", script(tmp_path, "print('no more data'); sys.exit(3)"))
    assert report_lines(done)[1:] == [
        "  the end of its standard output:",
        "    no more data",
    ]


def test_a_report_cannot_harm_a_terminal(dsrun: Dsrun, tmp_path: Path) -> None:
    work = script(
        tmp_path,
        r"os.write(2, b'<\x1b[8m\x1b]52;c;QQ==\x07\x1b[2J\x9b\x07>\rbar\x1b[8m\n'); sys.exit(3)",
    )
    with Terminal() as terminal:
        done = dsrun(
            *LOCAL, "--num_gpus", "1", "--color", "never", work,
            stdout=terminal.slave, stderr=terminal.slave,
        )  # fmt: skip
        shown = terminal.rest()
    assert done.returncode == 3
    before, _, report = shown.partition(b"exited with code 3")
    assert before.rpartition(b"\n")[2].startswith(b"\x1b[0mdsrun: rank 0 ")
    assert b"bar" in report
    assert b"\x1b" not in report
    assert b"\x07" not in report


FLAG = "--no_local_rank"
GIVEN = "if any('local_rank' in word for word in sys.argv): sys.exit"
PARSERS = {
    "argparse": "import argparse; argparse.ArgumentParser().parse_args()",
    "getopt": "import getopt; getopt.getopt(sys.argv[1:], '', ['lr='])",
    "click": f"{GIVEN}('Error: No such option: --local_rank')",
    "fire": f"{GIVEN}('ERROR: Could not consume arg: --local_rank=0')",
    "absl": f"{GIVEN}('FATAL Flags parsing error: Unknown command line flag \\'local_rank\\'')",
}


@pytest.mark.parametrize("parser", PARSERS)
def test_a_script_that_takes_no_local_rank(dsrun: Dsrun, tmp_path: Path, parser: str) -> None:
    work = script(tmp_path, PARSERS[parser])
    done = dsrun(*LOCAL, "--num_gpus", "2", work)
    assert done.returncode != 0
    assert FLAG in report_lines(done)[-1]
    assert dsrun(*LOCAL, "--num_gpus", "2", FLAG, work).returncode == 0


def test_another_mistake_gets_no_such_hint(dsrun: Dsrun, tmp_path: Path) -> None:
    work = script(tmp_path, PARSERS["argparse"])
    done = dsrun(*LOCAL, "--num_gpus", "1", FLAG, work, "--lr", "1")
    assert done.returncode == 2
    assert FLAG not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_job_that_was_stopped_by_a_signal(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, number: signal.Signals
) -> None:
    work = script(tmp_path, "print('up', flush=True); signal.pause()")
    running = dsrun.start(*hostfile(cluster, tmp_path, 2, 1), "--report_file", REPORT, work)
    for rank in range(3):
        running.wait_for_output(rf"{rank}\| up")
    running.process.send_signal(number)
    done = running.wait()
    assert done.returncode == 128 + number
    (headline,) = report_lines(done)
    assert re.fullmatch(
        rf"dsrun: stopped by {number.name} after \d+\.\d s: 3 ranks told to stop", headline
    )
    found = read_report(tmp_path)
    assert (found["cause"], found["signal"], found["exit_code"]) == ("signal", number, 128 + number)
    assert (found["stopped"], found["first_failure"]) == (3, None)


def test_of_several_failures_the_earliest_is_the_cause(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path
) -> None:
    """The earliest one's message is held up: the ssh client of its node is frozen."""
    work = script(
        tmp_path,
        """
        def stop(*_):
            open("told", "w").close()
            sys.exit(0)

        signal.signal(signal.SIGTERM, stop)
        print("up", flush=True)
        if rank == 2:
            signal.pause()
        wait_for_file("go")
        if rank == 1:
            wait_for_file("failed")
            time.sleep(2)  # clocks are compared by messages, which take their time
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(11)
        """,
    )
    running = dsrun.start(
        "--launcher", "openssh", *hostfile(cluster, tmp_path, 1, 1, 1), "--report_file", REPORT,
        work,
    )  # fmt: skip
    for rank in range(3):
        running.wait_for_output(rf"{rank}\| up")
    (client,) = [
        p
        for p in cluster.processes()
        if p.host == "login" and p.argv[0] == "ssh" and "n1" in p.argv
    ]
    with frozen(client.pid):
        (tmp_path / "go").touch()
        wait_for(
            lambda: not [p for p in cluster.processes() if p.host == "n1" and work in p.argv],
            "rank 0 to be gone",
        )
        (tmp_path / "failed").touch()
        wait_for((tmp_path / "told").exists, "rank 2 to be stopped")
    done = running.wait()
    assert done.returncode == 11
    assert re.match(
        r"dsrun: rank 0 \(n1, local rank 0, pid \d+\) exited with code 11 after .*;"
        r" 1 other rank failed later, 1 other rank stopped$",
        report_lines(done)[0],
    )
    found = read_report(tmp_path)
    assert [failure["rank"] for failure in found["failures"]] == [0, 1]
    assert found["failures"][1]["signal"] == "SIGKILL"


def test_what_cannot_be_executed(dsrun: Dsrun, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    done = dsrun(*LOCAL, "--num_gpus", "2", "--no_python", str(program))
    assert done.returncode == 126
    assert "not started" in report_lines(done)[0]
    assert str(program) in report_lines(done)[0]
    assert TRACEBACK not in done.stderr


def test_a_node_that_cannot_be_used_is_in_the_report_file(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path
) -> None:
    done = dsrun(*hostfile(cluster, tmp_path, 1, 1), "--report_file", REPORT, "none.py")
    assert done.returncode == 2
    reason = f"n1, n2: no such script: {tmp_path}/none.py"
    assert [line for line in done.stderr.splitlines() if "script" in line] == [f"dsrun: {reason}"]
    found = read_report(tmp_path)
    assert found["exit_code"] == 2
    assert reason in found["error"]


@pytest.mark.parametrize("path", ["no/such/report.json", ".", "/dev/null/x"])
def test_a_report_file_that_cannot_be_is_refused(dsrun: Dsrun, tmp_path: Path, path: str) -> None:
    work = script(tmp_path, "open('ran', 'w').close()")
    done = dsrun(*LOCAL, "--num_gpus", "1", "--report_file", path, work)
    assert done.returncode == 2
    assert done.stderr.startswith(f"dsrun: --report_file {path}: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "ran").exists()


def test_a_report_file_whose_folder_goes_away(dsrun: Dsrun, tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    work = script(tmp_path, "os.rmdir('reports'); sys.exit(5)")
    done = dsrun(*LOCAL, "--num_gpus", "1", "--report_file", "reports/r.json", work)
    assert done.returncode == 5
    assert TRACEBACK not in done.stderr
    assert "reports/r.json" in done.stderr
