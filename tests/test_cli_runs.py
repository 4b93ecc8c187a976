"""What a user of the command sees: mistakes, help, dry runs, node launchers by hand."""

from __future__ import annotations

import base64
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import venv
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from dsrun.launcher import runner
from dsrun.launcher.common.wording import ANOTHER_PYTHON
from dsrun.launcher.head.run.run_start import NO_DEVICES
from dsrun.launcher.resources.world_info import decode
from dsrun.launcher.specs.job import JobSpec

from .cluster.command import own_lines
from .support.checkout import BIN, IMPORTABLE
from .support.limits import HANG
from .support.silent_port import silent_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DSRUN = [sys.executable, str(BIN / "dsrun")]
TRACEBACK = "Traceback (most recent call last)"
for name in (
    "planning.this_node",
    "head.job.start",
    "head.job.launch",
    "resources.allocation",
    "resources.select",
):
    import_module(f"dsrun.launcher.{name}")  # once, not in every fork
TWO = ("--hostfile", "hosts")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    """A user's folder: a hostfile of two hosts and a script that says that it ran."""
    (tmp_path / "hosts").write_text("worker-0 slots=4\nworker-1 slots=2\n")
    (tmp_path / "x.py").write_text("open('ran', 'w').close()\n")
    (tmp_path / "bad_env").write_text("A=1\nnothing\n")
    (tmp_path / "nul_env").write_bytes(b"A=1\nB=2\0\n")
    (tmp_path / "open_env").write_text("A=1\n")
    (tmp_path / "open_env").chmod(0o666)
    (tmp_path / "token").write_text("secret")
    (tmp_path / "token").chmod(0o644)
    (tmp_path / "empty").touch()
    (tmp_path / "run.sh").write_text("#!/no/such/shell -e\n")
    (tmp_path / "run.sh").chmod(0o755)
    return tmp_path


def dsrun(
    folder: Path, *words: str, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run dsrun in that folder, without variables of its own but these."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("DSRUN_")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.run(
        [*DSRUN, *words], cwd=folder, env={**ours, **(env or {})}, text=True, timeout=HANG,
        check=False, **{**pipes, **options},
    )  # fmt: skip


