"""dsrun --on and dsrun-hold together, on this machine: a run on a hold is like any other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.poll import ready
from dsrun.launcher.control import local

from ...support.checkout import BIN, IMPORTABLE
from ...support.limits import HANG, wait_for
from ...support.local_control import NOBODY, needs_root, new_name

if TYPE_CHECKING:
    from collections.abc import Iterator

TELL = """
import json, os, sys
print(json.dumps({"argv": sys.argv, "environ": dict(os.environ), "folder": os.getcwd()}))
"""

WAIT = """
import os, signal, time
print("is up", os.getpid(), flush=True)
while True:
    signal.pause()
"""


def environ(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if "DSRUN" not in name}
    return {**kept, **IMPORTABLE, **more}


class OnHold:
    """A hold of two slots on this machine, and commands that use it."""

    def __init__(self, folder: Path) -> None:
        self.name, self.folder = new_name(), folder
        for name, text in (("tell.py", TELL), ("wait.py", WAIT)):
            (folder / name).write_text(text)

    def hold(self, *words: str) -> list[str]:
        return [sys.executable, str(BIN / "dsrun-hold"), *words]

    def on(self, *words: str) -> list[str]:
        return [sys.executable, str(BIN / "dsrun"), f"--on={self.name}", "--grace=1", *words]

    def own(self, *words: str) -> list[str]:
        return [sys.executable, str(BIN / "dsrun"), "--host=localhost:2", "--grace=1", *words]

    def run(self, argv: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
        usual: dict[str, Any] = {"cwd": self.folder, "env": environ(), "timeout": HANG}
        pipes: dict[str, Any] = {"capture_output": True, "text": True, **usual, **more}
        return subprocess.run(argv, check=False, **pipes)

    def start(self, argv: list[str], **more: Any) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        usual: dict[str, Any] = {"cwd": self.folder, "env": environ(), **pipes}
        return subprocess.Popen(argv, **usual | more)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnHold]:
    made = OnHold(tmp_path_factory.mktemp("held"))
    words = ("--host=localhost:2", f"--name={made.name}", "--idle_timeout=10m", "--detach")
    # A file, as the hold keeps what it was given as standard error.
    with (made.folder / "hold.log").open("w") as log:
        subprocess.run(made.hold(*words), env=environ(KEPT="hold"), stderr=log, check=True)
    yield made
    assert made.run(made.hold("--release", made.name)).returncode == 0


def told(ran: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What workers have printed of themselves, by rank."""
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line.partition("| ")[2]) for line in ran.stdout.splitlines()]
    return sorted(found, key=lambda one: int(one["environ"]["RANK"]))


def test_workers_are_as_without_a_hold(held: OnHold, tmp_path: Path) -> None:
    """Arguments, folder and environment: those of the command, and not those of the hold."""
    words = [
        "--export",
        "SENT=\udcff",
        f"--workdir={tmp_path}",
        f"{held.folder}/tell.py",
        "é\udcff",
    ]
    given = environ(MINE="1", OMP_WAIT_POLICY="active", LANG="C.UTF-8")
    on, own = (told(held.run(argv, env=given)) for argv in (held.on(*words), held.own(*words)))
    changing = {"DSRUN_JOB_ID", "DSRUN_NODE_LAUNCHER", "MASTER_PORT", "TORCHELASTIC_RUN_ID"}
    changing.add("TORCHELASTIC_ERROR_FILE")
    for one in (*on, *own):
        assert one["environ"].keys() >= changing
        one["environ"] = {n: v for n, v in one["environ"].items() if n not in changing}
    for one, other in zip(on, own, strict=True):
        assert one["environ"].items() ^ other["environ"].items() == set()
        assert (one["argv"], one["folder"]) == (other["argv"], other["folder"])
    assert (on[0]["environ"]["MINE"], "KEPT" in on[0]["environ"]) == ("1", False)


def test_a_failure_is_reported_as_without_a_hold(held: OnHold) -> None:
    (held.folder / "fail.py").write_text("import os, sys\nsys.exit(int(os.environ['RANK']) * 5)")
    reports = []
    for argv in (
        held.on("--report_file=r.json", "fail.py"),
        held.own("--report_file=r.json", "fail.py"),
    ):
        ran = held.run(argv)
        report = json.loads((held.folder / "r.json").read_text())
        assert (ran.returncode, ran.stdout) == (5, "")
        assert "rank 1 (localhost, local rank 1, pid " in ran.stderr
        reports.append(report)
    assert reports[0].keys() == reports[1].keys()
    for name in ("cause", "exit_code", "world_size", "hosts"):
        assert reports[0][name] == reports[1][name], name


def test_a_command_that_is_killed_has_a_report_too(held: OnHold, tmp_path: Path) -> None:
    words = ("--report_file=r.json", "--no_local_rank", str(held.folder / "wait.py"))
    with held.start(held.on(*words), cwd=tmp_path) as client:
        assert client.stdout
        assert "is up" in client.stdout.readline()
        client.kill()
        client.wait()  # with its output open: a reader that leaves ends the job, too, and sooner
    path = tmp_path / "r.json"
    wait_for(lambda: path.exists() and path.read_text().endswith("}\n"), "the report")
    report = json.loads(path.read_text())
    assert (report["exit_code"], report["cause"]) == (128 + signal.SIGHUP, "signal")


def test_a_report_goes_to_a_descriptor_of_the_command(held: OnHold) -> None:
    """As `>(...)` of a shell names one."""
    read, write = os.pipe()
    with os.fdopen(read) as reader:
        words = (f"--report_file=/dev/fd/{write}", "--no_local_rank", "--no_python", "true")
        ran = held.run(held.on(*words), pass_fds=[write])
        os.close(write)
        assert (ran.returncode, json.load(reader)["exit_code"]) == (0, 0), ran.stderr


