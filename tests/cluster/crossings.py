"""Jobs in which features meet, in combinations that cover all pairs of them."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from itertools import combinations
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any, NamedTuple

from ..support.checkout import IMPORTABLE
from ..support.limits import NEVER, wait_for
from .command import COMMAND, Running
from .held import Held
from .jobs import BY_NAME, options

if TYPE_CHECKING:
    from .hosts import Cluster

AXES = {
    "launcher": ("ssh", "openssh", "pdsh", *BY_NAME),
    "way": ("command", "hold", "launch", "fleet"),
    "restarts": ("none", "elastic"),
    "preload": ("none", "preload"),
    "sync": ("none", "sync"),
    "watch": ("none", "hangs", "rules"),
    "hook": ("none", "hook"),
    "end": ("ok", "fails", "killed", "interrupted"),
}

CODES = {"ok": 0, "fails": 7, "killed": 137, "interrupted": 130}

HOSTS = "n1:1,n2:1"

OF_VALUES: dict[str, dict[str, Any]] = {
    "elastic": {"elastic_training": True, "max_restarts": 1},
    "preload": {"preload": "json"},
    "sync": {"sync": "."},
    "hangs": {"hang_timeout": "20m"},
    "rules": {"expect": "line", "within": "20m", "every": "20m"},
}
"""The options that a value of an axis stands for."""

LINES = 200
"""Lines of each worker and each round."""

TRAIN = f"""
import os, signal, sys, time
rank, end, begun = os.environ["RANK"], sys.argv[1], sys.argv[2]
start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
for number in range({LINES}):
    print(f"start {{start}} line {{number}}", flush=number % 7 == 0)
sys.stdout.flush()
open(f"{{begun}}-{{rank}}-{{start}}", "w").close()
while not all(os.path.exists(f"{{begun}}-{{one}}-{{start}}") for one in (0, 1)):
    time.sleep(0.01)
while end == "interrupted" or (end != "ok" and rank == "1"):
    time.sleep(0.02)
if end == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(7 if end == "fails" else 0)
"""

PROGRAM = """
import json, sys
from dsrun.launcher.api import Fleet, launch
way, where, jobs = json.loads(sys.argv[1])

def run(start, options, args):
    job = start("train.py", args, **options)
    try:
        job.wait()
    except KeyboardInterrupt:
        pass
    print("code", job.report.exit_code, flush=True)

if way == "launch":
    run(launch, {**where, **jobs[0][0]}, jobs[0][1])
else:
    with Fleet(**where) as fleet:
        for options, args in jobs:
            run(fleet.run, options, args)
            print("held by", fleet.pid, flush=True)
            sys.stdin.readline()
