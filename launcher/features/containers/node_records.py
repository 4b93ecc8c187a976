"""Records of the containers on a host, for finding and removing dead jobs' containers.

A record is the file to which the runtime's client writes the id of its container. Its name has the
job, and the pid and start time of the client, which are the host half's.
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
    from collections.abc import Collection, Iterator, Sequence

KEEPING = ("podman", "docker")
"""Runtimes whose containers can outlive their clients."""

ENDING = ".cid"
"""The ending of a record's name."""

SHOWN = 12
"""Letters to show of an id, as clients do."""


class Record(NamedTuple):
    """A record of this host.

    Attributes:
        runtime: the name of the client's program.
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


class Removed(NamedTuple):
    """Removed containers, in words.

    Attributes:
        left: the containers that could not be removed, and why.
    """

    ended: Sequence[str] = ()
    left: Sequence[str] = ()


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


def stop(job: str, grace: float) -> Removed:
    """End the containers of a job on this host, alive or not.

    Raises:
        OSError: the records cannot be read.
    """
    folder = own_folder()
    mine = [one for one in _records(folder) if one.job == job]
    ended, left = list[str](), list[str]()
    for runtime in sorted({one.runtime for one in mine}):
        if tool := executable.find(runtime):
            of_it = [one for one in mine if one.runtime == runtime]
            try:
                removed = remove(tool, of_it, grace)
            except NodeError as error:
                removed = Removed(left=(f"containers of {runtime}: {error}",))
            ended += removed.ended
            left += removed.left
    return Removed(ended, left)


def remove(tool: str, records: Collection[Record], grace: float = 0.0) -> Removed:
    """Remove containers of records, and the records of those that are gone.

    A container is identified by its id and by its label, which has the job's id.

    Args:
        tool: the client.
        records: the records, all of this client's runtime.
        grace: seconds between SIGTERM and SIGKILL.

    Raises:
        NodeError: the client does not answer.
    """
    if not records:
        return Removed()
    runtime, ended, left = os.path.basename(tool), list[str](), list[str]()
    label = f'index .Labels "{LABEL}"' if runtime == "podman" else f'.Label "{LABEL}"'
    form = f"--format={{{{.ID}}}} {{{{{label}}}}}"
    listing = [tool, "ps", "--no-trunc", f"--filter=label={LABEL}", form]
    known, why = _listed([*listing, "--all"])
    for record in records:
        container = record.container
        name = f"{runtime} container {container[:SHOWN]}"
        if not container and record.alive:  # its client will write the id
            continue
        if known is None:
            left += [f"{name}: {why}"] if container else []
            continue
        if (container, record.job) in known:
            if grace:
                answer([tool, "stop", "-t", str(math.ceil(grace)), container], grace)
            # One that has just ended may be about to be removed by its runtime, which is no fault.
            why = answer([tool, "rm", "--force", container]).why
            running, problem = _listed(listing) if why else (set(), "")
            if running is None or (container, record.job) in running:
                left.append(f"{name}: {problem or why}")
                continue
            ended.append(name)
        with suppress(OSError):
            os.unlink(record.path)
    return Removed(ended, left)


def _listed(argv: Sequence[str]) -> tuple[set[tuple[str, ...]] | None, str]:
    """Return ids and jobs of listed containers, None if the client fails; and the reason."""
    listed = answer(argv)
    if listed.output is None:
        return None, listed.why or "they cannot be listed"
    return {tuple(line.split()) for line in listed.output.splitlines()}, ""


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
    """Return the id of this boot (random(4)): pids of an earlier boot mean nothing."""
    return next(iter(lines_of("/proc/sys/kernel/random/boot_id")), "-")[:8]