def test_output_and_a_report_that_cannot_be_written_are_no_success(held: OnHold) -> None:
    words = "--no_python", "--no_local_rank", "echo", "said"
    with Path("/dev/full").open("w") as full:
        done = held.run(held.on("--report_file=r.json", *words), stdout=full, capture_output=False)
    report = json.loads((held.folder / "r.json").read_text())
    assert (done.returncode, report["exit_code"]) == (74, 74)
    assert held.run(held.on("--report_file=/dev/full", *words)).returncode == 74


def test_input_is_that_of_the_command(held: OnHold) -> None:
    words = ("--stdin=rank0", "--num_gpus=1", "--no_local_rank", "--no_python", "cat")
    ran = held.run(held.on(*words), input="x\n" * 100_000)
    assert (ran.returncode, ran.stdout.count("| x\n")) == (0, 100_000), ran.stderr


def test_a_reader_that_has_read_enough_ends_the_run(held: OnHold) -> None:
    words = ("--num_gpus=1", "--no_local_rank", "--no_python", "yes")
    with held.start(held.on(*words)) as client:
        assert client.stdout
        assert client.stdout.readline().endswith("| y\n")
        client.stdout.close()
        assert client.wait(HANG) == 141
    assert held.run(held.on("tell.py")).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_the_run_and_not_the_hold(held: OnHold, number: int) -> None:
    with held.start(held.on("--no_local_rank", "wait.py")) as client:
        assert client.stdout
        pids = [int(client.stdout.readline().split()[-1]) for _ in range(2)]
        client.send_signal(number)
        assert client.wait(HANG) == 128 + number
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert held.run(held.on("tell.py")).returncode == 0


def test_a_client_that_is_stopped_holds_nobody_up(held: OnHold) -> None:
    with held.start(held.on("--include=localhost:0", "--no_local_rank", "wait.py")) as client:
        assert client.stdout
        client.stdout.readline()
        client.send_signal(signal.SIGSTOP)
        try:
            other = held.run(held.on("--include=localhost:1", "tell.py"))
            assert (other.returncode, len(told(other))) == (0, 1)
            client.send_signal(signal.SIGCONT)
            client.send_signal(signal.SIGTERM)
            assert client.wait(HANG) == 143
        finally:
            client.kill()


AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)
"""Run a command as another user, who can read Python and the checkout wherever they are."""

SQUAT = """
import os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.bind(chr(0) + sys.argv[1])
line.listen()
print(flush=True)
sys.stdin.read()
"""


@needs_root
def test_another_user_finds_no_hold(held: OnHold) -> None:
    ran = held.run([*AS_NOBODY, *held.on("--no_python", "true")], cwd="/")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"--on {held.name}: no such hold on this machine; none is running" in ran.stderr


@needs_root
def test_another_user_who_has_the_name_is_not_asked(held: OnHold) -> None:
    name = new_name()
    argv = [*AS_NOBODY, sys.executable, "-c", SQUAT, local.address(local.HOLD, name)]
    with held.start(argv, stdin=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdin
        process.stdout.readline()
        refused = held.run(held.hold("--host=localhost:1", f"--name={name}"))
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "another hold on this machine has this name" in refused.stderr
        asked = held.run(held.on(f"--on={name}", "tell.py"))
        assert (asked.returncode, asked.stdout) == (2, "")
        process.stdin.close()


TERMINAL = """
import fcntl, json, os, signal, subprocess, sys, termios
hold, client = json.loads(sys.argv[1])
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
mode = termios.tcgetattr(0)
mode[3] |= termios.TOSTOP
termios.tcsetattr(0, termios.TCSANOW, mode)

def job(front):
    def begin():
        os.setpgid(0, 0)
        if front:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    return begin

held = subprocess.Popen(hold, preexec_fn=job(False))
while subprocess.run(client[:3] + ["--dry_run", client[-1]], capture_output=True).returncode:
    assert held.poll() is None
code = subprocess.run(client, preexec_fn=job(True)).returncode
held.terminate()
held.wait()
sys.exit(code)
"""
"""A terminal at which a hold is in the background, and its client in the foreground."""


def test_a_hold_in_the_background_of_the_clients_terminal(held: OnHold) -> None:
    """It may neither read from the terminal nor, with `stty tostop`, write to it."""
    (held.folder / "ask.py").write_text("print('got', input(), flush=True)")
    name = new_name()
    hold = held.hold("--host=localhost:1", f"--name={name}")
    client = [*held.on()[:2], f"--on={name}", "--no_local_rank", "--stdin=rank0", "ask.py"]
    ours, theirs = os.openpty()
    argv = [sys.executable, "-c", TERMINAL, json.dumps([hold, client])]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    pipes |= {"cwd": held.folder, "env": environ(), "start_new_session": True}
    with subprocess.Popen(argv, **pipes) as shell:
        os.close(theirs)
        os.write(ours, b"typed\n")
        try:
            assert b"got typed" in shown(ours, shell)
            assert shell.wait(HANG) == 0
        finally:
            shell.kill()
    os.close(ours)


def shown(terminal: int, shell: subprocess.Popen[bytes]) -> bytes:
    """What a terminal shows until its shell has ended, or for as long as that should take."""
    seen, deadline, runs = b"", time.monotonic() + HANG, True
    with suppress(OSError):  # nobody has it open any more
        while time.monotonic() < deadline:
            runs = shell.poll() is None  # what it has shown by now is there to be read
            if ready([terminal], 0.1 if runs else 0.0):
                seen += os.read(terminal, 4096)
            elif not runs:
                break
    return seen
