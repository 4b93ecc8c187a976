"""All facts about a machine that help to find problems, by name.

It shows what DeepSpeed's `ds_report` and torch's `collect_env` show. Nothing here is compared
before a job, so it may take seconds.
"""

from __future__ import annotations

import os
import re
import subprocess

from ...common.text import plain, read_json
from ...specs.environment import from_wire
from .node_collect import environ_of
from .node_interpreter import interpreter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...node.workers.prepare import NodeSetup

TOOLS: Mapping[str, Sequence[str]] = {
    "gcc": ("gcc", "--version"),
    "clang": ("clang", "--version"),
    "cmake": ("cmake", "--version"),
    "nvcc": ("nvcc", "--version"),
    "hipcc": ("hipcc", "--version"),
    "ofed": ("ofed_info", "-s"),
    "mpirun": ("mpirun", "--version"),
}
"""Programs that tell their versions."""

SECONDS = 10.0
"""Seconds for one section."""

TORCH_SECONDS = 120.0
"""Seconds for torch and DeepSpeed to be imported and to describe themselves."""


def report(setup: NodeSetup) -> dict[str, str]:
    """Return all known facts, by name; facts that do not apply to a machine are left out."""
    environ = environ_of(setup)
    found = {**_system(), **dict(_tools(environ)), **dict(_networks())}
    python = interpreter(os.fsdecode(setup.python), environ)
    found["site-packages"] = ":".join(python.folders)
    found |= _of_torch(python.path, environ, os.fsdecode(setup.workdir))
    return {name: _shown(value) for name, value in found.items() if value}


def _shown(value: str) -> str:
    return plain(value.encode("utf-8", "replace").decode())[:2000]


def _system(root: str = "/") -> dict[str, str]:
    system = os.uname()
    cpus = _text(f"{root}proc/cpuinfo")
    sockets = len(set(re.findall(r"^physical id\s*: (.*)", cpus, re.MULTILINE))) or 1
    cores = len(re.findall(r"^processor\s*:", cpus, re.MULTILINE))
    return {
        "os": _match(r'^PRETTY_NAME="?([^"\n]*)', _text(f"{root}etc/os-release")),
        "kernel": f"{system.release} {system.machine}",
        "libc": os.confstr("CS_GNU_LIBC_VERSION") or "",
        "cpu": _match(r"^model name[^:]*: (.*)", cpus),
        "cpus": str(cores),
        "sockets": str(sockets),
        "driver": _text(f"{root}proc/driver/nvidia/version").split("\n")[0],
    }


def _tools(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, argv in TOOLS.items():
        lines = [line.strip() for line in _output(argv, environ, SECONDS).split("\n")]
        told = [line for line in lines if re.search(r"\d", line) and "opyright" not in line]
        if told:
            yield name, next((line for line in told if "release" in line), told[0])


def _networks(root: str = "/") -> Iterator[tuple[str, str]]:
    """Yield the speed and state of network cards, including InfiniBand's ports."""
    for card in _names(f"{root}sys/class/net"):
        folder = f"{root}sys/class/net/{card}"
        if os.path.exists(f"{folder}/device"):
            speed, state = _text(f"{folder}/speed").strip(), _text(f"{folder}/operstate").strip()
            known = speed.isdecimal()
            yield f"network.{card}", f"{state}, {speed} Mb/s" if known else state
    for device in _names(f"{root}sys/class/infiniband"):
        for port in _names(f"{root}sys/class/infiniband/{device}/ports"):
            folder = f"{root}sys/class/infiniband/{device}/ports/{port}"
            facts = (_text(f"{folder}/{name}").strip() for name in ("state", "rate", "link_layer"))
            yield f"infiniband.{device}:{port}", ", ".join(filter(None, facts))


def _of_torch(python: str, environ: Mapping[str, str], workdir: str) -> dict[str, str]:
    """Return torch's and DeepSpeed's facts about themselves, imported by the workers' Python."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_report.py")
    printed = _output([python, "-B", script], environ, TORCH_SECONDS, workdir)
    try:
        found = read_json(printed.strip().rpartition("\n")[2])
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return {"torch.import": "failed"}
    return {str(name): str(value) for name, value in found.items()}


def _output(
    argv: Sequence[str], environ: Mapping[str, str], seconds: float, folder: str = "/"
) -> str:
    """Return the output of a program, "" if it is missing or takes too long."""
    wired = {from_wire(name): from_wire(value) for name, value in environ.items()}
    try:
        done = subprocess.run(
            argv,
            env=wired,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def _match(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else ""


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""
