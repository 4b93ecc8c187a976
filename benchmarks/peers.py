"""The launchers for comparison; each benchmark installs those that it needs.

torchrun and deepspeed go into their own virtual environment in `benchmarks/.peers`, and
ClusterShell into another. pdsh and Open MPI are system packages, installed with apt if the user is
root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from benchmarks.measure import CHECKOUT, tell

HOME = CHECKOUT / "benchmarks" / ".peers"
# torch first, with its version: deepspeed might choose another build of several gigabytes.
STEPS = (("torch==2.13.0",), ("torch==2.13.0", "deepspeed==0.19.*"))
PACKAGES = {"pdsh": "pdsh", "mpirun": "openmpi-bin"}


def python_peer(name: str) -> str:
    """Return the path of `torchrun`, `deepspeed` or `python` in the peers' virtual environment.

    Raises:
        subprocess.CalledProcessError: it cannot be installed; pip has said why.
    """
    folder = HOME / "venv" / "bin"
    if not (HOME / "ready").exists():
        _install(str(folder / "python"))
        (HOME / "ready").touch()
    return str(folder / name)


def clush() -> str:
    """Return the path of ClusterShell's `clush`, in its own virtual environment.

    Raises:
        subprocess.CalledProcessError: it cannot be installed; pip has said why.
    """
    program = HOME / "clustershell" / "bin" / "clush"
    if not program.exists():
        tell(f"installing ClusterShell in {HOME}")
        subprocess.run([sys.executable, "-m", "venv", str(program.parents[1])], check=True)
        pip = [str(program.with_name("python")), "-m", "pip", "install", "--quiet", "ClusterShell"]
        subprocess.run(pip, stdout=sys.stderr, check=True)
    return str(program)


def system_peer(name: str) -> str | None:
    """Return the path of `pdsh` or `mpirun`, None if it is missing and cannot be installed."""
    found = shutil.which(name)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        tell(f"installing {PACKAGES[name]}")
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", PACKAGES[name]]
        subprocess.run(["apt-get", "update", "-qq"], stdout=sys.stderr, check=False)
        subprocess.run(install, stdout=sys.stderr, check=False)
        found = shutil.which(name)
    if found is None:
        tell(f"no {name}: it is skipped")
    return found


def slurm() -> str | None:
    """Return the path of `srun` if a Slurm accepts jobs here, otherwise None."""
    srun = shutil.which("srun")
    answer = srun and subprocess.run([srun, "-n2", "true"], capture_output=True, check=False)
    if not answer or answer.returncode:
        tell("no Slurm accepts jobs here: srun is skipped")
        return None
    return srun


def _install(python: str) -> None:
    tell(f"installing torch and deepspeed in {HOME} (about 1 GB)")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME / "venv")], check=True)
    env = {**os.environ, "DS_BUILD_OPS": "0"}
    for packages in STEPS:
        pip = [python, "-m", "pip", "install", "--quiet", *packages]
        subprocess.run(pip, env=env, stdout=sys.stderr, check=True)
