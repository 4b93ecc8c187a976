"""How node launchers get started: one small file a way, and the table of them."""

from __future__ import annotations

from importlib import import_module

from .base import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .base import Backend

BACKENDS = {
    "local": ("local", "Local"),
    "ssh": ("ssh.paramiko", "Ssh"),
    "openssh": ("ssh.openssh", "OpenSSH"),
    "pdsh": ("ssh.pdsh", "Pdsh"),
    "openmpi": ("engines.openmpi", "OpenMpi"),
    "mpich": ("engines.mpich", "Mpich"),
    "impi": ("engines.impi", "IntelMpi"),
    "mvapich": ("engines.mvapich", "Mvapich"),
    "slurm": ("engines.slurm", "Slurm"),
}
"""Name to module and class; a module is imported when its backend is used."""

ENGINES = frozenset({"openmpi", "mpich", "impi", "mvapich", "slurm"})
"""Those that start every node, this machine's too, and tell each which one it is."""

BY_HAND = ("none", "ByHand")
"""The way without a launcher: `--no_ssh`."""


def load(name: str, settings: Settings) -> Backend:
    """Return the backend of that name, which is in BACKENDS, or "none"."""
    module, kind = BACKENDS.get(name, BY_HAND)
    backend: Backend = getattr(import_module(f".{module}", __name__), kind)(settings)
    return backend
