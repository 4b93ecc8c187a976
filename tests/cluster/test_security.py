"""What strangers on the same machines may neither read, nor write, nor run."""

from __future__ import annotations

import json
import re
import secrets
import signal
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.needs import need
from .command import CHECKOUT, COMMAND
from .reaching import PAUSE, UNUSABLE, USAGE, on, remote, script, workers

if TYPE_CHECKING:
    from .command import Dsrun
    from .hosts import Cluster, Process

everywhere = pytest.mark.parametrize("launcher", ["ssh", "openssh", "pdsh", "local"])
"""Launchers that reach other hosts, and the one that stays here."""

SOURCES = [path for room in ("launcher", "accelerator") for path in (CHECKOUT / room).rglob("*.py")]

FORBIDDEN = {
    "host keys that nobody checks": r"AutoAddPolicy|WarningPolicy|StrictHostKeyChecking=(no|off)",
    "data that is run when it is read": r"import (pickle|marshal|shelve)|torch\.load|\beval\(",
    "processes killed by pattern": r"\b(pkill|killall|pgrep)\b",
    "shells where none is needed": r"shell=True|os\.system\(|os\.popen\(",
    "files with names that can be guessed": r"[\"']/tmp/|[\"']/dev/shm/|mktemp\(",
}

ALLOWED = {
    "data that is run when it is read": {
        *("launcher/node/call.py", "launcher/api/outcome.py"),
        "launcher/backends/package/command.py",
        *(
            "launcher/features/stacks/node_flight.py",
            "launcher/features/diagnosis/runner_file_rows.py",
        ),
    },
    "files with names that can be guessed": {
        *(
            "launcher/features/preload/node_safety.py",
            "launcher/features/diagnosis/runner_file_rows.py",
        ),
        "launcher/features/diagnosis/runner_device_rows.py",
    },
}
"""The worker of a function, the program that has sent it, a command that carries its own code, a
reader that makes nothing but numbers, texts and containers; a test of a path's beginning; and what
failed programs print."""

SHARED_FOLDERS = re.compile(
    r'openat\([^"]*"(/tmp|/dev/shm|/var/tmp|/run/user)/[^"]*", [^)]*O_CREAT'
)

HOSTILE = (
    "; touch PWN",
    "$(touch PWN)",
    "`touch PWN`",
    "' ; touch PWN ; '",
    '" ; touch PWN ; "',
    "| touch PWN",
    "&& touch PWN &",
    "x\ntouch PWN\n",
    "%h %n %u",
    "-oProxyCommand=touch PWN",
    "!!",
    "*",
    "~",
    "",
    "\\",
    "é ☃ \udcff",
    "--world_info=e30=",
)

SHOW = """
import json, os, sys
hostile = {name: value for name, value in os.environ.items() if name.startswith("NCCL_X")}
print(json.dumps([sys.argv[1:], hostile]))
"""


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_sources_are_free_of(what: str) -> None:
    code = {path: re.sub("(?m)#.*$", "", path.read_text()) for path in SOURCES}
    assert len(code) > 50
    found = {path for path, text in code.items() if re.search(FORBIDDEN[what], text)}
    assert {str(path.relative_to(CHECKOUT)) for path in found} == ALLOWED.get(what, set())


def target(launcher: str) -> list[str]:
    """The options of a job with two workers: on n1 and n2, or on this machine."""
    return ["--num_gpus", "2", "--grace", "1"] if launcher == "local" else on("n1 n2", launcher)


