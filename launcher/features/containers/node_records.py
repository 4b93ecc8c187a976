"""Records of the containers on a host, by which those of dead jobs are found and removed.

A record is the file to which the runtime's client writes the id of its container. Its name has the
job, and the pid and start time of the client, which keeps those of the host half.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress

from ...common import executable
from ...common.errors import NodeError, reason
from ...common.network import lines_of
from ...common.records import NamedTuple
from ...node.machine.processes import started
from .node_images import answer, own_folder
from .runtimes import LABEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

KEEPING = ("podman", "docker")
"""Runtimes whose containers can outlive their clients."""

ENDING = ".cid"
"""The ending of a record's name."""

SHOWN = 12
"""Letters of an id that are shown, as by the clients."""


class Record(NamedTuple):
    """A record of this host.

    Attributes:
        path: its file.
        runtime: the name of the client's program.
        job: the id of the job.
        alive: whether the client still runs.
    """

    path: str
    runtime: str
    job: str
    alive: bool

    @property
    def container(self) -> str:
        """The id of the container, "" before there is one."""
        try:
            with open(self.path, encoding="ascii", errors="replace") as file:
                return file.read(200).strip()
        except OSError:
            return ""


def opened(tool: str, job: str) -> str:
    """Return the file for the id of a new container; first remove the containers of dead jobs.

    Raises:
        NodeError: the folder of the records cannot be used, or the client does not answer.
    """
    try:
        folder = own_folder()
        runtime, pid = os.path.basename(tool), os.getpid()
        dead = [one for one in _records(folder) if one.runtime == runtime and not one.alive]
    except OSError as error:
        raise NodeError(f"--container: {error.filename}: {reason(error)}") from None
    remove(tool, dead)
    place = f"{os.uname().nodename}.{_boot()}.{runtime}.{job}.{pid}.{started(pid)}"
    return f"{folder}/{place}{ENDING}"


def stop(job: str, grace: float) -> list[str]:
    """End the containers of a job on this host, alive or not; return them in words.

    Raises:
        NodeError: a client does not answer.
        OSError: the records cannot be read.
    """
    folder = own_folder()
    mine = [one for one in _records(folder) if one.job == job]
    ended = []
    for runtime in sorted({one.runtime for one in mine}):
        if tool := executable.find(runtime):
            ended += remove(tool, [one for one in mine if one.runtime == runtime], grace)
    return ended


def remove(tool: str, records: Collection[Record], grace: float = 0.0) -> list[str]:
    """Remove containers of records, and the records; return those that still existed, in words.

    A container is known by its id and by its label, which has the job's id.

    Args:
        tool: the client.
        records: the records, all of this client's runtime.
        grace: seconds between SIGTERM and SIGKILL.

    Raises:
        NodeError: the client does not answer.
    """
    if not records:
        return []
    runtime, removed = os.path.basename(tool), list[str]()
    label = f'index .Labels "{LABEL}"' if runtime == "podman" else f'.Label "{LABEL}"'
    form = f"--format={{{{.ID}}}} {{{{{label}}}}}"
    listed = answer([tool, "ps", "--all", "--no-trunc", f"--filter=label={LABEL}", form])
    known = {tuple(line.split()) for line in listed.splitlines()}
    for record in records:
        container = record.container
        if (container, record.job) in known:
            if grace:
                answer([tool, "stop", f"--time={math.ceil(grace)}", container], grace)
            answer([tool, "rm", "--force", container])
            removed.append(f"{runtime} container {container[:SHOWN]}")
        with suppress(OSError):
            os.unlink(record.path)
    return removed


def _records(folder: str) -> Iterator[Record]:
    """Yield the records of this host in a folder, which other hosts may share."""
    host, boot = os.uname().nodename, _boot()
    for name in os.listdir(folder):
        parts = name.removeprefix(f"{host}.").removesuffix(ENDING).split(".")
        if name.startswith(f"{host}.") and name.endswith(ENDING) and len(parts) == 5:
            of_boot, runtime, job, pid, start = parts
            alive = of_boot == boot and pid.isdigit() and str(started(int(pid))) == start
            yield Record(f"{folder}/{name}", runtime, job, alive)


def _boot() -> str:
    """Return the id of this boot (random(4)): pids of another one mean nothing."""
    return next(iter(lines_of("/proc/sys/kernel/random/boot_id")), "-")[:8]
