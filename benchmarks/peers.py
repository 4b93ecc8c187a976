"""The launchers to compare with; each is installed by the benchmark that needs it.

torchrun and deepspeed go into a virtual environment of their own in `benchmarks/.peers`, and
ClusterShell into another; pdsh and Open MPI are the system's packages, installed with apt where
this is root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from benchmarks.measure import CHECKOUT, tell

HOME = CHECKOUT / "benchmarks" / ".peers"
# torch first and by number: what deepspeed would choose may be gigabytes of another build.
STEPS = (("torch==2.13.0",), ("torch==2.13.0", "deepspeed==0.19.*"))
PACKAGES = {"pdsh": "pdsh", "mpirun": "openmpi-bin"}


def python_peer(name: str) -> str:
    """The path of `torchrun`, `deepspeed` or `python` in the peers' virtual environment.

    Raises:
        subprocess.CalledProcessError: it cannot be installed; pip has said why.
    """
    folder = HOME / "venv" / "bin"
    if not (HOME / "ready").exists():
        _install(str(folder / "python"))
        (HOME / "ready").touch()
    return str(folder / name)


def clush() -> str:
    """The path of ClusterShell's `clush`, in a virtual environment of its own.

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
    """The path of `pdsh` or `mpirun`; None where it is not and cannot be installed."""
    found = shutil.which(name)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        tell(f"installing {PACKAGES[name]}")
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", PACKAGES[name]]
        subprocess.run(["apt-get", "update", "-qq"], stdout=sys.stderr, check=False)
        subprocess.run(install, stdout=sys.stderr, check=False)
        found = shutil.which(name)
    if found is None:
        tell(f"no {name}: it is left out")
    return found


def slurm() -> str | None:
    """The path of `srun` where a Slurm takes jobs here; None elsewhere."""
    srun = shutil.which("srun")
    answer = srun and subprocess.run([srun, "-n2", "true"], capture_output=True, check=False)
    if not answer or answer.returncode:
        tell("no Slurm takes jobs here: srun is left out")
        return None
    return srun


def _install(python: str) -> None:
    tell(f"installing torch and deepspeed in {HOME} (about 1 GB)")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME / "venv")], check=True)
    env = {**os.environ, "DS_BUILD_OPS": "0"}
    for packages in STEPS:
        pip = [python, "-m", "pip", "install", "--quiet", *packages]
        subprocess.run(pip, env=env, stdout=sys.stderr, check=True)