def at_once(
    folder: Path, *words: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run dsrun likewise in a fork of this process, which has imported it: many times as fast."""
    with TemporaryFile("w+") as out, TemporaryFile("w+") as errors:
        pid = os.fork()
        if pid == 0:
            _become(folder, words, env or {}, (out.fileno(), errors.fileno()))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), errors.read())


def _become(
    folder: Path, words: Sequence[str], env: Mapping[str, str], streams: tuple[int, int]
) -> NoReturn:
    code = -1
    try:
        os.chdir(folder)
        for name in [name for name in os.environ if name.startswith("DSRUN_")]:
            del os.environ[name]
        os.environ.update(env)
        for fd, stream in enumerate((os.open(os.devnull, os.O_RDONLY), *streams)):
            os.dup2(stream, fd)
        sys.stdout, sys.stderr = (os.fdopen(fd, "w") for fd in (1, 2))
        code = runner.main(words)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 255)


def assert_refused(done: subprocess.CompletedProcess[str], *texts: str) -> None:
    """It ended with 2 and one line for each text, which has that in it; nothing was started."""
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(texts), done.stderr
    for line, text in zip(lines, texts, strict=True):
        assert line.startswith("dsrun: ")
        assert text in line
    assert TRACEBACK not in done.stderr


MISTAKES = [
    (("--hostfile", "nope"), "--hostfile nope: no such file or directory"),
    (("-H", "."), "--hostfile .: is a directory"),
    (("-H", "empty"), "empty: names no hosts; expected lines such as 'worker-0 slots=8'"),
    (("--numgpus", "2"), "--numgpus: unknown option (did you mean --num_gpus?)"),
    (("--wat", "2"), "--wat: unknown option"),
    (("--bogus",), "--bogus: unknown option"),
    (("-Z",), "-Z: unknown option"),
    (("--autotuning", "run"), "--autotuning: not supported; run deepspeed itself for autotuning"),
    (("--save_pid",), "--save_pid: not supported; send signals to dsrun itself"),
    (("--num_gpus", "two"), "--num_gpus: expected 1 to 4096 (default: all slots), not 'two'"),
    (("--num_gpus", "-5"), "--num_gpus: expected 1 to 4096 (default: all slots), not '-5'"),
    (("--num_gpus", "0"), "--num_gpus: expected 1 to "),
    (("--num_gpus=",), "--num_gpus: expected 1 to 4096 (default: all slots), not ''"),
    (("--connect_timeout", "0"), "--connect_timeout: expected a duration such as 30, 90s, "),
    (("--heartbeat_timeout", "0"), "--heartbeat_timeout: expected a duration such as 30, 90s, "),
    (("--heartbeat_timeout", "inf"), "--heartbeat_timeout: expected a duration such as 30, 90s, "),
    (("--start_timeout", "0.0"), "--start_timeout: expected a duration such as 30, 90s, "),
    (("--grace", "nan"), "--grace: expected a duration such as 30, 90s, "),
    (("--grace=-1",), "--grace: expected a duration such as 30, 90s, "),
    (("--quiet=1",), "--quiet: takes no value, not '1'"),
    (("--color", "blue"), "--color: expected one of auto, always, never, not 'blue'"),
    (("--stdin", "all"), "--stdin: expected one of none, rank0, not 'all'"),
    (("--launcher", "rsh"), "--launcher rsh: expected one of auto, "),
    (("--launcher_args", "'"), "--launcher_args"),
    (("--nproc_per_node", "npu", "--accelerator=cuda"), "--nproc_per_node npu and --accelerator "),
    (("--nproc_per_node", "gpu"), "--nproc_per_node gpu: the hosts have no accelerator"),
    (("--nnodes", "2"), "--nnodes 2: no hosts given; use --hostfile FILE, --host h1,h2 or"),
    (("--nnodes", "2:3"), "--nnodes 2:3: no hosts given"),
    (("--master_port", "abc"), "--master_port: expected 1 to 65535 (0 or not given: a free port)"),
    (("--control_port", "0"), "--control_port: expected 1 to 65535, not '0'"),
    (("--ssh_port", "65536"), "--ssh_port: expected 1 to 65535, not '65536'"),
    (("--master_port", "70000"), "--master_port: expected 1 to 65535 ("),
    (("--prefix", "{gpu}"), "--prefix '{gpu}': expected text with any of {host} {rank} "),
    (("--prefix", "{"), "--prefix '{': expected text"),
    (("--console_ranks", "1-"), "--console_ranks '1-': expected ranks such as 0,8-15"),
    (("--num_gpus=1", "--console_ranks", "99"), "--console_ranks 99: this job has only rank 0"),
    (("--num_gpus=2", "--console_ranks=1-2"), "--console_ranks 2: the ranks of this job are "),
    (("--num_gpus=2", "--local_ranks_filter=0,7"), "--local_ranks_filter 7: the local ranks of "),
    (("--log_dir", "l", "-r", "9"), "--redirects '9': expected 0, 1, 2 or 3"),
    (("--signals_to_handle", "SIGFOO"), "--signals_to_handle: 'SIGFOO': no such signal"),
    (("--venv_script", "nofile"), "nofile: no such file"),
    (("--no_ssh", "--node_rank=0", "--token_file", "."), "--token_file .: is a directory"),
    (("--export", "=x"), "--export '=x': expected NAME or NAME=VALUE"),
    (("--export", "NOT_SET_HERE"), "--export NOT_SET_HERE: is not set"),
    (("--export", "RANK=3"), "--export RANK: dsrun sets it for every worker; leave it out"),
    (("--export", "MASTER_PORT=1"), "dsrun sets it for every worker; use --master_port"),
    (("--env_file", "nope"), "--env_file nope: no such file"),
    (("--env_file", "bad_env"), "bad_env:2: 'nothing': expected NAME=VALUE"),
    (("--env_file", "open_env"), "open_env: belongs to another user or is writable by all"),
    (("--json",), "--json: only with --dry_run"),
    (("-m", "--no_python"), "conflicting options: --module and --no_python; give one of them"),
    ((*TWO, "--host", "h:2"), "conflicting options: --host and --hostfile; give one of them"),
    ((*TWO, "--standalone"), "conflicting options: --standalone and --hostfile; give one of them"),
    (("--standalone", "-H", "none"), "conflicting options: --standalone and --hostfile; give one"),
    (("--standalone", "--host", "h"), "conflicting options: --standalone and --host; give one of"),
    (("--quiet", "--log_level", "debug"), "conflicting options: --quiet and --log_level debug; gi"),
    (("--no_config", "--profile", "x"), "conflicting options: --no_config and --profile x; give o"),
    (("--no_config", "--trust_here"), "conflicting options: --no_config and --trust_here; give on"),
    (("--trust", "."), "--trust .: starts nothing; leave out "),
    (("--host", "h:x"), "--host"),
    (("--host", "-oProxyCommand=x"), "--host"),
    ((*TWO, "-i", "worker-0", "-e", "worker-1"), "--include and --exclude; give one"),
    ((*TWO, "-i", "worker-0", "--num_gpus", "1"), "--include and --num_gpus; give one"),
    ((*TWO, "--include", "worker-9"), "no host 'worker-9' (hostfile hosts has worker-0, worker-1)"),
    ((*TWO, "--include", "worker-1:2"), "no slot 2 on 'worker-1' (it has "),
    ((*TWO, "--include", "worker-0:"), "worker-0:"),
    ((*TWO, "--include", "worker-0:0,,1"), "worker-0:0,,1"),
    ((*TWO, "--include", "@"), "--include"),
    ((*TWO, "--exclude", "worker-*"), "--exclude: no host is left"),
    ((*TWO, "--num_nodes", "3"), "--num_nodes: expected 1 to 2 (hostfile hosts has worker-0, "),
    ((*TWO, "--num_nodes", "0"), "--num_nodes: expected 1 to 2"),
    ((*TWO, "--num_gpus", "3"), "--num_gpus: 3 is more than the 2 slots of 'worker-1' (hosts:2)"),
    (("--num_nodes", "2"), "--num_nodes 2: no hosts given"),
    (("--nnodes", "4:2"), "--nnodes 4:2: expected N or MIN:MAX, such as 2 or 1:4"),
    ((*TWO, "--nnodes", "2", "--num_nodes", "1"), "--nnodes 2 and --num_nodes 1; give one of them"),
    (("--nproc_per_node", "many"), "--nproc_per_node many: expected 1 to 4096, or auto, "),
    (("--nproc_per_node=2", "--num_gpus=1"), "--nproc_per_node 2 and --num_gpus 1; give one"),
    (("--node_rank", "1"), "--node_rank: only with --no_ssh"),
    (("--no_ssh", "--nnodes", "2"), "--no_ssh: give the rank of this node"),
    (("--no_ssh", "--nnodes", "2", "--node_rank", "2"), "there are 2 nodes, 0 to 1"),
    (("--no_ssh", "--node_rank", "2"), "--node_rank 2: there is only node 0"),
    (("--num_nodes", "0"), "--num_nodes: expected 1 (this machine (no hostfile) has localhost), "),
    (("--workdir", "hosts"), "/hosts: is not a folder"),
    (("--no_local_rank", "."), "/.: is a folder without a __main__.py; name a script in it"),
    (("--no_ssh", "--node_rank=0", "--token_file", "token"), "--token_file token: other users"),
    (("--python", "./nope"), "/nope: no such file; name a Python 3.10"),
    (("--rank_per_task",), "--rank_per_task: --launcher local cannot start ranks"),
    (("--requeue_on", "300"), "--requeue_on: expected exit codes 1 to 255"),
    (("--warm_workers",), "--warm_workers: only in an elastic job"),
    (("--max_restarts=1", "--change_notice=SIGNO"), "--change_notice: 'SIGNO': no such signal"),
    (("--elastic_training", "--min_elastic_nodes=3"), "lastic"),
    (("--bind_core_list", "x:0-3"), "--bind_core_list: 'x:0-3': expected cpus"),
    (("no_such.py",), "/no_such.py"),
    (("--no_python", "./no_such"), "/no_such"),
    (("--no_ssh", "--nnodes=2", "--node_rank=0"), "--no_ssh: give the address of node 0"),
    (("--report_file", "no/r.json"), "--report_file no/r.json: "),
    (("--python", "./empty"), "/empty: is not executable (chmod +x "),
    (("--no_python", "./empty"), "/empty: is not executable (chmod +x "),
    (("--no_python", "run.sh"), "run.sh: no such program on PATH; ./run.sh is the one in this"),
    (("--no_python", "./run.sh"), "its interpreter /no/such/shell (first line) does not exist"),
    (("--log_dir", "empty"), "/empty: is a file; name a folder"),
    (("--console_ranks", "a"), "--console_ranks 'a': expected ranks such as 0,8-15"),
    ((*TWO, "-i", "worker-0,worker-1"), "hosts are joined by @, their slots by commas: 'worker-0"),
    ((*TWO, "-i", "worker-0:0 worker-1:1"), "by commas: 'worker-0:0@worker-1:1'"),
    (("--include", "localhost:5", "--accelerator=cpu"), "slots only count its workers; for 1 wr"),
    (("--include", "localhost:1-2", "--accelerator=cpu"), "for 2 write 0-1, or --num_gpus 2"),
    ((*TWO, "--include", ""), "--include '': names no hosts; leave it out, or list some"),
    (("--report_file", ""), "--report_file '': expected FILE; if there is none, leave the opti"),
    (("--host", "n1", "n2"), "n2: no such script; if these are hosts, write --host n1"),
    (("--host", "n1,", "n2", "n3"), "if these are hosts, write --host n1,n2,n3"),
    ((*TWO, "-i", "worker-0", "worker-1"), "--include worker-0@worker-1"),
    ((*TWO, "--master_addr", "worker-1"), "rank 0 runs on node 0, which is worker-0; leave"),
    ((*TWO, "--master_addr", "worker-0:29500"), "a host name or an address without a port"),
    ((*TWO, "--master_addr", "fd00::1:29500"), "a host name or an address without a port"),
    ((*TWO, "--master_addr", "fe80::1"), "--master_addr: fe80::1 is a link-local address, which n"),
    ((*TWO, "--master_addr", "n" * 70), "each part between dots has 1 to 63 characters"),
    (("--host", "fe80::1,n2"), "--host: fe80::1 is a link-local address, which needs the network"),
    (("--host", "n1,fe80::1", "--launcher", "openmpi"), "; write fe80::1%eth0, with a name that"),
    (("--host", f"n1,{'n' * 70}"), "is not a host name: each part between dots has 1 to 63"),
    (("--host", "n1:0"), "write '0-0' for slot 0 alone, the host without ':0' for one worker per"),
    ((*TWO, "--min_elastic_nodes", "3"), "--min_elastic_nodes 3: the job has only 2 nodes"),
    (("--nproc_per_node", "0"), "--nproc_per_node 0: expected 1 to 4096, or auto, cpu, gpu, xpu"),
    (("--nproc_per_node", "²"), "--nproc_per_node ²: expected 1 to 4096"),
    (("--signals_to_handle", "SIGTERM,SIGKILL"), "'SIGKILL': cannot be handled; expected a signal"),
    (("--change_notice", "SIGSTOP", "--elastic_training"), "'SIGSTOP': cannot be handled"),
    (("--no_restart_codes", "2"), "--no_restart_codes: only in an elastic job"),
    (("--export", "A B=1"), "--export A B=1: a name has no spaces; write NAME=VALUE"),
    (("--hostfile", "n1,n2"), "no such file or directory; if these are hosts, write --host n1,n2"),
    (("--metrics_file", "m", "--report_file", "./m"), "/m: is also --report_file; name another"),
    (("--report_file", "x.py"), "/x.py: is also the script; name another file"),
    (("--hostfile", "hosts", "--report_file", "hosts"), "/hosts: is also --hostfile; name"),
    (("--metrics_file", "run.sh"), "run.sh: has content that dsrun did not write; name"),
    (("--export=ALL",), "--export ALL: a keyword of srun; variables with well-known prefixes are"),
    (("--export=ALL,A=1",), "--export ALL,A: a keyword of srun"),
    (("--export", "A,B"), "--export A,B: takes one variable; write --export A --export B"),
    (("--env_file", "nul_env"), "--env_file nul_env:2: 'B': a variable cannot have a NUL byte"),
    (("--workdir", "nope"), "/nope: no such folder"),
    (("--local_rank", "--use_env"), "--local_rank and --no_local_rank; give one"),
    (("--rdzv_backend", ""), "--rdzv_backend '': expected static, c10d, etcd, etcd-v2 or a plugin"),
    (("--rdzv_backend", "c10"), "--rdzv_backend c10: torch has no such backend; expected c10d, "),
    (("--rdzv_endpoint", "http://h:1"), "'http://h:1': expected HOST:PORT, with a port from 1 to "),
    (("--local_addr", "a b"), "--local_addr 'a b': expected a host name or an address"),
    (("--host=", "--host", "n2"), "--host: ',n2': an item is empty"),
    (("--num_nodes", "two"), "--num_nodes: expected 1 to the number of hosts (default: all)"),
    (("--node_rank", "a"), "--node_rank: expected 0 to N-1 for N nodes, not 'a'"),
    ((*TWO, "--launcher", "local"), "--launcher local: worker-0 is not this machine"),
]  # fmt: skip


RECORDS = """
import json, os, sys
if os.environ["RANK"] == "1":
    extra = {"py_callstack": "Traceback ...", "timestamp": "1"}
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": {"message": "ValueError: no", "extraInfo": extra}}, file)
    sys.exit(7)
sys.stdin.read()
while True:
    __import__("signal").pause()
"""


@pytest.mark.parametrize("options", [(), ("--log_dir", "logs")])
def test_whoever_has_named_an_error_file_finds_the_error_of_the_first_failure(
    folder: Path, options: Sequence[str]
) -> None:
    (folder / "records.py").write_text(RECORDS)
    ours = {"TORCHELASTIC_ERROR_FILE": str(folder / "error.json"), "DSRUN_ACCELERATOR": "cpu"}
    ran = dsrun(folder, "--num_gpus=2", *options, "records.py", env=ours)
    assert ran.returncode == 7, ran.stderr
    message = json.loads((folder / "error.json").read_text())["message"]
    assert (message["message"], message["errorCode"]) == ("ValueError: no", 7)
    assert message["extraInfo"]["py_callstack"] == "Traceback ..."


def test_an_error_file_that_cannot_be_written_is_named(folder: Path) -> None:
    (folder / "records.py").write_text(RECORDS)
    ours = {"TORCHELASTIC_ERROR_FILE": "/none/error.json", "DSRUN_ACCELERATOR": "cpu"}
    ran = dsrun(folder, "--num_gpus=2", "records.py", env=ours)
    assert ran.returncode == 7, ran.stderr
    line = "dsrun: TORCHELASTIC_ERROR_FILE /none/error.json: no such file or directory"
    assert line in ran.stderr.splitlines()


# What is not known before the node has counted its devices; and what is right in a dry run.
UNKNOWN_YET = {"99", "gpu", "--json"}


@pytest.mark.parametrize(("words", "text"), MISTAKES)
def test_mistakes(folder: Path, words: Sequence[str], text: str) -> None:
    assert_refused(at_once(folder, *words, "x.py"), text)
    assert not (folder / "ran").exists()
    if {*words} & UNKNOWN_YET:
        return
    # A dry run refuses whatever the run would.
    assert_refused(dsrun(folder, "--dry_run", *words, "x.py"), text)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--num_gpus", "2"), "no script: dsrun [options] SCRIPT [ARGS...]"),
        ((), "no script: dsrun [options] SCRIPT [ARGS...]; see dsrun --help"),
        (("",), "no script (an empty argument; is a variable not set?): dsrun "),
        (("--",), "no script"),
        (("--num_gpus",), "--num_gpus: expected N after it"),
        (("-m",), "no script"),
        (("--dry_run", "--json"), "no script"),
    ],
)
def test_unfinished_lines(folder: Path, words: Sequence[str], text: str) -> None:
    assert_refused(dsrun(folder, *words), text)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        (
            {"DSRUN_NUM_GPUS": "two"},
            "DSRUN_NUM_GPUS: expected 1 to 4096 (default: all slots), not 'two'",
        ),
        ({"DSRUN_QUIET": "maybe"}, "DSRUN_QUIET: expected 1 or 0, not 'maybe'"),
        ({"DSRUN_COLOR": "blue"}, "DSRUN_COLOR: expected one of auto, always, never"),
        ({"DSRUN_HOSTFILE": "nope"}, "DSRUN_HOSTFILE nope: no such file or directory"),
        ({"DSRUN_HOST": "h:x"}, "DSRUN_HOST: 'h:x': expected a slot"),
        ({"DSRUN_SHUTDOWN_TIMEOUT": "soon"}, "DSRUN_SHUTDOWN_TIMEOUT: expected a duration"),
        (
            {"DSRUN_NUM_NODES": "3", "DSRUN_NNODES": "2", "DSRUN_HOST": "a,b"},
            "DSRUN_NNODES 2 and DSRUN_NUM_NODES 3; give one of them",
        ),
        ({"DS_ENV_FILE": "/nope"}, "DS_ENV_FILE /nope: no such file"),
        ({"DS_ENV_FILE": "nope"}, "DS_ENV_FILE ./nope: no such file"),
        ({"DS_ENV_FILE": "bad_env"}, "DS_ENV_FILE ./bad_env:2: 'nothing': expected NAME=VALUE"),
        ({"DSRUN_JSON": "1"}, "DSRUN_JSON: only with --dry_run"),
        ({"DSRUN_ACCELERATOR": "abacus", "DSRUN_DRY_RUN": "0"}, "abacus"),
    ],
)
def test_mistakes_in_variables(folder: Path, variables: dict[str, str], text: str) -> None:
    done = at_once(folder, "x.py", env=variables)
    assert done.returncode in {2, 69}
    assert done.stdout == ""
    assert text in done.stderr
    assert TRACEBACK not in done.stderr
    assert not (folder / "ran").exists()


def test_the_current_folder_is_gone(folder: Path) -> None:
    gone = folder / "gone"
    gone.mkdir()
    words = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *DSRUN, "x.py"]
    done = subprocess.run(words, cwd=gone, capture_output=True, text=True, check=False)
    assert_refused(done, "the current folder no longer exists; start dsrun in another one")


def test_variables_set_options_and_the_line_wins(folder: Path) -> None:
    env = {"DSRUN_DRY_RUN": "yes", "DSRUN_JSON": "on", "DSRUN_NUM_GPUS": "3", "DSRUN_QUIET": "0"}
    assert json.loads(dsrun(folder, "x.py", env=env).stdout)["world_size"] == 3
    assert json.loads(dsrun(folder, "--num_gpus=2", "x.py", env=env).stdout)["world_size"] == 2
    others = {"DSRUN_JOB_ID": "of-somebody", "DSRUN_TOKEN": "x", "DSRUN_NUM_GPU": "1"}
    plan = json.loads(dsrun(folder, "x.py", env={**env, **others}).stdout)
    note = "DSRUN_NUM_GPU has no effect: unknown variable (did you mean DSRUN_NUM_GPUS?)"
    assert (plan["world_size"], plan["notes"]) == (3, [note])


@pytest.mark.parametrize(
    ("content", "places"),
    [
        (b"n1 slots=x\n", ["hosts:1:4: "]),
        (b"\n# c\nn1 slots = 2\n", ["hosts:3:4: "]),
        (b"n1 slots=2xyz\nn2 slots=0\nn3 slots=-1", ["hosts:1:", "hosts:2:", "hosts:3:"]),
        (b"n1 slots=99999999999\r\n", ["hosts:1:"]),
        (b"n1\nn2\nn1 slots=2\n", ["hosts:3: host 'n1' is listed twice (first at hosts:1)"]),
        (b"-oProxyCommand=x\n$(id)\na;b\n", ["hosts:1:", "hosts:2:", "hosts:3:"]),
        (b"h[4-1]\nh[1-\nh[1-99999999]\n", ["hosts:1:", "hosts:2:", "hosts:3:"]),
        (b"n1 slot=8\n", ["hosts:1:4: 'slot=8': expected 'slots=N', "]),
        (b"\xff\xfen\x001\x00\n\x00", ["hosts:1: not plain text"]),
        (b"n1\nn\0002\n", ["hosts:2: not plain text"]),
    ],
)
def test_bad_lines_of_a_hostfile(folder: Path, content: bytes, places: list[str]) -> None:
    (folder / "hosts").write_bytes(content)
    assert_refused(dsrun(folder, *TWO, "x.py"), *places)


@pytest.mark.parametrize(
    ("words", "first", "heading"),
    [
        (("--help",), "usage: dsrun [options] SCRIPT", "Environment of the workers:"),
        (("--num_gpus", "2", "--help", "--x"), "usage: dsrun [options] SCRIPT", "Exit codes:"),
        (("-h",), "usage: dsrun [options] SCRIPT", "Failures:"),
        (("--help", "slurm"), "dsrun --help slurm: ", "Options:"),
    ],
)
def test_help(folder: Path, words: Sequence[str], first: str, heading: str) -> None:
    done = dsrun(folder, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(first)
    assert f"\n{heading}\n" in done.stdout


def test_an_unknown_topic_of_the_help(folder: Path) -> None:
    assert_refused(dsrun(folder, "--help", "x.py"), "--help x.py: unknown topic; expected one of")


def test_a_host_on_several_lines_is_told_in_the_plan_and_at_the_start(folder: Path) -> None:
    """Its slots add up, as for Open MPI and PBS."""
    (folder / "hosts").write_text("localhost\n" * 2)
    told = "hostfile hosts lists localhost 2 times, 2 slots: the slots of each host are added up"
    assert f"note      {told}\n" in dsrun(folder, "-H", "hosts", "--dry_run", "x.py").stdout
    (folder / "x.py").write_text("import os; print(os.environ['WORLD_SIZE'])")
    done = dsrun(folder, "-H", "hosts", "--prefix=", "--no_local_rank", "x.py")
    assert (done.returncode, done.stdout) == (0, "2\n2\n")
    assert f"dsrun: {told}\n" in done.stderr


SAY = """
import os
names = "TORCHELASTIC_SIGNALS_TO_HANDLE DSRUN_WORLD_INFO MASTER_PORT".split()
print(*(os.environ[name] for name in names))
"""


def test_what_torchruns_scripts_find(folder: Path) -> None:
    """A free port for none, its variables for its flags, and its template for the prefix."""
    (folder / "x.py").write_text(SAY)
    words = ("--rdzv_endpoint", "localhost:0", "--signals_to_handle", "SIGTERM", "x.py")
    template = "[${role_name}${rank}]:"
    env = {"PET_NPROC_PER_NODE": "2", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": template}
    done = dsrun(folder, *words, env=env)
    assert (done.returncode, own_lines(done.stderr)) == (0, [])
    one, two = sorted(done.stdout.splitlines())
    label, world, port = one.split()
    assert label == "[default0]:SIGTERM"
    assert decode(world) == {"localhost": (0, 1)}
    assert 1024 < int(port) < 65536
    assert two == f"[default1]:SIGTERM {world} {port}"


# What `record` of torch does with an exception (torch 2.13).
RECORD = """
import json, os, sys, traceback
print("out", flush=True)
try:
    raise ValueError("boom")
except ValueError as error:
    said = {"py_callstack": traceback.format_exc(), "timestamp": "1"}
    data = {"message": {"message": f"ValueError: {error}", "extraInfo": said}}
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump(data, file)
sys.exit("something else")
"""


def test_what_a_worker_has_recorded_is_reported(folder: Path) -> None:
    (folder / "x.py").write_text(RECORD)
    done = dsrun(folder, "--num_gpus=1", "--report_file", "r.json", "x.py")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    at = lines.index("  the exception recorded by @record:")
    assert lines[at + 1] == "    Traceback (most recent call last):"
    assert "    ValueError: boom" in lines[at:]
    assert "localhost:0| something else" in lines
    failure = json.loads((folder / "r.json").read_text())["first_failure"]
    assert failure["message"] == "ValueError: boom"
    assert failure["traceback"].endswith("ValueError: boom\n")
    assert failure["log"] == ""


def test_redirects_without_a_folder_make_one_and_name_it(folder: Path) -> None:
    (folder / "x.py").write_text(RECORD)
    words = ("--num_gpus=1", "--accelerator=cpu", "--redirects", "0:3", "x.py")
    done = dsrun(folder, *words, env={"TMPDIR": str(folder)})
    (made,) = folder.glob("dsrun-*")
    first = own_lines(done.stderr)[0]
    assert first == f"dsrun: localhost: log files in {made}"
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert (made / "rank-0000.out").read_text() == "out\n"
    assert "localhost:0| out" not in done.stdout.splitlines()
    assert json.loads((made / "rank-0000.json").read_text())["message"]


def test_torchruns_lines_have_its_log_files_where_its_tools_look(folder: Path) -> None:
    (folder / "x.py").write_text(RECORD)
    done = dsrun(folder, "--nproc_per_node=1", "--log_dir=l", "-t3", "--rdzv_id", "me", "x.py")
    (made,) = folder.glob("l/me_*/attempt_0/0")
    assert {path.name for path in made.iterdir()} == {"stdout.log", "stderr.log", "error.json"}
    assert (made / "stdout.log").read_text() == "out\n"
    assert f"  its log: localhost:{made}/stderr.log (and stdout.log)" in done.stderr.splitlines()


def test_nobody_needs_a_folder_to_see_all(folder: Path) -> None:
    done = dsrun(folder, "--num_gpus=1", "--tee", "3", "x.py", env={"TMPDIR": str(folder)})
    assert done.returncode == 0
    assert list(folder.glob("dsrun-*")) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [((), True), (("--nproc_per_node", "auto"), True), (("--nproc_per_node", "cpu"), False)],
)
def test_workers_on_cpus_that_nobody_asked_for_are_told_of(
    folder: Path, words: Sequence[str], told: bool
) -> None:
    done = dsrun(folder, *words, "x.py")
    assert done.returncode == 0
    assert own_lines(done.stderr) == ([f"dsrun: {NO_DEVICES}"] if told else [])


def test_a_first_run_without_torch_says_what_to_install(folder: Path) -> None:
    venv.create(folder / "bare", symlinks=True)
    python = folder / "bare/bin/python"
    (folder / "x.py").write_text("import torch\n")
    done = dsrun(folder, "--python", str(python), "--num_gpus=1", "--accelerator=cpu", "x.py")
    assert done.returncode == 1
    install = f"{python} -m pip install torch (or --python)"
    check, *lines = [line for line in done.stderr.splitlines() if "torch" in line]
    assert check == f"dsrun: check: localhost: torch is not installed for {python}; {install}"
    assert f"  why: torch is not installed for {python}" in lines
    assert f"  try: {install}" in lines


SILENT = f"did not answer as Python 3.10 or newer {ANOTHER_PYTHON}: it printed nothing"
OLD = "python 3.10 or newer is needed, this is 3.9.18 (main)"
WRONG = {
    "old": (
        f"#!/bin/sh\necho '{OLD}' >&2; exit 1",
        "is Python 3.9.18, but 3.10 or newer is needed",
    ),
    "silent": ("#!/bin/sh\nexit 0", f"{SILENT}, exit code 0"),
    "failing": ("#!/bin/sh\nexit 3", f"{SILENT}, exit code 3"),
}


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_python_is_a_wrong_command_line(folder: Path, text: str, told: str) -> None:
    python = folder / "python"
    python.write_text(text)
    python.chmod(0o755)
    done = dsrun(folder, "--python", "./python", "--num_gpus=1", "--accelerator=cpu", "x.py")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = own_lines(done.stderr)
    assert line.startswith(f"dsrun: localhost: {python} {told}")


def test_help_of_a_script_is_the_scripts(folder: Path) -> None:
    (folder / "h.py").write_text("import sys; print(sys.argv[1:])")
    done = dsrun(folder, "--no_local_rank", "--prefix=", "--num_gpus=1", "h.py", "--help", "-h")
    assert done.stdout == "['--help', '-h']\n"


def test_a_reader_of_help_may_leave(folder: Path) -> None:
    for words in (("--help",), ("--dry_run", "--json", "--host", "h[1-2000]:8", "x.py")):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = dsrun(folder, *words, stdout=write_end)
        os.close(write_end)
        assert done.returncode == 141
        assert done.stderr == ""


@pytest.mark.parametrize(
    "words", [("--help",), ("--dry_run", "x.py"), ("--dry_run", "--json", "x.py")]
)
def test_output_that_cannot_be_written(folder: Path, words: Sequence[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = dsrun(folder, *words, stdout=full)
    assert done.returncode not in {0, 70}
    assert TRACEBACK not in done.stderr
    assert "no space left on device" in done.stderr.lower()


def test_the_plan_as_json(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    env = {"NCCL_DEBUG": "INFO", "WANDB_API_KEY": "canary"}
    done = dsrun(
        folder, *TWO, "--include", "worker-0:3,1@worker-1", "--master_addr", "10.0.0.1",
        "--master_port", "29500", "--launcher", "openssh", "--dry_run", "--json",
        "x.py", "--lr", "0 1", env=env,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    plan = json.loads(done.stdout)
    commands = plan.pop("commands")
    assert "NCCL_DEBUG" in plan.pop("environment")
    assert plan.pop("withheld") == ["WANDB_API_KEY"]
    assert decode(plan.pop("world_info")) == {"worker-0": (3, 1), "worker-1": (0, 1)}
    policies = {name: plan.pop(name) for name in [*plan] if name in JobSpec._fields}
    assert policies["workdir"] == str(folder)
    assert policies["backend"]["connect_timeout"] == 10.0
    assert {node.pop("python") for node in plan["nodes"]} == {sys.executable}
    assert plan == {
        "format": 2,
        "launcher": "openssh",
        "master_addr": "10.0.0.1",
        "master_port": 29500,
        "world_size": 4,
        "nodes": [
            {"node_rank": 0, "host": "worker-0", "first_rank": 0, "devices": [3, 1]},
            {"node_rank": 1, "host": "worker-1", "first_rank": 2, "devices": [0, 1]},
        ],
        "program": ["python", "-u", "x.py", "--local_rank=0", "--lr", "0 1"],
    }
    ((argv, hosts, host_at),) = [command.values() for command in commands]
    assert (hosts, argv[0], argv[host_at]) == (["worker-0", "worker-1"], "ssh", "worker-0")
    assert not {"x.py", "0 1"} & set(argv)
    assert "canary" not in done.stdout
    assert sorted(folder.rglob("*")) == before


def test_a_plan_whose_slots_are_not_known_yet(folder: Path) -> None:
    done = dsrun(folder, "--host", "h1,h2:2", "--dry_run", "--json", "x.py")
    plan = json.loads(done.stdout)
    assert (plan["world_size"], plan["master_addr"], plan["master_port"]) == (None, None, None)
    assert [(node["first_rank"], node["devices"]) for node in plan["nodes"]] == [
        (0, None),
        (None, [0, 1]),
    ]


def test_the_plan_as_a_table(folder: Path) -> None:
    env = {"NCCL_DEBUG": "INFO", "WANDB_API_KEY": "canary", "HF_TOKEN": "canary"}
    done = dsrun(
        folder, *TWO, "--launcher", "openssh", "--export", "HF_TOKEN", "--dry_run", "x.py", "a b",
        env=env,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    head, nodes, variables, commands = done.stdout.rstrip().split("\n\n")
    facts = dict(line.split(maxsplit=1) for line in head.splitlines())
    assert facts == {
        "hosts": "hostfile hosts",
        "launcher": "openssh",
        "workers": "6 on 2 nodes",
        "master": "node 0, on a free port",
        "program": "python -u x.py --local_rank=0 'a b'",
        "python": f"{sys.executable} (dsrun's own)",
        "folder": str(folder),
        "timeouts": "10 s to connect; 300 s to start; 15 s without a heartbeat",
        "stop": "on SIGTERM, SIGINT or SIGHUP; SIGKILL after 30 s",
        "output": "lines prefixed with '{host}:{rank}| '",
    }
    assert [line.split() for line in nodes.splitlines()] == [
        ["node", "host", "ranks", "devices", "python"],
        ["0", "worker-0", "0-3", "0-3", sys.executable],
        ["1", "worker-1", "4-5", "0-1", sys.executable],
    ]
    assert "  NCCL_DEBUG=INFO" in variables.splitlines()
    assert "WANDB_API_KEY" in variables.splitlines()[-1]
    assert "  HF_TOKEN='***'" in variables.splitlines()
    assert "canary" not in done.stdout
    assert commands.startswith("commands:\n  each HOST of worker-0, worker-1:\n    ssh ")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_plan_with_bytes_that_are_no_text(folder: Path, options: Sequence[str]) -> None:
    env = {"PYTHONIOENCODING": "utf-8:strict", "NCCL_X": "\udcff"}
    done = dsrun(folder, "--num_gpus", "1", "--dry_run", *options, "x.py", "\udcff", env=env)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_bug_is_told_in_plain_text() -> None:
    """What was in a stranger's message may be in that of an exception."""
    code = (
        "from dsrun.launcher.common import entry\n"
        "def act(words): raise RuntimeError('\\x1b]0;t\\x07\\x9b')\n"
        "entry.start(act)"
    )
    env = {**os.environ, **IMPORTABLE}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 70
    assert "RuntimeError: \\x1b]0;t\\x07\\x9b\ndsrun: this is a bug" in done.stderr


def test_dsrun_by_another_name(folder: Path) -> None:
    (folder / "link").symlink_to(DSRUN[1])
    done = subprocess.run(
        [sys.executable, "link", "--num_gpus", "1", "x.py"], cwd=folder, check=False
    )
    assert done.returncode == 0
    assert (folder / "ran").exists()


def test_dsrun_in_a_worker_of_dsrun(folder: Path) -> None:
    words = ["--num_gpus", "2", "--no_python", "--no_local_rank", "echo", "inner"]
    done = dsrun(folder, "--num_gpus", "1", "--no_python", "--no_local_rank", *DSRUN, *words)
    assert done.returncode == 0, done.stderr
    inner = [f"localhost:0| localhost:{rank}| inner" for rank in (0, 1)]
    assert sorted(done.stdout.splitlines()) == inner


SHOW = """
import os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
print(*(os.environ[name] for name in names), *sys.argv[1:])
"""


def by_hand(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the node launcher as a person can, without a runner."""
    command = [sys.executable, "-m", "dsrun.launcher.launch", *words]
    env = {**os.environ, **IMPORTABLE}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=HANG, check=False
    )


def world(hosts: Mapping[str, Sequence[int]]) -> str:
    """`--world_info` as DeepSpeed makes it."""
    return base64.urlsafe_b64encode(json.dumps(hosts).encode()).decode()


def test_a_node_launcher_by_hand(folder: Path) -> None:
    (folder / "show.py").write_text(SHOW)
    done = by_hand(
        folder, f"--world_info={world({'a': [0, 1], 'b': [0, 1, 2]})}", "--node_rank=1",
        "--master_addr=10.1.1.1", "--master_port=29511", "show.py", "x y",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"b:{2 + local}| {2 + local} {local} 5 1 10.1.1.1 29511 --local_rank={local} x y"
        for local in range(3)
    ]


def test_a_node_launcher_by_hand_ends_as_its_first_failure(folder: Path) -> None:
    (folder / "fail.py").write_text(
        "import os, sys; sys.exit(9 if os.environ['RANK'] == '1' else 0)"
    )
    done = by_hand(folder, "--world_info", world({"localhost": [0, 1]}), "fail.py")
    assert done.returncode == 9
    assert "dsrun: rank 1 (localhost, local rank 1, " in done.stderr
    assert TRACEBACK not in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "expected --world_info=... before the script"),
        (("--world_info=@@", "x.py"), "world_info: '@@' is cut short or is not base64"),
        (("--world_info=e30=", "x.py"), "world_info: expected {host: [device, ...], ...}"),
        ((f"--world_info={world({'a': [0, 0]})}", "x.py"), "world_info: host 'a': "),
        ((f"--world_info={world({'a': [0]})[:-3]}", "x.py"), "world_info: "),
        ((f"--world_info={world({'a': [0]})}",), "launch: no script"),
        ((f"--world_info={world({'a': [0]})}", "--node_rank=1", "x.py"), "--node_rank 1: "),
        ((f"--world_info={world({'a': [0]})}", "--bogus", "x.py"), "--bogus: unknown option"),
        (
            (f"--world_info={world({'a': [0], 'b': [0]})}", "--shard_queue", "x.py"),
            "--shard_queue: needs one dsrun that is connected to all nodes",
        ),
    ],
)
def test_mistakes_by_hand(folder: Path, words: Sequence[str], text: str) -> None:
    assert_refused(by_hand(folder, *words), text)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(("limit", "workers"), [(8, "2"), (12, "2"), (16, "2"), (24, "8")])
def test_too_few_open_files_are_told_in_a_line_and_never_as_a_fault(
    folder: Path, limit: int, workers: str
) -> None:
    """What cannot be opened first differs by the limit; workers that are stopped say nothing."""

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    done = dsrun(folder, "--num_gpus", workers, "--report_file", "r.json", "x.py", preexec_fn=lower)
    assert done.returncode in {69, 75, 126}, done.stderr
    assert f"too many open files (the limit is {limit}; raise it with ulimit -n)" in (
        done.stderr.lower()
    )
    for wrong in (TRACEBACK, "bug in dsrun", "name a Python", "internal error"):
        assert wrong not in done.stderr
    if (folder / "r.json").exists() and (text := (folder / "r.json").read_text()):
        assert json.loads(text)["exit_code"] == done.returncode


@pytest.mark.parametrize("more", [2, 8, 14])
def test_too_little_memory_is_told_in_a_line_and_never_as_a_fault(folder: Path, more: int) -> None:
    """A shell of many clusters has such a limit. How far dsrun gets differs by Python's size."""
    show = "print(open('/proc/self/status').read().partition('VmPeak:')[2].split()[0])"
    plain = subprocess.run([sys.executable, "-c", show], capture_output=True, check=True)
    limit = int(plain.stdout) * 1024 + (more << 20)

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = dsrun(folder, "--num_gpus", "2", "--accelerator", "cpu", "x.py", preexec_fn=lower)
    assert done.returncode in {0, 69}, done.stderr
    told = f"(the limit is {limit >> 10} KiB; raise it with ulimit -v)"
    assert (told in done.stderr) is (done.returncode == 69), done.stderr
    for wrong in (TRACEBACK, "bug in dsrun", "internal error"):
        assert wrong not in done.stderr


def test_signals_while_thousands_of_hosts_are_connected(tmp_path: Path) -> None:
    """The first one ends the start, of which one host would be waited for far longer."""
    with silent_port() as port:
        hosts = [f"no-such-host-{number}.invalid" for number in range(2000)]
        (tmp_path / "many").write_text("\n".join([f"127.0.0.1 port={port}", *hosts, ""]))
        words = [*DSRUN, "--launcher", "ssh", "--connect_timeout", "600", "--hostfile", "many"]
        with subprocess.Popen(
            [*words, "x.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            while "/2001 hosts, waiting for" not in process.stderr.readline():
                assert process.poll() is None
            for _ in range(2):
                process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=HANG)
    (line,) = [one for one in said.splitlines() if "/2001 hosts, waiting for" not in one]
    assert line.startswith("dsrun: stopped by SIGTERM after ")
    assert process.returncode == 128 + signal.SIGTERM
