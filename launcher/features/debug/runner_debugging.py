"""`--debug`: lets editors on this machine reach the debuggers of ranks on their nodes.

Each rank has a port on loopback here. The bytes of an editor go over the control line to a program
on the node (`features.debug.node_program`), so no port is opened there.
"""

from __future__ import annotations

import json
import os

from ...common import launch_json
from ...common.errors import NODE_UNUSABLE, UsageError, reason
from ...common.text import plain
from ...head.run.events import Exit, JobEnded, Lost, RanksStarted
from ...head.run.restart_policy import GiveUp, stop_for
from ...specs.environment import from_wire, to_wire
from ..hooks.runner_latest_file import LatestFile
from .runner_rank import DebuggedRank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ...common.unexpected import Log
    from ...control.messages import NodeJob
    from ...head.fleet.fleet import NodeFleet
    from ...head.run.events import RunEvent
    from ...head.run.run import Handle
    from ...head.run.run_node import RunNode
    from ...head.run.running_ranks import Workers
    from ...specs.job import JobSpec


class Debugging:
    """The debugged ranks of a run."""

    def __init__(
        self,
        spec: JobSpec,
        fleet: NodeFleet,
        nodes: Sequence[RunNode],
        workers: Workers,
        log: Log,
        debugging: set[int],
        handle: Handle,
    ) -> None:
        """Begin for a job, which says which ranks are debugged.

        Args:
            spec: the job.
            fleet: its fleet.
            nodes: all nodes of its run.
            workers: those that run.
            log: prints a message, given its text and level.
            debugging: gets the ranks that a debugger is attached to, or that wait for one.
            handle: tells the run if a rank would wait for a debugger that cannot come.
        """
        assert spec.debug is not None
        self._spec, self._policy = spec, spec.debug
        self._fleet, self._nodes, self._workers = fleet, nodes, workers
        self._log, self._debugging, self._handle = log, debugging, handle
        self._given_up = False
        self._ranks: dict[int, DebuggedRank] = {}
        self._configurations = Configurations(self._policy.file, log)

    def on_event(self, event: RunEvent) -> None:
        """Handle an event of the run."""
        match event:
            case RanksStarted(host, ranks):
                for rank in filter(self._policy.has, ranks):
                    self._start(rank, host)
            case Exit(rank):
                if rank in self._ranks:
                    self._ranks[rank].ended()
            case Lost():
                for rank, one in self._ranks.items():
                    if self._node_of(rank) is None:
                        one.ended()
            case JobEnded():
                self._close()

    def _start(self, rank: int, host: str) -> None:
        node = self._node_of(rank)
        if node is None or node.task is None or node.name != host:
            return  # the host has named a rank that is not its own
        if self._given_up:
            return
        if rank not in self._ranks:
            try:
                self._ranks[rank] = DebuggedRank(rank, self._fleet, self._log, self._debugging)
            except OSError as error:
                self._without_port(f"rank {rank} cannot be debugged: no port here: {reason(error)}")
                return
        one, wait = self._ranks[rank], self._policy.wait
        places = folders(self._spec, node.task)
        where = self._configurations.add(rank, node.name, one.port, places)
        does = "waits for a debugger" if wait else "can be debugged"
        at = f"127.0.0.1:{one.port}"
        self._log(f"rank {rank} on {node.name} {does} at {at}; {where}", "info")
        one.started(node, wait=wait)

    def _without_port(self, why: str) -> None:
        """Warn that a rank has no port; end the run if it waits, as nobody could let it go on."""
        if self._policy.wait:
            self._given_up = True
            self._handle(stop_for, GiveUp(why, NODE_UNUSABLE, "stopped the job", ""))
        else:
            self._log(why, "warning")

    def _node_of(self, rank: int) -> RunNode | None:
        return next((node for node in self._nodes if self._workers.runs(node, rank)), None)

    def _close(self) -> None:
        for one in self._ranks.values():
            one.close()
        self._configurations.close()


LAST_WAIT = 0.5
"""Seconds at the end of a job for the last writing of the file."""


def folders(spec: JobSpec, task: NodeJob) -> tuple[str, str]:
    """Return the folder of the sources on this machine, and where a node with this task has it."""
    there = os.fsdecode(from_wire(task.workdir))
    if spec.sync is None or task.workdir == to_wire(spec.workdir):
        return spec.workdir, there
    inside = spec.sync.moved[spec.workdir]
    return spec.sync.source, there.removesuffix(f"/{inside}") if inside else there


class Configurations:
    """The configurations of all ranks, in a file if there is one to be written."""

    def __init__(self, path: str, log: Log) -> None:
        """Begin without configurations; `log` prints why the file (not "") cannot be written."""
        self._path = path
        self._log = log
        self._ours: dict[int, dict[str, object]] = {}
        self._found: dict[str, Any] = {}
        self._file: LatestFile | None = None
        if path:
            self._open()

    def add(self, rank: int, host: str, port: int, places: tuple[str, str]) -> str:
        """Add the configuration of a rank, or replace it; return where it is, in words."""
        name = f"rank {rank} on {host}"
        one = self._ours[rank] = launch_json.attach(name, port, *places)
        if self._file is None:
            return f"configuration for launch.json: {plain(json.dumps(one))}"
        ours = [self._ours[key] for key in sorted(self._ours)]
        self._file.put(json.dumps(launch_json.merged(self._found, ours), indent=4) + "\n")
        return f'"{plain(str(one["name"]))}" in {plain(self._path)}'

    def close(self) -> None:
        """Wait a moment for the file."""
        if self._file is not None:
            self._file.close(LAST_WAIT)

    def _open(self) -> None:
        try:
            self._found = launch_json.read("--debug_file", self._path)
        except UsageError as error:  # since the job was planned
            self._log(f"{error}", "warning")
            return
        self._file = LatestFile(self._path, self._failed, self._log)

    def _failed(self, why: str) -> None:
        """Print the failure; the thread that writes calls this."""
        self._log(f"--debug_file {plain(self._path)}: {why}", "warning")
