"""dsrun-exec as a person uses it, on this machine and over an `ssh` that stays on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ...support import schemas
from ...support.checkout import BIN
from ...support.fake_hosts import fake_ssh
from ...support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = (sys.executable, str(BIN / "dsrun-exec"))


class Exec:
    """The command in a folder, with a hostfile of three hosts that are this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts = folder / "hosts"
        self.hosts.write_text("n1\nn2\nlocalhost\n")
        (folder / "bin").mkdir()
        fake_ssh(folder / "bin")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DSRUN")}
        self.environ = {**kept, "PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder)}

    def start(self, *words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *words],
            cwd=self.folder,
            env=self.environ,
            text=True,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __call__(self, *words: str, typed: str | None = None) -> tuple[int, str, str]:
        process = self.start(*words, stdin=subprocess.DEVNULL if typed is None else subprocess.PIPE)
        out, err = process.communicate(typed, timeout=HANG)
        return process.returncode, out, err


@pytest.fixture
def dsrun_exec(tmp_path: Path) -> Exec:
    return Exec(tmp_path)


def test_equal_outputs_are_one(dsrun_exec: Exec) -> None:
    assert dsrun_exec("-H", "hosts", "echo", "$HOME", "a  b") == (
        0, "n1, n2, localhost: $HOME a  b\n", ""
    )  # fmt: skip
    code, out, err = dsrun_exec("-H", "hosts", "--shell", "echo $((1 + 1)) | cat; exit 4")
    assert (code, out) == (4, "n1, n2, localhost: 2\n")
    assert err == "dsrun: n1, n2, localhost: exit code 4\n"


def test_hosts_that_are_given_one_by_one_are_all_used(dsrun_exec: Exec) -> None:
    code, out, err = dsrun_exec(
        "--host", "n1", "--host", "n2", "--shell", "exit 3", "--shell", "id -u"
    )
    assert (code, out) == (0, f"n1, n2: {os.getuid()}\n")
    assert err == "dsrun: --shell is given 2 times; only the last one counts\n"


def test_lines_as_they_come(dsrun_exec: Exec) -> None:
    code, out, err = dsrun_exec("-H", "hosts", "--include", "n2", "--no_fold", "echo", "one")
    assert (code, out, err) == (0, "n2| one\n", "")


def test_one_host_fails_and_the_others_are_shown(dsrun_exec: Exec) -> None:
    code, out, err = dsrun_exec("--host", "n1,down", "echo", "up")
    assert (code, out) == (69, "n1: up\n")
    assert err.startswith("dsrun: down: connection refused")


def test_json(dsrun_exec: Exec) -> None:
    code, out, _ = dsrun_exec("--host", "n1,down", "--json", "echo", "up")
    value = json.loads(out)
    assert schemas.faults("exec", value) == []
    assert code == value["exit_code"] == 69
    assert [node["stdout"] for node in value["nodes"]] == ["up\n", ""]


def test_standard_input_goes_to_all_to_one_or_to_none(dsrun_exec: Exec) -> None:
    for who, shown in (
        ("all", "n1, n2, localhost: abc\n"),
        ("n2", "n1, localhost: none\nn2: abc\n"),
        ("none", "n1, n2, localhost: none\n"),
    ):
        line = "read -r x || x=none; echo $x"
        code, out, _ = dsrun_exec(
            "-H", "hosts", "--stdin", who, "--shell", line, typed="abc\nmore\n" * 9
        )
        assert (code, sorted(out.splitlines())) == (0, sorted(shown.splitlines()))


def test_files_go_there_and_back(dsrun_exec: Exec) -> None:
    (dsrun_exec.folder / "odd\nname").write_bytes(b"\0\xff" * 300_000)
    to = str(dsrun_exec.folder / "there")
    copied = "dsrun: copied 1 file to 1 host\n"
    assert dsrun_exec("--host", "n1", "--copy", "odd\nname", "--to", to) == (0, "", copied)
    back = ("-H", "hosts", "--fetch", f"{to}/odd\nname", "--to", "back")
    fetched_all = "dsrun: fetched 3 files from 3 hosts into back/, one folder per host\n"
    assert dsrun_exec(*back) == (0, "", fetched_all)
    assert dsrun_exec("-q", *back) == (0, "", "")
    for host in ("n1", "n2", "localhost"):
        fetched = dsrun_exec.folder / "back" / host / "odd\nname"
        assert fetched.read_bytes() == b"\0\xff" * 300_000
    same = dsrun_exec("-H", "hosts", "--copy", "odd\nname")
    assert same[0] == 0
    assert "is the same file there" in same[2]
    assert "copied 1 file" not in same[2]


def test_a_signal_ends_it_everywhere(dsrun_exec: Exec) -> None:
    process = dsrun_exec.start("-H", "hosts", "--no_fold", "--shell", "echo $$; exec sleep 600")
    assert process.stdout is not None
    pids = [int(process.stdout.readline().partition("| ")[2]) for _ in range(3)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG)
    assert (process.returncode, err) == (130, "dsrun: n1, n2, localhost: stopped by SIGINT\n")
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]  # noqa: PTH110


