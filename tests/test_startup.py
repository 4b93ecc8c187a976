"""What is loaded before anything runs: the start of a job is the time of its imports."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from .recorded import Record
from .support.checkout import BIN, IMPORTABLE
from .support.limits import HANG
from .support.played_hold import playing

DSRUN = (sys.executable, "-E", "-S", str(BIN / "dsrun"))
HEAVY = frozenset(
    {"torch", "paramiko", "rich", "psutil", "pynvml", "ssl", "asyncio", "cryptography"}
)
SLOW = frozenset(
    {"dataclasses", "inspect", "subprocess", "pathlib", "argparse", "logging", "threading"}
)
"""What a node launcher does without as well: each of these is a tenth of its start and more."""

UNUSED = frozenset(
    {"shutil", "fnmatch", "zlib", "bz2", "lzma", "shlex", "traceback", "textwrap", "tokenize"}
)
"""What a plain job on this machine has no use for: each costs as much as ten modules of ours."""

START = Record("start_modules")
"""The modules of dsrun that a plain job on this machine loads: none comes in unseen."""

LATER = (
    "dsrun.launcher.common.write_all",
    "dsrun.launcher.features.diagnosis.runner_verdict",
    "dsrun.launcher.head.fleet.node_queries",
    "dsrun.launcher.features.jobs.runner_report",
    "dsrun.launcher.features.jobs.runner_requests",
    "dsrun.launcher.features.jobs.runner_server",
    "dsrun.launcher.features.jobs.runner_waiters",
    "dsrun.launcher.features.watch.node_activity",
    "dsrun.launcher.features.elastic.node_links",
)
"""What is loaded once workers have been started: on a busy machine they may be slower than that."""

UNTIL_SHOWN = """#!/bin/sh
echo a worker is here
until grep -q 'a worker is here$' shown; do sleep 0.05; done
"""
"""A worker that ends once its line is there: the runner loads more for the end of a node."""

PREFORK = "dsrun.launcher.backends.prefork"


def python(*words: str) -> str:
    environ = {**os.environ, **IMPORTABLE}
    ran = subprocess.run(
        [sys.executable, *words], env=environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def loaded(text: str) -> set[str]:
    """The modules that are loaded after this text has run, torch and all being there to load."""
    return set(python("-c", f"import sys\n{text}\nprint(*sys.modules)").splitlines()[-1].split())


def in_order(log: str) -> list[str]:
    """The modules that `-X importtime` tells of, each behind those that it has imported."""
    lines = [line for line in log.splitlines() if line.startswith("import time:")]
    assert len(lines) > 20
    return [line.rpartition("|")[2].strip() for line in lines[1:]]


def imported(log: str) -> set[str]:
    """The same, in no order."""
    return {*in_order(log)}


@pytest.fixture
def logging_python(tmp_path: Path) -> tuple[Path, Path]:
    """A python for the nodes that tells which modules it loads, and the file it tells them to."""
    log, wrapper = tmp_path / "imports", tmp_path / "python"
    command = shlex.join([sys.executable, "-X", "importtime"])
    wrapper.write_text(f'#!/bin/sh\nexec {command} "$@" 2>>{log}\n')
    wrapper.chmod(0o755)
    return wrapper, log


def dsrun(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run dsrun on this machine, its own imports on stderr."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DSRUN", "PYTHON"))
    }
    first, *more = DSRUN
    return subprocess.run(
        [first, "-X", "importtime", *more, *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )


def test_the_runner_loads_nothing_heavy() -> None:
    found = loaded("import dsrun.launcher.runner")
    assert "dsrun.launcher.common.errors" in found
    assert found & HEAVY == set()


def test_what_explains_failures_loads_nothing_slow() -> None:
    """A job that takes longer than a second loads it, such as any job on a busy machine."""
    before = loaded("import dsrun.launcher.head.run.run")
    found = loaded(
        "import dsrun.launcher.head.run.run, dsrun.launcher.features.diagnosis.runner_verdict"
    )
    assert "dsrun.launcher.features.diagnosis.runner_table" in found - before
    assert (found - before) & (HEAVY | SLOW | UNUSED) == set()


def test_the_names_looked_for_are_seen_when_they_are_loaded() -> None:
    assert loaded("import ssl, asyncio") >= {"ssl", "asyncio"}


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--dry_run", "train.py"],
        ["--dry_run", "--json", "--host", "w[0-9]:8", "train.py"],
        ["--dry_run", "--host", "w0:2,w1:2", "--launcher", "openssh", "train.py"],
        ["--dry_run", "--host", "localhost:2", "--bind_cores_to_rank", "train.py"],
    ],
)
def test_a_dry_run_loads_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    ran = dsrun(*words, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = imported(ran.stderr)
    assert "dsrun.launcher.cli.parser" in found
    assert found & (HEAVY | {PREFORK}) == set()


def test_the_node_launcher_is_forked_before_what_only_the_runner_needs(tmp_path: Path) -> None:
    ran = dsrun("--num_gpus", "1", "--no_python", "true", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = in_order(ran.stderr)
    # Another test may list all jobs of this user just then, and be told the words of this one.
    told = {"shlex"} if "dsrun.launcher.features.jobs.runner_status" in found else set()
    # The thread is that of what writes to the screen.
    assert {*found} & (HEAVY | SLOW | UNUSED) == {"threading", *told}
    before, after = {*found[: found.index(PREFORK)]}, {*found[found.index(PREFORK) :]}
    assert {"dsrun.launcher.planning.planner", "dsrun.launcher.common.loop"} <= before
    later = {"planning.job", "head.job.job", "head.run.run", "head.output.console"}
    assert {f"dsrun.launcher.{name}" for name in later} | {"threading", "json"} <= after


def test_a_plain_local_job_loads_nothing_slow_on_the_node(
    logging_python: tuple[Path, Path], tmp_path: Path
) -> None:
    python, log = logging_python
    ran = dsrun("--python", str(python), "--no_python", "true", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    node = imported(log.read_text())
    assert {"dsrun.launcher.node.main", "dsrun.launcher.node.session.session"} <= node
    # Nor what is installed there has a say: site would load every .pth file.
    assert "site" not in node
    assert node & (HEAVY | SLOW | UNUSED) == set()
    runner = imported(ran.stderr)
    assert {"dsrun.launcher.runner", "dsrun.launcher.head.run.run"} <= runner
    assert runner & HEAVY == set()
    # Neither half loads the other one's rooms.
    assert not [name for name in node if name.startswith("dsrun.launcher.head")]
    assert not [name for name in node if name.startswith("dsrun.launcher.features.preload")]
    assert not [name for name in runner if name.startswith("dsrun.launcher.node")]


def ours(log: str) -> set[str]:
    """The modules of dsrun that `-v` tells of, also those that are imported by their name."""
    return {*re.findall(r"^import '(dsrun\.[\w.]+)'", log, re.MULTILINE)}


def test_a_start_loads_the_modules_that_are_listed(tmp_path: Path) -> None:
    """In the runner, until a worker's first line is there; in the node launcher, until its end."""
    log, python = tmp_path / "log", tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -v "$@" 2>>{log}\n')
    python.chmod(0o755)
    (tmp_path / "worker").write_text(UNTIL_SHOWN)
    (tmp_path / "worker").chmod(0o755)
    first, *more = DSRUN
    words = ["--num_gpus=1", "--python", str(python), "--no_python", "./worker"]
    with (tmp_path / "shown").open("wb") as shown:
        ran = subprocess.run(
            [first, "-v", *more, *words],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "DSRUN_ACCELERATOR": "cpu"},
            stdout=shown,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=HANG,
        )
    text = (tmp_path / "shown").read_text()
    assert ran.returncode == 0, text
    runner, seen, _ = text.partition("a worker is here\n")
    assert seen
    recorded, later = START.values(), loaded(f"import {', '.join(LATER)}")
    for name, started in (("runner", runner), ("node launcher", log.read_text())):
        START.check(name, sorted(ours(started) - (later - {*recorded.get(name, ())})))