def environment(process: Process) -> str:
    """What whoever may read it finds in a process's environment."""
    try:
        return Path(f"/proc/{process.pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.tier("test")
@everywhere
def test_secrets_are_seen_by_the_workers_alone(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    secret = f"canary-{secrets.token_hex(8)}"
    path = script(tmp_path, PAUSE)
    environ = {"NCCL_CANARY": secret, "WANDB_API_KEY": secret, "CANARY": secret}
    options = ("--export", "WANDB_API_KEY", "--export", "CANARY")
    with cluster.host("n1").sshd(LogLevel="DEBUG3"):
        running = dsrun.start(*target(launcher), *options, path, env=environ)
        running.wait_for_output("(?s)is up.*is up")
        everybody, ours = cluster.processes(), workers(cluster, path)
        seen = [process for process in everybody if secret in environment(process)]
        running.process.send_signal(signal.SIGINT)
        running.wait()
        log = cluster.path("/run/n1/sshd.log").read_text()
    assert [p for p in everybody if secret in " ".join(p.argv)] == []
    assert len(ours) == 2
    # At the login everything that the user starts has it from the user.
    assert {p.pid for p in seen if p.host != "login"} == {p.pid for p in ours if p.host != "login"}
    assert {p.pid for p in ours} <= {p.pid for p in seen}
    assert secret not in log


@everywhere
def test_arguments_are_seen_at_both_ends_alone(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    secret = f"canary-{secrets.token_hex(8)}"
    path = script(tmp_path, PAUSE)
    running = dsrun.start(*target(launcher), path, secret)
    running.wait_for_output("(?s)is up.*is up")
    seen = [p for p in cluster.processes() if secret in " ".join(p.argv)]
    expected = {running.pid, *(p.pid for p in workers(cluster, path))}
    running.process.send_signal(signal.SIGINT)
    running.wait()
    assert ({p.pid for p in seen}, len(expected)) == (expected, 3)


def test_a_debug_log_of_ssh_tells_no_secrets(dsrun: Dsrun, tmp_path: Path) -> None:
    secret, log = f"canary-{secrets.token_hex(8)}", tmp_path / "ssh.log"
    path = script(tmp_path, "")
    more = ("--launcher_args", f"-vvv -E {log}", "--export", f"WANDB_API_KEY={secret}")
    ended = dsrun(*on("n1", "openssh"), *more, path, secret)
    assert (ended.returncode, "debug3" in log.read_text()) == (0, True)
    assert secret not in log.read_text()


@remote
def test_variables_that_stay_at_home(dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    path = script(tmp_path, "import os; print(' '.join(sorted(os.environ)))")
    secrets_ = dict.fromkeys(("WANDB_API_KEY", "HF_TOKEN", "MLFLOW_TRACKING_PASSWORD"), "x")
    local = {"SSH_CLIENT_X": "x", "BASH_ENV": "/none", "BASH_FUNC_ls%%": "() { :; }", "MINE": "x"}
    sent = {"NCCL_DEBUG": "WARN", "WANDB_MODE": "offline"}
    ended = dsrun(*on("n1", launcher), path, env={**secrets_, **local, **sent})
    names = set(ended.stdout.partition("| ")[2].split())
    assert names & {*secrets_, *local, *sent} == {*sent}
    withheld = ", ".join(sorted(secrets_))
    assert f"not sent to the nodes because they look like secrets: {withheld}" in ended.stderr


def test_a_dry_run_shows_no_secrets(dsrun: Dsrun, tmp_path: Path) -> None:
    path = script(tmp_path, "")
    for form in ((), ("--json",)):
        named = ("--export", "HF_TOKEN", "--export", "NCCL_DEBUG=canary-open")
        options = (*on("n1", "ssh"), "--dry_run", *form, *named)
        shown = dsrun(*options, path, env={"HF_TOKEN": "canary-secret"}).stdout
        assert ("HF_TOKEN" in shown, "NCCL_DEBUG" in shown) == (True, True)
        assert ("canary-open" in shown) == (form == ())
        assert "canary-secret" not in shown


@pytest.mark.tier("test")
@everywhere
def test_nothing_the_user_writes_is_run_by_a_shell(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    folder = tmp_path / "a $(touch PWN) 'b' \"c\"; touch PWN"
    folder.mkdir()
    path = script(folder, SHOW)
    environ = {f"NCCL_X{i}": value for i, value in enumerate(HOSTILE)}
    options = ("--no_local_rank", "--prefix", "", "--log_dir", str(folder / "$(touch PWN)"))
    ended = dsrun(*target(launcher), *options, path, *HOSTILE, env=environ, cwd=folder)
    assert [json.loads(line) for line in ended.stdout.splitlines()] == [
        [list(HOSTILE), environ],
        [list(HOSTILE), environ],
    ], ended.stderr
    hosts = [machine.run(["ls", "-A"]).stdout for machine in cluster.machines]
    assert [files for files in hosts if "PWN" in files] == []
    assert [found.name for found in tmp_path.rglob("PWN")] == []


@pytest.mark.parametrize("host", ["-oProxyCommand=touch PWN", "$(touch PWN)", "a;touch", "n1`x`"])
@pytest.mark.parametrize("user", ["", "-oProxyCommand=x@", "$(x)@"])
def test_host_names_are_names(dsrun: Dsrun, tmp_path: Path, host: str, user: str) -> None:
    path = script(tmp_path, "")
    (tmp_path / "hosts").write_text(f"{user}{host} slots=1\n")
    for source in (["--host", f"{user}{host}"], ["--hostfile", "hosts"]):
        ended = dsrun("--launcher", "openssh", *source, path)
        assert (ended.returncode, ended.stdout) == (USAGE, "")
    assert not (tmp_path / "PWN").exists()


def test_words_for_ssh_stay_words(dsrun: Dsrun, tmp_path: Path) -> None:
    path = script(tmp_path, "print('hello')")
    more = ("--launcher_args", "-o 'SetEnv X=a;touch${IFS}PWN' -o ConnectionAttempts=1")
    ended = dsrun(*on("n1", "openssh"), *more, path)
    assert (ended.returncode, ended.stdout) == (0, "n1:0| hello\n")
    assert not (tmp_path / "PWN").exists()


def test_no_file_is_made_where_others_can_make_them(cluster: Cluster, tmp_path: Path) -> None:
    need("strace")
    trace = tmp_path / "trace"
    command = [*COMMAND, "--num_gpus", "2", script(tmp_path, "print('hello')")]
    traced = ["strace", "-f", "-qq", "-e", "trace=openat,mkdir,mknod,bind", "-o", str(trace)]
    ended = cluster.login.run([*traced, *command], cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    calls = trace.read_text()
    assert "openat(" in calls
    assert SHARED_FOLDERS.findall(calls) == []
    assert re.findall('sun_path="/.*', calls) == []
    assert SHARED_FOLDERS.search('openat(AT_FDCWD, "/tmp/x", O_WRONLY|O_CREAT|O_CLOEXEC, 0600)')


@remote
def test_logs_are_private(dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    path, logs = script(tmp_path, "print('hello')"), tmp_path / "logs"
    ended = dsrun(*target(launcher), "--log_dir", str(logs), path, umask=0)
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in logs.glob("*/*")}
    names = [f"rank-000{rank}.{stream}" for rank in (0, 1) for stream in ("out", "err")]
    assert (ended.returncode, files) == (0, dict.fromkeys(names, 0o600))
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in logs.iterdir()] == [0o700]


@everywhere
def test_text_from_a_host_cannot_steer_the_terminal(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    if launcher == "local":
        ended = dsrun("--num_gpus", "1", "--python", "/no/\033]0;pwned\007/python", "x.py")
        assert ended.returncode in {USAGE, UNUSABLE}
    else:
        start_up = cluster.path("/run/home/.bashrc")
        start_up.write_text("printf '\\033]0;pwned\\007\\302\\233 is closed\\n' >&2; exit 3\n")
        try:
            ended = dsrun(*on("n1", launcher), script(tmp_path, ""))
        finally:
            start_up.unlink()
        assert (ended.returncode, "is closed" in ended.stderr) == (UNUSABLE, True)
    assert re.findall("[\033\007\x9b]", ended.stderr) == []


@pytest.mark.parametrize("launcher", ["ssh", "openssh"])
def test_a_host_that_talks_without_end_is_given_up(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, launcher: str
) -> None:
    start_up = cluster.path("/run/home/.bashrc")
    start_up.write_text("yes 'no end of noise'\n")
    try:
        ended = dsrun(*on("n1", launcher), script(tmp_path, ""))
    finally:
        start_up.unlink()
    assert (ended.returncode, ended.stdout) == (UNUSABLE, "")
    assert re.search("^dsrun:   n1: ", ended.stderr, re.MULTILINE)


def test_files_for_the_environment_are_the_users_own(dsrun: Dsrun, tmp_path: Path) -> None:
    path, file = script(tmp_path, ""), tmp_path / "variables"
    file.write_text("X=1\n")
    file.chmod(0o666)
    ended = dsrun("--env_file", str(file), "--num_gpus", "1", path)
    assert (ended.returncode, "writable by all" in ended.stderr) == (USAGE, True)


def test_a_file_for_the_environment_is_read_whole_or_refused(dsrun: Dsrun, tmp_path: Path) -> None:
    path, file = script(tmp_path, "import os; print(len(os.environ['LAST']))"), tmp_path / "big"
    file.write_text("".join(f"X{i}={'y' * 1000}\n" for i in range(2000)) + "LAST=z\n")
    ended = dsrun("--env_file", str(file), "--num_gpus", "1", path)
    if ended.returncode == 0:
        assert ended.stdout == "localhost:0| 1\n"
    else:
        assert (ended.returncode, str(file) in ended.stderr) == (USAGE, True)
