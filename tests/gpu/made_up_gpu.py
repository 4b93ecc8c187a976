"""A machine with a made-up GPU, and a Python whose torch and NVML are stand-ins.

Its /dev and /proc/driver are in a mount namespace of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..support.checkout import CHECKOUT
from ..support.limits import HANG
from ..support.needs import need, need_modules
from .stand_ins import made_up

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

STAND_INS = CHECKOUT / "tests" / "gpu" / "stand_ins"

DEVICES = """
set -e
mount -t tmpfs dev "$1"
for name in null zero full random urandom tty ptmx; do
    touch "$1/$name"
    mount --bind "/dev/$name" "$1/$name"
done
mkdir "$1/shm" "$1/pts"
mount --rbind /dev/shm "$1/shm"
mount --rbind /dev/pts "$1/pts"
ln -s /proc/self/fd "$1/fd"
touch "$1/nvidia0" "$1/nvidiactl"
mount --move "$1" /dev
mount -t tmpfs driver /proc/driver
cp -r "$2/." /proc/driver
shift 2
exec "$@"
"""
"""Show these two files of devices, and what the driver tells in /proc, and run a command."""

INFORMATION = f"""Model: \t\t {made_up.NAME}
GPU UUID: \t GPU-{made_up.UUID}
Bus Location: \t {made_up.ADDRESS}
Device Minor: \t 0
GPU Excluded:\t No
"""

VERSION = (
    f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {made_up.DRIVER}  Release Build\n"
)


RICH = ("rich", "markdown_it", "mdurl", "pygments")
"""rich, which draws the table of `dsrun-job top`, and what it imports."""


def _installed(module: str) -> Path:
    """Return the folder of a module of this Python."""
    need_modules(module)
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


class MadeUpGpu:
    """The machine; whatever runs on it ends with its command."""

    def __init__(
        self, folder: Path, *, without: Collection[str] = (), hidden: bool = False
    ) -> None:
        """Make what it needs, below a folder.

        Args:
            folder: an empty one.
            without: packages that are not installed.
            hidden: whether the driver's files in /proc are hidden, as in a sandbox.
        """
        need("unshare", "mount")
        self._folder = folder
        self.python = folder / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        (packages,) = folder.glob("venv/lib/python3.*/site-packages")
        for one in (*STAND_INS.iterdir(), *map(_installed, RICH)):
            if one.stem not in without:
                (packages / one.name).symlink_to(one)
        if "py_spy" not in without:
            program = Path(sys.executable).parent / "py-spy"
            need(str(program))
            (self.python.parent / "py-spy").symlink_to(program)
        gpu = folder / "driver" / "nvidia" / "gpus" / made_up.ADDRESS
        if not hidden:
            gpu.mkdir(parents=True)
            (gpu / "information").write_text(INFORMATION)
            (folder / "driver" / "nvidia" / "version").write_text(VERSION)
        for name in ("dev", "driver", "held"):
            (folder / name).mkdir(exist_ok=True)

    def run(self, *words: str | Path, fault: str = "") -> subprocess.CompletedProcess[str]:
        """Run `python` there with these arguments, in the checkout, with a fault of the GPU."""
        with self.start(*words, fault=fault) as started:
            try:
                out, err = started.communicate(timeout=HANG)
            except subprocess.TimeoutExpired:
                started.terminate()
                raise
        return subprocess.CompletedProcess(words, started.returncode, out, err)

    def start(self, *words: str | Path, fault: str = "") -> subprocess.Popen[str]:
        """Do so, without waiting for its end."""
        command = ["unshare", "--mount", "sh", "-c", DEVICES, "sh"]
        command += [str(self._folder / "dev"), str(self._folder / "driver"), str(self.python)]
        return subprocess.Popen(
            [*command, *map(str, words)],
            cwd=CHECKOUT,
            env=self._environ(fault),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def users(self) -> list[int]:
        """Return the processes that have used the GPU and still run."""
        pids = [int(one.name) for one in (self._folder / "held").glob("[0-9]*")]
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]

    def _environ(self, fault: str) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
        kept["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {**kept, "STAND_IN_FOLDER": str(self._folder / "held"), "STAND_IN_FAULT": fault}
