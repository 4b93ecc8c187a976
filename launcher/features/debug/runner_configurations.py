"""The settings with which an editor can debug the ranks of a job: its `launch.json`."""

from __future__ import annotations

import json
import os

from ...common import launch_json
from ...common.errors import UsageError
from ...common.text import plain
from ...specs.environment import from_wire, to_wire
from ..hooks.runner_latest_file import LatestFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...common.unexpected import Log
    from ...control.messages import NodeJob
    from ...specs.job import JobSpec

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
