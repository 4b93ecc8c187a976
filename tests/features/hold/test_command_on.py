"""dsrun --on: the real command, and a hold that a test plays."""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ...support.limits import HANG
from ...support.played_hold import FakeHold, playing

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

WAITING = "dsrun: waiting for the hold to answer; it is starting or stopped\n"


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[FakeHold]:
    (tmp_path / "train.py").touch()
    with playing() as made:
        yield made


@contextmanager
def running(
    hold: FakeHold, folder: Path, *words: str, **more: Any
) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A client whose job runs: its process, and the descriptors that the hold has of it."""
    with hold.start(*words, "train.py", folder=folder, **more) as client:
        _, _, fds = hold.requests.get(timeout=HANG)
        try:
            yield client, fds
        finally:
            hold.let_go()
            client.kill()


def ended(client: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """How a client has ended, and what it has printed but for a hold that answers slowly."""
    out, err = client.communicate(timeout=HANG)
    return client.returncode, out.decode(), err.decode().removeprefix(WAITING)


def stopped(pid: int) -> bool:
    """Whether a process has stopped, once it has."""
    return os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])


def test_the_hold_gets_the_job_and_writes_to_the_clients_streams(
    hold: FakeHold, tmp_path: Path
) -> None:
    words = ["--export", "A=\udcff", "--num_gpus", "1", "train.py", "--lr", "é\udcff"]
    with hold.start(*words, folder=tmp_path) as client:
        spec, request, fds = hold.requests.get(timeout=HANG)
        assert spec.plan.program.args == ("--lr", "é\udcff")
        assert [(node.host.name, node.slots) for node in spec.plan.nodes] == [("localhost", (0,))]
        assert (spec.workdir, spec.travel.values["A"], spec.held) == (str(tmp_path), "\udcff", True)
        assert spec.origin.notes == ("currently missing: n2: no route",)
        assert spec.environ is not None
        assert (request["busy"], spec.environ["PATH"]) == ("wait", os.environ["PATH"])
        os.write(fds[1], b"out\n")
        os.write(fds[2], b"err\n")
        hold.end(0)
        assert ended(client) == (0, "out\n", "err\n")


@pytest.mark.parametrize("code", [0, 1, 130, 255])
def test_the_exit_code_is_the_jobs(hold: FakeHold, tmp_path: Path, code: int) -> None:
    with running(hold, tmp_path, "--on_busy=refuse", "--report_file", "r.json") as (client, _):
        hold.end(code, cause="é")
        assert ended(client) == (code, "", "")
    report = json.loads((tmp_path / "r.json").read_text())
    assert report == {"exit_code": code, "cause": "é"}


def test_a_refusal_is_one_line_and_the_report(hold: FakeHold, tmp_path: Path) -> None:
    hold.refusal = "slots are in use by job x\x1b[2J"
    with hold.start("--report_file=r.json", "train.py", folder=tmp_path) as client:
        assert ended(client) == (69, "", "dsrun: slots are in use by job x\\x1b[2J\n")
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["exit_code"], report["error"]) == (69, hold.refusal)


def test_a_hold_that_dies_is_one_line(hold: FakeHold, tmp_path: Path) -> None:
    with running(hold, tmp_path, "--report_file=r.json") as (client, _):
        hold.die()
        line = f"dsrun: lost hold {hold.name}: it has ended unexpectedly\n"
        assert ended(client) == (75, "", line)
    assert json.loads((tmp_path / "r.json").read_text())["exit_code"] == 75


def test_signals_are_forwarded(hold: FakeHold, tmp_path: Path) -> None:
    with running(hold, tmp_path) as (client, _):
        for number in (signal.SIGUSR1, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
            client.send_signal(number)
            assert hold.signals.get(timeout=HANG) == number
        hold.end(143)
        assert ended(client) == (143, "", "")


def test_a_client_under_nohup_does_not_forward_the_hangup(hold: FakeHold, tmp_path: Path) -> None:
    def nohup() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with running(hold, tmp_path, preexec_fn=nohup) as (client, _):
        client.send_signal(signal.SIGHUP)
        client.send_signal(signal.SIGUSR1)
        assert hold.signals.get(timeout=HANG) == signal.SIGUSR1
        hold.end(0)
        assert ended(client)[0] == 0


def test_the_third_interrupt_ends_the_client_of_a_hold_that_hangs(
    hold: FakeHold, tmp_path: Path
) -> None:
    with running(hold, tmp_path) as (client, _):
        for _ in range(3):
            client.send_signal(signal.SIGINT)
            assert hold.signals.get(timeout=HANG) == signal.SIGINT
        hold.let_go()
        line = f"dsrun: exiting now; hold {hold.name} may still run the job\n"
        assert ended(client) == (130, "", line)


def test_ctrl_z_stops_the_client_alone(hold: FakeHold, tmp_path: Path) -> None:
    # The kernel does not stop a process group that is orphaned, as that of a test run may be.
    with running(hold, tmp_path, preexec_fn=os.setpgrp) as (client, _):
        client.send_signal(signal.SIGTSTP)
        assert stopped(client.pid)
        hold.end(0)
        client.send_signal(signal.SIGCONT)
        assert ended(client) == (0, "", "")
    assert hold.signals.empty()


def test_the_hold_learns_that_a_client_was_killed(hold: FakeHold, tmp_path: Path) -> None:
    with running(hold, tmp_path) as (client, _):
        client.kill()
        assert hold.gone.get(timeout=HANG)


def test_a_hold_that_is_still_starting_is_waited_for(hold: FakeHold, tmp_path: Path) -> None:
    hold.starting = True
    with hold.start("train.py", folder=tmp_path) as client:
        assert client.stderr
        assert client.stderr.readline().decode() == WAITING
        hold.ready()
        hold.requests.get(timeout=HANG)
        hold.end(0)
        assert ended(client) == (0, "", "")


def test_input_from_a_pipe_reaches_the_hold(hold: FakeHold, tmp_path: Path) -> None:
    with (tmp_path / "input").open("wb+") as file:
        file.write(b"given")
        file.seek(0)
        with running(hold, tmp_path, "--stdin=rank0", stdin=file) as (client, fds):
            assert os.read(fds[0], 99) == b"given"
            hold.end(0)
            assert ended(client)[0] == 0


def test_input_from_a_terminal_is_read_by_the_client(hold: FakeHold, tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    with running(hold, tmp_path, "--stdin=rank0", stdin=theirs) as (client, fds):
        assert not os.isatty(fds[0])
        os.write(ours, b"typed\n")
        assert os.read(fds[0], 99) == b"typed\n"
        os.write(ours, b"\x04")
        assert os.read(fds[0], 99) == b""
        hold.end(0)
        assert ended(client)[0] == 0
    os.close(ours)
    os.close(theirs)


def test_a_dry_run_starts_nothing(hold: FakeHold, tmp_path: Path) -> None:
    with hold.start("--dry_run", "train.py", folder=tmp_path) as client:
        code, out, err = ended(client)
    assert (code, err) == (0, "")
    assert f"hold {hold.name}" in out
    assert "currently missing: n2: no route" in out
    with hold.start("--dry_run", "--json", "train.py", folder=tmp_path) as client:
        code, out, err = ended(client)
    assert (code, err, json.loads(out)["commands"]) == (0, "", [])
    assert hold.requests.empty()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host=n1", "train.py"], "not with --host, which dsrun-hold sets"),
        (["no.py"], "no such script"),
        ([], "no script"),
        (["--include=n2", "train.py"], "lost n2: no route"),
        (["--json", "train.py"], "--json: only with --dry_run"),
        (["--on=none-such", "train.py"], "--on none-such: no such hold on this machine; running:"),
        (["--on_busy=no", "train.py"], "--on_busy"),
        (["--on=", "--on_busy=wait", "train.py"], "--on '': expected NAME"),
    ],
)
def test_what_cannot_run_is_one_line_and_asks_nothing(
    hold: FakeHold, tmp_path: Path, words: list[str], message: str
) -> None:
    with hold.start(*words, folder=tmp_path) as client:
        code, out, err = ended(client)
    assert (code in {2, 69}, out) == (True, "")
    assert message in err
    assert err.count("\n") == 1
    assert hold.requests.empty()


def test_a_hold_of_another_version(hold: FakeHold, tmp_path: Path) -> None:
    hold.version = "0.0"
    with hold.start("train.py", folder=tmp_path) as client:
        code, _, err = ended(client)
    assert (code, err.count("\n")) == (2, 1)
    assert "the hold runs dsrun 0.0" in err


def test_roles_on_a_lost_node_are_one_line_and_the_report(hold: FakeHold, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    words = ["--include=n2", f"--report_file={report}", "--program", "server", "train.py"]
    with hold.start(*words, "--ends=job", folder=tmp_path) as client:
        code, _, err = ended(client)
    assert (code, err.count("\n")) == (69, 1)
    assert "lost n2: no route" in err
    assert "lost n2: no route" in json.loads(report.read_text())["error"]