def test_a_job_that_binds_cores_and_keeps_logs_loads_nothing_heavy_on_the_node(
    logging_python: tuple[Path, Path], tmp_path: Path
) -> None:
    python, log = logging_python
    options = ["--bind_cores_to_rank", "--log_dir", "logs", "--num_gpus=1", "--python", str(python)]
    ran = dsrun(*options, "--no_python", "true", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    node = imported(log.read_text())
    assert node & (HEAVY | {"argparse", "logging", "threading"}) == set()


def test_a_job_on_held_nodes_loads_the_planning_and_nothing_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    with playing() as hold:
        argv = [*DSRUN[:3], "-X", "importtime", *DSRUN[3:], f"--on={hold.name}", "train.py"]
        with subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as client:
            hold.requests.get(timeout=HANG)
            hold.end(0)
            _, log = client.communicate(timeout=HANG)
    assert client.returncode == 0, log
    found = imported(log)
    assert {"dsrun.launcher.features.hold.command_on", "dsrun.launcher.planning.planner"} <= found
    assert found & (HEAVY | SLOW | UNUSED | {"socket"}) == set()
    behind = ("dsrun.launcher.head", "dsrun.launcher.node")
    assert not [name for name in found if name.startswith(behind)]


def test_a_command_on_hosts_loads_nothing_heavy(tmp_path: Path) -> None:
    command = [sys.executable, "-E", "-S", "-X", "importtime", str(BIN / "dsrun-exec")]
    command += ["--host=localhost", "true"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = imported(ran.stderr)
    assert "dsrun.launcher.features.exec.runner_execution" in found
    assert found & (HEAVY | {"tarfile", "hashlib", "tempfile", "subprocess"}) == set()


def test_a_check_of_this_machine_loads_nothing_heavy(tmp_path: Path) -> None:
    command = [sys.executable, "-E", "-S", "-X", "importtime", str(BIN / "dsrun-check")]
    environ = {**os.environ, "DSRUN_ACCELERATOR": "cpu"}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = imported(ran.stderr)
    assert "dsrun.launcher.features.quick_check.runner_tables" in found
    assert "dsrun.launcher.features.full_check.runner_table" not in found
    assert (
        found
        & (HEAVY | {"hashlib", "subprocess", "dsrun.launcher.features.quick_check.node_report"})
        == set()
    )


def test_a_program_that_detaches_no_job_loads_nothing_for_that() -> None:
    assert "dsrun.launcher.api.detached" not in loaded("from dsrun.launcher.api import launch")
    assert "dsrun.launcher.api.detached" in loaded("from dsrun.launcher.api import DetachedJob")
