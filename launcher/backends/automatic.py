"""Reasons why `--launcher auto` passes over a backend."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .spec import Candidates


def other_hosts(candidates: Candidates) -> str:
    """Return a reason if there are hosts besides this machine; else ""."""
    return "there are other hosts" if candidates.remote else ""


def outside_slurm(candidates: Candidates) -> str:
    """Return a reason unless all hosts are nodes of the Slurm job that dsrun runs in; else ""."""
    if "SLURM_JOB_ID" not in os.environ:
        return "this is not inside a Slurm job"
    from ..resources import allocation

    held = allocation.find(os.environ)
    nodes = [host.name for host in held.hosts] if held and held.scheduler == "slurm" else []
    names = {host.name for host in candidates.hosts}
    if not names.issubset(nodes) and nodes:
        from ..resources.aliases import meant

        names -= meant(names, nodes).keys()
    return "" if names.issubset(nodes) else "some hosts are not nodes of this Slurm job"


def not_for_paramiko(candidates: Candidates) -> str:
    """Return a reason not to use paramiko for these hosts, or "".

    Raises:
        UsageError: the user's ssh configuration cannot be read.
    """
    from importlib.util import find_spec

    if candidates.args:
        return "paramiko does not use --launcher_args"
    if find_spec("paramiko") is None:
        from ..common.packages import lacks

        return lacks("paramiko")
    from .ssh.unsupported import reason_for_openssh

    return reason_for_openssh(candidates.remote, candidates.port)
