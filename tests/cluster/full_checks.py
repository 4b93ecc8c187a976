"""The full check on virtual hosts without a fleet: its programs are started by the test itself."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.features.full_check.runner import run
from dsrun.launcher.node.programs import command_line

from ..support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dsrun.launcher.features.full_check.runner_steps import Step, StepResult

    from .hosts import Cluster


class HostPrograms:
    """Programs on the hosts of a cluster, in place of `features.exec.runner_programs`."""

    def __init__(self, cluster: Cluster, names: Sequence[str]) -> None:
        self.names = names
        self.loop = Loop()
        self._cluster = cluster

    def start(
        self,
        program: str,
        arguments: Mapping[str, Sequence[str]],
        on_line: Callable[[str, bytes], None],
        on_end: Callable[[str, int, str], None],
    ) -> HostProgram:
        """Start a program on some hosts."""
        pipe = subprocess.PIPE
        processes: dict[str, subprocess.Popen[Any]] = {}
        for name, words in arguments.items():
            argv = [*map(os.fsdecode, command_line(program)), *words]
            host = self._cluster.host(name)
            processes[name] = host.popen(argv, stdin=pipe, stderr=None, text=False, bufsize=0)
        return HostProgram(self.loop, processes, on_line, on_end)


class HostProgram:
    """A program that runs."""

    def __init__(
        self,
        loop: Loop,
        processes: Mapping[str, subprocess.Popen[Any]],
        on_line: Callable[[str, bytes], None],
        on_end: Callable[[str, int, str], None],
    ) -> None:
        self._loop = loop
        self._processes = processes
        self._on_line = on_line
        self._on_end = on_end
        self._rest = dict.fromkeys(processes, b"")
        for name, process in processes.items():
            assert process.stdout
            loop.add_reader(process.stdout.fileno(), partial(self._read, name))

    def send(self, host: str, line: bytes) -> None:
        """Send a line."""
        stdin = self._processes[host].stdin
        assert stdin
        stdin.write(line)

    def stop(self) -> None:
        """End the programs, which read to the end of their input."""
        for process in self._processes.values():
            assert process.stdin
            process.stdin.close()

    def _read(self, name: str) -> None:
        process = self._processes[name]
        assert process.stdout
        data = os.read(process.stdout.fileno(), 65536)
        *lines, self._rest[name] = (self._rest[name] + data).split(b"\n")
        for line in lines:
            self._on_line(name, line)
        if not data:
            self._loop.remove(process.stdout.fileno())
            process.stdout.close()
            self._on_end(name, process.wait(), "")


def check(cluster: Cluster, names: Sequence[str], step: Step) -> StepResult:
    """Return the result of a step on some hosts of a cluster.

    Raises:
        TimeoutError: the check does not end.
    """
    programs = HostPrograms(cluster, names)
    results: list[dict[str, StepResult]] = []

    def done(found: dict[str, StepResult]) -> None:
        results.append(found)
        programs.loop.stop()

    checking = run(programs, [step], lambda _text: None, done)
    programs.loop.call_later(HANG, programs.loop.stop)
    programs.loop.run()
    if not results:
        checking.stop()
        raise TimeoutError(f"no result within {HANG:g} s")
    return results[0][step.name]
