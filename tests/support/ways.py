"""Every way to start the same job on this machine, and what has come of it.

A job is a script and options by their names, as both a command line and a Python program give them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .checkout import BIN, IMPORTABLE
from .limits import HANG, wait_for
from .local_control import new_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PROGRAM = """
import json, sys
from contextlib import nullcontext
from dsrun.launcher.api import Fleet, JobError, launch
way, output, script, options = json.loads(sys.argv[1])
held = Fleet(accelerator="cpu", hosts="localhost:2") if way == "fleet" else nullcontext()
with held:
    start = launch if held.__class__ is nullcontext else held.run
    job = start(script, output=output, **options)
    try:
        code = job.wait().exit_code
    except JobError as error:
        print(f"dsrun: {error}", file=sys.stderr)
        code = error.exit_code
sys.exit(code)
"""
"""A program that runs a job, and ends as the command would."""

Options = dict[str, Any]


class Ended(NamedTuple):
    """How a job has ended, as others see it.

    Attributes:
        code: the exit code.
        folder: where it ran, with its files.
        out, err: what was printed.
    """

    code: int
    folder: Path
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        """The file of --report_file."""
        found: dict[str, Any] = json.loads((self.folder / "report").read_text())
        return found

    @property
    def events(self) -> list[dict[str, Any]]:
        """What the command of --on_event was told."""
        path = self.folder / "events"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    @property
    def metrics(self) -> str:
        """The file of --metrics_file."""
        return (self.folder / "metrics").read_text()

    @property
    def said(self) -> list[str]:
        """The lines of dsrun's own."""
        return [line for line in self.err.splitlines() if line.startswith(("dsrun: ", "  "))]


def words(script: str, options: Options) -> list[str]:
    """Return a command line."""
    given = [
        f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items()
    ]
    return [*given, script]


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a job."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DSRUN")}
    return {**kept, **IMPORTABLE, "DSRUN_ACCELERATOR": "cpu", **more}


@contextmanager
def terminal(script: str, options: Options) -> Iterator[list[str]]:
    """Yield the command `dsrun`."""
    yield [str(BIN / "dsrun"), "--host=localhost:2", *words(script, options)]


@contextmanager
def no_ssh(script: str, options: Options) -> Iterator[list[str]]:
    """Yield `dsrun --no_ssh`, on the first and only node."""
    here = ["--no_ssh", "--node_rank=0", "--master_addr=127.0.0.1", "--host=localhost:2"]
    yield [str(BIN / "dsrun"), *here, *words(script, options)]


@contextmanager
def on(script: str, options: Options) -> Iterator[list[str]]:
    """Yield `dsrun --on`, and hold the nodes meanwhile."""
    name = new_name()
    hold = [sys.executable, str(BIN / "dsrun-hold"), "--name", name, "--host=localhost:2"]
    env = environment({})
    with subprocess.Popen(hold, env=env, stderr=subprocess.PIPE, text=True) as held:
        try:
            assert held.stderr is not None
            assert any("holding 1 node" in line for line in held.stderr)
            yield [str(BIN / "dsrun"), f"--on={name}", *words(script, options)]
        finally:
            held.terminate()
            held.communicate(timeout=HANG)


def python(way: str, output: str | None) -> Callable[[str, Options], Any]:
    """Return what yields a Python program."""

    @contextmanager
    def program(script: str, options: Options) -> Iterator[list[str]]:
        more = {"host": "localhost:2"} if way == "launch" else {}
        yield ["-c", PROGRAM, json.dumps([way, output, script, {**more, **options}])]

    return program


WAYS: dict[str, Callable[[str, Options], Any]] = {
    "terminal": terminal,
    "no_ssh": no_ssh,
    "on": on,
    "launch": python("launch", "print"),
    "launch, output inherited": python("launch", "inherit"),
    "fleet": python("fleet", "print"),
    "fleet, output inherited": python("fleet", "inherit"),
}
"""Every way, as a context: it yields the arguments of Python for a script and options."""


def run(
    way: str,
    folder: Path,
    script: str,
    options: Options,
    *,
    env: Mapping[str, str] | None = None,
    signals: bool = False,
    out: str = "",
) -> Ended:
    """Run a job in a folder to its end.

    Args:
        way: one of `WAYS`.
        folder: for its files.
        script: the text of its program.
        options: of the job.
        env: more variables.
        signals: send SIGTERM once there is a file `up`.
        out: the file that is standard output; "" for one of its own.
    """
    (folder / "train.py").write_text(script)
    with WAYS[way]("train.py", options) as argv, (folder / "err").open("wb") as err:
        with Path(out or folder / "out").open("wb") as printed:
            started = subprocess.Popen(
                [sys.executable, *argv],
                cwd=folder,
                env=environment(env or {}),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=err,
            )
        try:
            if signals:
                wait_for((folder / "up").exists, "the workers")
                started.send_signal(signal.SIGTERM)
            code = started.wait(HANG)
        finally:
            started.kill()
            started.wait()
    shown = "" if out else (folder / "out").read_text()
    return Ended(code, folder, shown, (folder / "err").read_text())
