"""Facts of the workers' interpreter, and of the libraries that it finds."""

from __future__ import annotations

import os
import re
import sys
from itertools import chain

from ....accelerator.hardware import sysfs
from ...common import files, system
from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Interpreter(NamedTuple):
    """A Python on this machine.

    Attributes:
        path: the path as given.
        version: such as `3.11.2`; `3.11` or "" if only that is found.
        folders: the existing folders that it imports packages from, in order.
    """

    path: str
    version: str
    folders: tuple[str, ...]


def interpreter(path: str, environ: Mapping[str, str]) -> Interpreter:
    """Return the facts about a Python with the workers' environment."""
    real = os.path.realpath(path)
    config = _config(path)
    base = os.path.realpath(config["home"]) if "home" in config else os.path.dirname(real)
    version = _version(real, config)
    short = ".".join(version.split(".")[:2])
    apart = bool(config) and config.get("include-system-site-packages") != "true"
    folders = [one for one in environ.get("PYTHONPATH", "").split(":") if one]
    if not apart and "PYTHONNOUSERSITE" not in environ:
        folders.append(_user_base(environ) + f"/lib/python{short}/site-packages")
    if config:
        folders += _of(os.path.dirname(os.path.dirname(os.path.abspath(path))), short)
    if not apart:
        folders += _of(os.path.dirname(base), short)
    existing: dict[str, str] = {}
    for folder in filter(system.isdir, folders):
        existing.setdefault(os.path.realpath(folder), folder)
    return Interpreter(path, version, tuple(existing.values()))


def _of(prefix: str, short: str) -> Iterator[str]:
    """Yield the package folders of an installation, including Debian's special ones."""
    if prefix == "/usr":
        yield f"/usr/local/lib/python{short}/dist-packages"
        yield "/usr/lib/python3/dist-packages"
    for lib in ("lib", "lib64"):
        yield f"{prefix}/{lib}/python{short}/site-packages"


