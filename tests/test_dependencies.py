"""Each dependency that is missing, by commands whose Python does not have it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import venv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .gpu.made_up_gpu import MadeUpGpu
from .support.checkout import BIN, CHECKOUT, IMPORTABLE
from .support.limits import HANG, wait_for
from .support.needs import need_modules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPENDENCIES = {
    "cloudpickle": "cloudpickle",
    "cryptography": "cryptography",
    "nvidia-ml-py": "pynvml",
    "paramiko": "paramiko",
    "pathspec": "pathspec",
    "psutil": "psutil",
    "py-spy": "py_spy",
    "rich": "rich",
}
"""The modules by the names of their packages; cryptography is a dependency of paramiko's."""

EVERYTHING = tuple(DEPENDENCIES)


def python_without(folder: Path, *packages: str) -> Path:
    """Make a Python that has what is installed here, but for these packages; return its path."""
    venv.create(folder, symlinks=True)
    (there,) = folder.glob("lib/python3.*/site-packages")
    modules = {DEPENDENCIES[name] for name in packages}
    for one in Path(sysconfig.get_path("purelib")).iterdir():
        name = re.split(r"[.-]", one.name)[0]
        if name not in modules and one.suffix != ".pth":
            (there / one.name).symlink_to(one)
    return folder / "bin" / "python"


