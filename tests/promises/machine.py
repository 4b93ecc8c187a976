"""The machine on which rows are played, in words for the page."""

from __future__ import annotations

import os
import platform
import re
import subprocess

PROGRAMS = {
    "OpenSSH": ("ssh", "-V"),
    "pdsh": ("pdsh", "-V"),
    "Slurm": ("slurmctld", "-V"),
    "Open MPI": ("mpirun.openmpi", "--version"),
    "MPICH": ("mpiexec.mpich", "--version"),
    "podman": ("podman", "--version"),
}
"""How each tells its version."""


def machine() -> dict[str, str]:
    """Return what is on this machine, and which versions."""
    found = {
        "kernel": f"{platform.system()} {platform.release()}",
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
    }
    return {**found, **{name: _version(argv) for name, argv in PROGRAMS.items()}}


def _version(argv: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "none"
    found = re.search(r"\d+\.\d+[\w.]*", done.stdout + done.stderr)
    return found[0] if found else "?"