def _user_base(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME") or files.home() or "/"
    return environ.get("PYTHONUSERBASE") or os.path.join(home, ".local")


def _config(path: str) -> dict[str, str]:
    """Return the settings of a virtual environment, {} for another Python."""
    folder = os.path.dirname(os.path.abspath(path))
    for place in (folder, os.path.dirname(folder)):
        try:
            with system.open_file(
                f"{place}/pyvenv.cfg", encoding="utf-8", errors="replace"
            ) as file:
                pairs = (line.partition("=") for line in file.read(65536).splitlines())
                return {name.strip().lower(): value.strip() for name, _, value in pairs}
        except OSError:
            continue
    return {}


def _version(real: str, config: Mapping[str, str]) -> str:
    """Return the version of a Python: our own if it is ours, else from its files."""
    if real == os.path.realpath(sys.executable):
        return ".".join(map(str, sys.version_info[:3]))
    named = re.search(r"python(3\.\d+)$", real)
    prefix = os.path.dirname(os.path.dirname(real))
    short = named[1] if named else _only(prefix)
    exact = _patch_level(f"{prefix}/include/python{short}/patchlevel.h")
    return exact or config.get("version") or config.get("version_info", "")[:7].strip(".") or short


def _only(prefix: str) -> str:
    """Return the version of the only Python 3 below a folder, "" if there is not one."""
    try:
        names = system.listdir(f"{prefix}/lib")
    except OSError:
        return ""
    found = [name[6:] for name in names if re.fullmatch(r"python3\.\d+", name)]
    return found[0] if len(found) == 1 else ""


def _patch_level(path: str) -> str:
    """Return the version in a header of Python, "" if it is not installed."""
    try:
        with system.open_file(path, encoding="utf-8", errors="replace") as file:
            found = re.search(r'PY_VERSION\s+"(\d+\.\d+\.\d+)', file.read(65536))
    except OSError:
        return ""
    return found[1] if found else ""


PACKAGES = frozenset(
    {
        *("torch", "numpy", "deepspeed", "triton", "transformers", "accelerate", "lightning"),
        *("pytorch_lightning", "flash_attn", "apex", "xformers", "tokenizers", "datasets", "peft"),
        *("megatron_core", "transformer_engine", "torchvision", "torchaudio", "horovod", "jax"),
        *("bitsandbytes", "safetensors", "mpi4py", "ray", "vllm", "torch_npu", "torch_xla"),
    }
)
"""Packages by their names with underscores."""

PARTS = frozenset({"nccl", "cudnn", "cublas", "nvshmem"})
"""NVIDIA's libraries that are packages named `nvidia_NAME_cu12`."""

SYSTEM = (
    *("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib"),
    *("/usr/local/cuda/lib64", "/usr/lib"),
)
"""Folders of the system's libraries."""

cache: dict[tuple[object, ...], dict[str, str]] = {}


def versions(python: Interpreter, environ: Mapping[str, str], root: str = "/") -> dict[str, str]:
    """Return the versions found in files, by name.

    `nccl` is the version included with torch, else the system's; `nccl_preferred` is
    another version that LD_LIBRARY_PATH puts before it.
    """
    searched = tuple(one for one in environ.get("LD_LIBRARY_PATH", "").split(":") if one)
    key = (*((folder, _changed(folder)) for folder in python.folders), searched, root)
    if key not in cache:
        cache.clear()
        cache[key] = _read(python.folders, searched, root)
    return dict(cache[key])


def _read(folders: Sequence[str], searched: Sequence[str], root: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in folders:
        found = dict(_packages(folder)) | found
    found |= _torch(folders)
    preferred = _library("libnccl.so.2", searched)
    if preferred:
        found["nccl_preferred" if "nccl" in found else "nccl"] = preferred
    if "nccl" not in found:
        found["nccl"] = _library("libnccl.so.2", [f"{root}{one[1:]}" for one in SYSTEM])
    found["driver"] = _driver(root)
    return {name: version for name, version in sorted(found.items()) if version}


def _packages(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the relevant packages of a folder, from the names of their metadata (PEP 427)."""
    try:
        names = system.listdir(folder)
    except OSError:
        return
    for entry in names:
        if not entry.endswith((".dist-info", ".egg-info")):
            continue
        name, _, version = entry.rpartition(".")[0].partition("-")
        name = re.sub(r"[-_.]+", "_", name).lower()
        version = version.partition("-")[0]
        if name in PACKAGES:
            yield name, version
        elif (part := re.fullmatch(r"nvidia_([a-z]+)(_cu\d+)?", name)) and part[1] in PARTS:
            yield part[1], version


def _torch(folders: Sequence[str]) -> dict[str, str]:
    """Return the versions of torch and of the libraries it was built with, from its version.py."""
    linked = (named for folder in folders for named in _linked(folder))
    for folder in chain(folders, linked):
        text = sysfs.text(f"{folder}/torch/version.py")
        if text:
            found = dict(re.findall(r"^(\w+)\b[^=\n]*= *['\"]([^'\"\n]+)['\"]", text, re.MULTILINE))
            names = {"__version__": "torch", "cuda": "cuda", "hip": "hip", "xpu": "xpu"}
            return {ours: found[its] for its, ours in names.items() if its in found}
    return {}


def _linked(folder: str) -> Iterator[str]:
    """Yield the folders that files of a package folder name (Python's site module, setuptools)."""
    try:
        names = system.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.endswith((".pth", ".egg-link")):
            lines = sysfs.text(f"{folder}/{name}").splitlines()
            code = ("import ", "import\t", "#")
            yield from (
                os.path.join(folder, one) for one in lines if one and not one.startswith(code)
            )


def _driver(root: str) -> str:
    """Return the version of NVIDIA's or AMD's kernel driver."""
    for module in ("nvidia", "amdgpu"):
        if version := sysfs.line(f"{root}sys/module/{module}/version"):
            return version
    return ""


def _library(name: str, folders: Sequence[str]) -> str:
    """Return the version in the name of the file that a library's link leads to."""
    for folder in folders:
        path = os.path.join(folder, name)
        if system.exists(path):
            return os.path.realpath(path).rpartition(".so.")[2]
    return ""


def _changed(path: str) -> int:
    try:
        return system.stat(path).st_mtime_ns
    except OSError:
        return 0