"""
"""A program that runs one job, or several on a fleet; after each of those it waits for a line."""


class Combination(NamedTuple):
    """One value of each of `AXES`."""

    launcher: str
    way: str
    restarts: str
    preload: str
    sync: str
    watch: str
    hook: str
    end: str

    @property
    def name(self) -> str:
        """The values that are not "none"."""
        return "-".join(value for value in self if value != "none")

    @property
    def starts(self) -> int:
        """How often its workers are started."""
        return 2 if self.restarts == "elastic" and self.end in {"fails", "killed"} else 1


def covering() -> list[Combination]:
    """Combinations in which each two values of different axes meet at least once."""
    chance, axes = random.Random(1), [*AXES.values()]
    left = {
        ((one, a), (two, b))
        for one, two in combinations(range(len(axes)), 2)
        for a in axes[one]
        for b in axes[two]
    }
    found = []
    while left:
        first, second = min(left)
        rows = [[chance.choice(axis) for axis in axes] for _ in range(60)]
        for row in rows:
            row[first[0]], row[second[0]] = first[1], second[1]
        best = max(rows, key=lambda row: len(_pairs(row) & left))
        left -= _pairs(best)
        found.append(Combination(*best))
    return found


def _pairs(row: list[str]) -> set[tuple[tuple[int, str], tuple[int, str]]]:
    return {*combinations(enumerate(row), 2)}


class Crossing:
    """Runs one combination, and keeps what has been seen of it.

    Attributes:
        jobs: how many jobs it runs: on a hold two, otherwise one.
        codes: the exit code of each.
        shown: all that they have printed.
    """

    def __init__(self, cluster: Cluster, folder: Path, project: str, row: Combination) -> None:
        """Keep all files in a folder that all hosts see; run in `project` at the login."""
        self._cluster, self._folder, self._project, self._row = cluster, folder, project, row
        self.jobs = 2 if row.way in {"hold", "fleet"} else 1
        self.codes: list[int] = []
        self.shown = ""

    def file(self, name: str, job: int) -> Path:
        """A file of one of its jobs."""
        return self._folder / f"{name}{job}"

    def run(self) -> None:
        """Run it."""
        {"command": self._command, "hold": self._on_hold}.get(self._row.way, self._program)()

    def _where(self) -> dict[str, str]:
        """The options that choose nodes, as Python takes them."""
        words = options(self._row.launcher)
        named = {
            key.removeprefix("--"): value
            for key, value in zip(words[::2], words[1::2], strict=True)
        }
        return {**named, "hosts": HOSTS, "heartbeat_timeout": f"{NEVER:g}", "accelerator": "cpu"}

    def _options(self, job: int) -> dict[str, Any]:
        """The other options of a job."""
        row = self._row
        return {
            "no_local_rank": True,
            "grace": f"{NEVER:g}",
            "report_file": str(self.file("report", job)),
            "metrics_file": str(self.file("metrics", job)),
            "log_dir": str(self.file("logs", job)),
            "prefix": "{rank}| ",
            **OF_VALUES.get(row.restarts, {}),
            **OF_VALUES.get(row.preload, {}),
            **OF_VALUES.get(row.sync, {}),
            **OF_VALUES.get(row.watch, {}),
            **({"on_event": f"cat >> {self.file('events', job)}"} if row.hook != "none" else {}),
        }

    def _arguments(self, job: int) -> list[str]:
        return [self._row.end, str(self.file("begun", job))]

    def _command(self) -> None:
        words = [*_words(self._where()), *_words(self._options(0)), "train.py"]
        self._follow(self._popen([*COMMAND, *words, *self._arguments(0)]), 0)

    def _on_hold(self) -> None:
        launcher = self._row.launcher
        with Held(self._cluster, self._folder, HOSTS, launcher=launcher) as held:
            steady = Steady(held.running.pid)
            for job in range(self.jobs):
                words = [*_words(self._options(job)), "train.py", *self._arguments(job)]
                self._follow(held.start(*words, cwd=self._project), job)
                steady.look()
            assert held.release().returncode == 0

    def _follow(self, running: Running, job: int) -> None:
        """See a command to its end."""
        self._interrupt(running, job)
        done = running.wait()
        self.codes.append(done.returncode)
        self.shown += done.stdout

    def _program(self) -> None:
        jobs = [(self._options(job), self._arguments(job)) for job in range(self.jobs)]
        what = json.dumps([self._row.way, self._where(), jobs])
        running = self._popen([sys.executable, "-c", PROGRAM, what], env=IMPORTABLE, stdin=PIPE)
        steady, stdin = None, running.process.stdin
        assert stdin is not None
        for job in range(self.jobs):
            self._interrupt(running, job)
            code = running.wait_for_output(rf"(?s)(code \d+.*){{{job}}}code (\d+)\n")
            self.codes.append(int(code[2]))
            if self._row.way == "fleet":
                pid = int(running.wait_for_output(r"held by (\d+)\n")[1])
                steady = steady or Steady(pid)
                steady.look()
                os.write(stdin.fileno(), b"\n")
        done = running.wait()
        stdin.close()
        assert done.returncode == 0, str(running)
        self.shown = done.stdout

    def _popen(self, argv: list[str], **more: Any) -> Running:
        return Running(self._cluster.login.popen(argv, cwd=self._project, text=False, **more))

    def _interrupt(self, running: Running, job: int) -> None:
        """Interrupt a job once its workers wait for that."""
        if self._row.end == "interrupted":
            up = [self._folder / f"begun{job}-{rank}-0" for rank in (0, 1)]
            wait_for(lambda: all(path.exists() for path in up), "both workers")
            running.process.send_signal(signal.SIGINT)


class Steady:
    """What a process has open, which must not grow from job to job."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._first: tuple[int, int] | None = None

    def look(self) -> None:
        """Look after a job: the first says how much is right."""
        if self._first is None:
            self._first = self._now()
            return
        threads, files = self._first
        wait_for(
            lambda: self._now()[0] <= threads and self._now()[1] <= files,
            f"no more than {threads} threads and {files} descriptors in the hold",
        )

    def _now(self) -> tuple[int, int]:
        process = Path(f"/proc/{self._pid}")
        return len([*(process / "task").iterdir()]), len([*(process / "fd").iterdir()])


def _words(options: dict[str, Any]) -> list[str]:
    """Options as the command takes them."""
    names = {"hosts": "host"}
    words = []
    for name, value in options.items():
        words += [f"--{names.get(name, name)}", *([] if value is True else [str(value)])]
    return words
