"""The real `dsrun`, run at the login of a cluster as a person would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

import pytest

from ..support.limits import HANG
from .observing.judge import wrong

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .hosts import Cluster

CHECKOUT = Path(__file__).resolve().parents[2]
FINDINGS = "DSRUN_TEST_FINDINGS"
"""With this variable set, what the quick check says in every run is added to the file it names."""

COMMAND = (sys.executable, str(CHECKOUT / "bin" / "dsrun"))
OBSERVED = (sys.executable, str(Path(__file__).parent / "observing" / "command.py"))
"""The same with an observer; a file follows, and then the words of dsrun."""

_CHANCE = re.compile(
    r"dsrun: \d+/\d+ hosts(, waiting for .*| are ready)"
    r"|dsrun: \S+: left over on \S+: pid \d+ of a dsrun job that has ended"
)
"""A line about hosts in a slow start; one about what another job has left on this machine."""


class Running:
    """A command whose outputs, where they are pipes, are read while it runs.

    Attributes:
        process: the command itself, to be sent signals.
        reads: whether its standard output is read.
    """

    def __init__(self, process: subprocess.Popen[Any]) -> None:
        self.process = process
        self.reads = process.stdout is not None
        self._news = Condition()
        self._outputs = (bytearray(), bytearray())
        pipes = zip((process.stdout, process.stderr), self._outputs, strict=True)
        self._readers = [Thread(target=self._read, args=pair, daemon=True) for pair in pipes]
        self._open = len(self._readers)
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """The command's process id."""
        return self.process.pid

    @property
    def stdout(self) -> str:
        """What it has written there so far."""
        return bytes(self._outputs[0]).decode(errors="replace")

    @property
    def stderr(self) -> str:
        """What it has written there so far."""
        return bytes(self._outputs[1]).decode(errors="replace")

    def __str__(self) -> str:
        return f"--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}\n---"

    def wait_for_output(self, pattern: str, timeout: float = HANG) -> re.Match[str]:
        """The first match of this regular expression in stdout, else in stderr, once it is there.

        Raises:
            AssertionError: both outputs ended, or so many seconds passed, without it.
        """
        with self._news:
            self._news.wait_for(lambda: self._find(pattern) or not self._open, timeout)
        found = self._find(pattern)
        assert found, f"no {pattern!r} within {timeout:g} s\n{self}"
        return found

    def wait(self, timeout: float = HANG) -> subprocess.CompletedProcess[str]:
        """What has become of it.

        Raises:
            AssertionError: so many seconds were not enough for it to end, and its outputs.
        """
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {timeout:g} s\n{self}") from None
        with self._news:
            ended = self._news.wait_for(lambda: not self._open, HANG)
        assert ended, f"it has ended, but somebody else has its outputs open\n{self}"
        result = self.process.returncode
        return subprocess.CompletedProcess(self.process.args, result, self.stdout, self.stderr)

    def kill(self) -> None:
        """End it with SIGKILL, unless it has ended."""
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join(1.0)

    def _read(self, pipe: Any, output: bytearray) -> None:
        if pipe is not None:
            with pipe:
                while block := os.read(pipe.fileno(), 65536):
                    self._note(output, block)
        with self._news:
            self._open -= 1
            if not self._open and any(
                one[1] in str(self.process.args) for one in (COMMAND, OBSERVED)
            ):
                _keep_findings(self.stderr)
            self._news.notify_all()

    def _note(self, output: bytearray, block: bytes) -> None:
        with self._news:
            output += block
            self._news.notify_all()

    def _find(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self.stdout) or re.search(pattern, self.stderr)


class Dsrun:
    """`dsrun(...)` runs it to its end, `dsrun.start(...)` does not wait.

    Args:
        cluster: it runs at the login of this one.
        cwd: in this folder, unless a call says otherwise.
        options: given to every call, before its own arguments.
        observed: whether its jobs are observed, and judged at the end.
    """

    def __init__(self, cluster: Cluster, cwd: Path, *options: str, observed: bool = False) -> None:
        self._observed = observed
        self._cluster = cluster
        self._cwd = cwd
        self._folder = cwd.with_name(f"{cwd.name}-told")
        self._options = options
        self._started: list[Running] = []

    def __call__(
        self, *arguments: str, timeout: float = HANG, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run dsrun with these arguments, and what else `start` takes.

        Raises:
            AssertionError: it still runs after so many seconds.
        """
        return self.start(*arguments, **options).wait(timeout)

    def start(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        **options: Any,
    ) -> Running:
        """Start dsrun with these arguments, variables besides ours, and options for Popen."""
        command = list(COMMAND)
        if self._observed:
            self._folder.mkdir(exist_ok=True)
            command = [*OBSERVED, str(self._told(len(self._started)))]
        process = self._cluster.login.popen(
            [*command, *self._options, *arguments],
            env=env,
            cwd=cwd or self._cwd,
            text=False,
            **options,
        )
        self._started.append(Running(process))
        return self._started[-1]

    def close(self) -> None:
        """Kill what still runs, and judge what the others have told.

        Raises:
            AssertionError: a rule of `tests/simulation/checker` was broken.
        """
        for running in self._started:
            running.kill()
        found = [
            wrong(self._told(number), one.process.returncode, one.stdout if one.reads else None)
            for number, one in enumerate(self._started)
        ]
        if problems := [*chain(*found)]:
            pytest.fail("\n".join(map(str, problems)))

    def _told(self, number: int) -> Path:
        """Return where the observer of a run writes."""
        return self._folder / str(number)


def own_lines(stderr: str) -> list[str]:
    """The lines of a run's stderr that neither a slow start nor another job has caused.

    On a busy machine a start may take so long that dsrun says which hosts it waits for; and the
    hosts of a cluster share a machine with other tests, whose processes left over are named here.
    """
    return [line for line in stderr.splitlines() if not _CHANCE.fullmatch(line)]


def _keep_findings(text: str) -> None:
    """Add a line for each finding of a run, or one for a run without any, and the test's name."""
    path, test = os.environ.get(FINDINGS), os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
    if path:
        found = re.findall(r"check: .*", text) or ["-"]
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(f"{test}\t{one}\n" for one in found)