def test_a_reader_that_leaves_ends_it(dsrun_exec: Exec) -> None:
    process = dsrun_exec.start("--host", "n1,n2", "--no_fold", "yes")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(HANG) == 141
    assert process.stderr is not None
    assert "nobody reads its output" in process.stderr.read()
    process.stderr.close()


def test_a_time_limit(dsrun_exec: Exec) -> None:
    code, _, err = dsrun_exec("--host", "n1", "--timeout", "0.2", "sleep", "600")
    assert (code, err) == (124, "dsrun: n1: stopped after --timeout 0.2 s\n")


def test_help(dsrun_exec: Exec) -> None:
    code, out, _ = dsrun_exec("-h")
    assert code == 0
    assert "--fetch" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to do"),
        (["--copy"], "FILE..."),
        (["--copy", "--fetch", "x"], "conflicting options: --copy and --fetch"),
        (["--shell", "ls", "x"], "unexpected argument 'x'"),
        (["--to", "x", "ls"], "--to: only with"),
        (["--copy", "x", "--json"], "conflicting options: --copy and --json"),
        (["--json", "--no_fold", "ls"], "conflicting options: --json and --no_fold"),
        (["-H", "hosts", "--copy", "missing"], "--copy missing: no such file"),
        (
            ["-H", "hosts", "--stdin", "n9", "ls"],
            "--stdin n9: expected all, none, or one of the hosts",
        ),
        (["ls"], "no hosts: give --host, --hostfile or --on; see"),
        (
            ["--host", "n1", "--shell", "df", "-h"],
            "unexpected argument '-h': write --shell 'df -h'",
        ),
        (
            ["--host", "n1", "cd", "/tmp"],
            "cd: a command built into the shell; --workdir DIR sets where",
        ),
        (
            ["--host", "n1", "source", "x"],
            "source: a command built into the shell; --shell 'source x;",
        ),
        (
            ["--host", "n1", "ls -l"],
            "'ls -l': a single word, and no program has that name; write ls -l, or --shell 'ls -l'",
        ),
        (["-H", "hosts", "--copy", "x.py", "x.py"], "--copy x.py: is given twice; give it once"),
        (["n1,n2", "ls"], "no hosts: give --host, --hostfile or --on (did you mean --host n1,n2?)"),
        (["-H", "missing", "ls"], "--hostfile missing: no such file"),
        (["-H", "hosts", "--fetch", "x", "--to", "hosts"], "--to hosts: is not a folder"),
    ],
)
def test_bad_command_lines_start_nothing(words: list[str], message: str, dsrun_exec: Exec) -> None:
    code, out, err = dsrun_exec(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