class Bare:
    """A folder in which commands of dsrun run, with a Python that lacks packages."""

    def __init__(self, folder: Path, *packages: str) -> None:
        self.python = python_without(folder / "venv", *packages)
        self.home = folder / "home"
        self.place = folder / "place"
        self.home.mkdir()
        self.place.mkdir()
        (self.place / "train.py").write_text('print("trained")\n')

    def environ(self, **more: str) -> dict[str, str]:
        plain = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        states = {"HOME": self.home, "XDG_STATE_HOME": self.home / "state"}
        own = {name: str(path) for name, path in states.items()}
        return {**plain, **own, **IMPORTABLE, "DSRUN_ACCELERATOR": "cpu", **more}

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command of dsrun, or a program of Python if its first word is `-c`."""
        command, *rest = words
        argv = [command] if command == "-c" else [str(BIN / command)]
        return subprocess.run(
            [str(self.python), *argv, *rest],
            cwd=self.place,
            env=self.environ(**more),
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG,
            stdin=subprocess.DEVNULL,
        )

    def install(self, package: str) -> str:
        """Return what the messages advise."""
        return f"`{self.python} -m pip install {package}`"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    """The folder, with a Python that lacks everything."""
    return Bare(tmp_path_factory.mktemp("bare"), *EVERYTHING)


def test_every_dependency_is_tried() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    named = {re.split(r"[<>=; ]", one)[0] for one in project["dependencies"]}
    assert named == {*EVERYTHING, "tomli"} - {"cryptography"}


def test_a_job_needs_none_of_them(bare: Bare) -> None:
    ran = bare.run("dsrun", "--num_gpus", "2", "train.py")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("| trained") == 2


@pytest.mark.parametrize(
    "words",
    [
        ("dsrun", "--help"),
        ("dsrun", "--dry_run", "--json", "train.py"),
        ("dsrun", "--show_config"),
        ("dsrun-job",),
        ("dsrun-job", "list", "--ended"),
        ("dsrun-job", "top", "--json"),
        ("dsrun-topo",),
        ("dsrun-exec", "--host", "localhost", "--", "true"),
    ],
    ids=" ".join,
)
def test_commands_that_need_none_of_them(bare: Bare, words: tuple[str, ...]) -> None:
    ran = bare.run(*words)
    assert ran.returncode == 0, ran.stderr
    assert "not installed" not in ran.stderr


def test_openssh_takes_the_place_of_paramiko(tmp_path: Path) -> None:
    without = Bare(tmp_path, "paramiko")
    ran = without.run("dsrun", "--host", "n1.invalid,n2.invalid", "--dry_run", "train.py")
    assert ran.returncode == 0, ran.stderr
    assert (
        "openssh (the ssh program; the Python package paramiko is not installed; run"
        f" {without.install('paramiko')})"
    ) in ran.stdout
    assert "Traceback" not in ran.stderr


def test_the_line_stands_in_the_job_as_well(tmp_path: Path) -> None:
    """Which ends here, as the client is one that fails."""
    without, client = Bare(tmp_path, "paramiko"), tmp_path / "bin" / "ssh"
    client.parent.mkdir()
    client.write_text("#!/bin/sh\necho cannot reach it >&2\nexit 255\n")
    client.chmod(0o755)
    ran = without.run("dsrun", "--host", "n1,n2", "train.py", PATH=f"{client.parent}:/usr/bin:/bin")
    assert ran.returncode == 69
    (line,) = [one for one in ran.stderr.splitlines() if "paramiko" in one]
    assert line.startswith("dsrun: launcher: openssh (the ssh program; the Python package paramiko")


REFUSED = [
    (
        ("dsrun", "--host", "n1,n2", "--launcher", "ssh", "train.py"),
        "paramiko",
        "--launcher ssh: the Python package paramiko is not installed; run {},"
        " or use --launcher openssh",
    ),
    (
        ("dsrun-hold", "--host", "n1,n2", "--launcher", "ssh"),
        "paramiko",
        "--launcher ssh: the Python package paramiko is not installed; run {},"
        " or use --launcher openssh",
    ),
    (
        ("dsrun", "--host", "n1,n2", "--launcher", "pdsh", "train.py"),
        "cryptography",
        "--launcher pdsh: the Python package cryptography is not installed; run {},"
        " or use --launcher openssh",
    ),
    (
        ("dsrun", "--host", "n1,n2", "--launcher", "openmpi", "train.py"),
        "cryptography",
        "--launcher openmpi: the Python package cryptography is not installed; run {},"
        " or use --launcher ssh",
    ),
    (
        ("dsrun", "--no_ssh", "--nnodes=2", "--node_rank=0", "--master_addr=127.0.0.1", "train.py"),
        "cryptography",
        "--no_ssh: the Python package cryptography is not installed; run {}",
    ),
    (
        ("dsrun", "--host", "n1,n2", "--sync=.", "train.py"),
        "pathspec",
        "--sync: {place}/.gitignore: the Python package pathspec, which reads this file, is not"
        " installed; run {}",
    ),
    (
        ("dsrun-job", "top"),
        "rich",
        "dsrun-job top: the Python package rich is not installed; run {}, or use `dsrun-job list`"
        " or `dsrun-job top --json`",
    ),
]


@pytest.mark.parametrize(
    ("words", "package", "line"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED]
)
def test_what_cannot_be_done_without_one_is_refused_in_a_line(
    words: tuple[str, ...], package: str, line: str, tmp_path: Path
) -> None:
    without = Bare(tmp_path, package)
    (without.place / ".gitignore").write_text("*.o\n")
    program = tmp_path / "bin" / "pdsh"
    program.parent.mkdir()
    for name in ("pdsh", "mpirun", "ssh"):
        program.with_name(name).write_text("#!/bin/sh\nexit 1\n")
        program.with_name(name).chmod(0o755)
    ran = without.run(*words, PATH=f"{program.parent}:/usr/bin:/bin")
    assert ran.returncode == 2, ran.stderr
    expected = line.format(without.install(package), place=without.place)
    *before, last = ran.stderr.splitlines()
    assert last == f"dsrun: {expected}"
    assert not [one for one in before if not one.startswith("dsrun: 2 nodes from --host")]


def test_a_configuration_that_neither_ssh_nor_paramiko_can_read(tmp_path: Path) -> None:
    without, programs = Bare(tmp_path, "paramiko"), tmp_path / "bin"
    programs.mkdir()
    (without.home / ".ssh").mkdir()
    config = without.home / ".ssh" / "config"
    config.write_text("Host n1\n  Port 99\n")
    text = "from dsrun.launcher.backends.ssh.config_reader import by_paramiko\n"
    text += f"by_paramiko([{str(config)!r}], 'n1')\n"
    ran = without.run("-c", text, PATH=str(programs))
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == (
        f"dsrun.launcher.backends.ssh.config.Unreadable: {config}: the Python package"
        " paramiko, which reads it where the program ssh is missing, is not installed; run"
        f" {without.install('paramiko')}"
    )


# -- jobs from Python, and training code --------------------------------------------------------

LAUNCHED = """
from dsrun import launch
try:
    launch(print, args=("called",), hosts="localhost", python={python!r}).wait()
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_function_needs_cloudpickle_here(tmp_path: Path) -> None:
    without = Bare(tmp_path, "cloudpickle")
    ran = without.run("-c", LAUNCHED.format(python=sys.executable))
    assert ran.stdout == (
        "LaunchError the Python package cloudpickle, which sends functions, is not installed; run"
        f" {without.install('cloudpickle')}\n"
    )


def test_a_function_needs_cloudpickle_on_the_nodes(bare: Bare) -> None:
    need_modules("cloudpickle")
    ran = subprocess.run(
        [sys.executable, "-c", LAUNCHED.format(python=str(bare.python))],
        cwd=bare.place,
        env=bare.environ(),
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG,
    )
    told = ran.stdout + ran.stderr
    assert (
        "NotLoaded: the Python package cloudpickle, needed to send functions, is not installed"
        f" here; run {bare.install('cloudpickle')}"
    ) in told
    assert "\nTypeError" not in told, "of a call that was made, and whose result was lost"
    assert "called" not in told


def test_psutil_is_needed_for_one_number_only(tmp_path: Path) -> None:
    need_modules("torch")
    text = "from dsrun.accelerator import get_accelerator\n"
    text += "one = get_accelerator()\nprint(one.memory_allocated() > 0, flush=True)\n"
    text += "one.available_memory()\n"
    without = Bare(tmp_path, "psutil")
    ran = without.run("-c", text)
    assert ran.stdout == "True\n", ran.stderr
    assert ran.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: mem_get_info: psutil is not installed; run"
        f" {without.install('psutil')}"
    )


# -- on a node ----------------------------------------------------------------------------------


BUSY = "print('up', flush=True)\nwhile True: pass\n"
"""A rank that never rests, so that no signal may ask it for its stack."""


@contextmanager
def running(job: subprocess.Popen[str], bare: Bare) -> Iterator[dict[str, Any]]:
    """Wait until the rank of a job runs; yield what is told of the job, and end it."""
    assert job.stdout is not None
    try:
        while not (line := job.stdout.readline()).endswith("| up\n"):
            assert line, "the job has ended"
        known: list[dict[str, Any]] = []

        def told() -> bool:
            jobs = json.loads(bare.run("dsrun-job", "top", "--json").stdout)["jobs"]
            known[:] = [one for one in jobs if one["pid"] == job.pid and one["used"]]
            return bool(known)

        wait_for(told, "a job that tells of itself")
        yield known[0]
    finally:
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=HANG)


def test_a_node_without_py_spy_says_so(bare: Bare) -> None:
    (bare.place / "busy.py").write_text(BUSY)
    command = [str(bare.python), str(BIN / "dsrun"), "--num_gpus=1", "busy.py"]
    with (
        subprocess.Popen(
            command, cwd=bare.place, env=bare.environ(), stdout=subprocess.PIPE, text=True
        ) as started,
        running(started, bare) as job,
    ):
        ran = bare.run("dsrun-job", "stacks", job["job_id"])
    assert ran.returncode == 0, ran.stderr
    assert "py-spy is not installed on this node (pip install py-spy)" in ran.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files up")
def test_a_node_without_nvml_says_so(bare: Bare, tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    machine = MadeUpGpu(tmp_path / "machine", without={"pynvml"})
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    started = machine.start(BIN / "dsrun", script)
    with started, running(started, bare) as job:
        text = subprocess.run(
            [sys.executable, str(BIN / "dsrun-job"), "top", job["job_id"]],
            env=bare.environ(COLUMNS="200"),
            capture_output=True,
            text=True,
            check=True,
            timeout=HANG,
        ).stdout
    (device,) = job["used"][0]["devices"]
    assert {**device, "uuid": ""} == {"number": 0, "uuid": "", "busy": None, "used": 0, "total": 0}
    assert "its GPUs cannot be read: `pip install nvidia-ml-py` for the workers' Python" in text
