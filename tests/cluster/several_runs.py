"""Several runs, one after another, on one fleet: run at the login of a cluster by test_fleet.py.

Its arguments are a folder and the words of a dsrun command, without a script. In the folder, it
writes what each run came to, in JSON lines.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from dsrun.launcher.backends import BACKENDS
from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control.messages import SessionEnd
from dsrun.launcher.features.join import runner as dial_in
from dsrun.launcher.head.fleet.fleet import NodeFleet
from dsrun.launcher.head.job.ending import ending_of
from dsrun.launcher.head.job.start import prepare
from dsrun.launcher.head.output.console import Console
from dsrun.launcher.head.run.run import Run
from dsrun.launcher.planning.job import plan_job
from dsrun.launcher.specs.job import new_job_id
from dsrun.launcher.specs.plan import lay_out

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsrun.launcher.specs.job import JobSpec

TELL = """
import json, os, sys
names = "RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT DSRUN_JOB_ID DSRUN_WORLD_INFO".split()
print(json.dumps({"host": os.uname().nodename, "argv": sys.argv[1:],
                  "pid": os.getpid(), **{name: os.environ[name] for name in names}}), flush=True)
"""


class Runs:
    """A fleet, and what the runs on it came to."""

    def __init__(self, folder: Path, words: Sequence[str]) -> None:
        self.folder = folder
        self._script("tell.py", TELL)
        self._script("fail.py", "import os, sys\nsys.exit(7 * (os.environ['RANK'] == '1'))\n")
        self.spec = plan_job(parse([*words, str(folder / "tell.py")], os.environ))
        self.loop = Loop()
        self.console = Console(self.loop)
        start = prepare(self.spec.plan, self.spec.backend)
        lease = self.spec.supervision.heartbeat_timeout
        self.fleet = NodeFleet(start.plan.nodes, self.loop, self._log, lease)
        self._parts = start.parts
        self.by_engine = BACKENDS[self.spec.plan.launcher].by_engine
        self._connected = False
        self._lost: Callable[[], None] = lambda: None
        self._stack = ExitStack()

    def _script(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def _log(self, text: str, level: str) -> None:
        self.console.log(text, level)
        if text.startswith("lost "):
            self.note(lost=text)
            self._lost()

    def note(self, **what: object) -> None:
        """Write a line of JSON."""
        with (self.folder / "runs").open("a") as file:
            file.write(f"{json.dumps(what)}\n")

    def on(self, *hosts: str, script: str = "tell.py", args: Sequence[str] = ()) -> JobSpec:
        """Return the spec of a script on some hosts, in this order."""
        plan = self.spec.plan
        known = {node.host.name: node.host for node in plan.nodes}
        program = plan.program._replace(
            script=str(self.folder / script), args=tuple(args), local_rank=False
        )
        nodes = lay_out([known[name] for name in hosts])
        return self.spec._replace(
            job_id=new_job_id(), plan=plan._replace(nodes=nodes, program=program)
        )

    def run(self, name: str, spec: JobSpec) -> None:
        """Run it, and note how it ended."""
        run = Run(spec, self.fleet, self.console)
        run.start()
        self._connect()
        run.wait()
        run.release(run.state.nodes)
        ending = ending_of(run.view())
        if ending.report is None:
            self.note(run=name, error=str(ending.error), code=ending.code)
            return
        world = ending.report.world_size
        self.note(run=name, job=spec.job_id, code=ending.code, world=world)

    def _connect(self) -> None:
        if self._connected:
            return
        self._connected, dial = True, None
        if any(part.backend.transport == "dial" for part in self._parts):
            listening = dial_in.announced(self.fleet, self._parts, self.spec, self.console)
            dial = self._stack.enter_context(listening)
        self.fleet.connect(self._parts, dial)

    def wait_for_loss(self) -> None:
        """Wait until a node is lost that no run uses."""
        self._lost = self.loop.stop
        self.note(waits=True)
        self.loop.run()

    def close(self) -> None:
        """Let all nodes go."""
        self.fleet.close(SessionEnd(0, ""))
        self.fleet.close_at_once()
        self._stack.close()
        self.console.close()


def main(folder: str, *words: str) -> None:
    """Run programs on three hosts; in between, where n2 may be lost, wait until it is."""
    runs = Runs(Path(folder), words)
    runs.run("first", runs.on("n1", "n2", "n3", args=["--lr", "0.1"]))
    runs.run("other ranks", runs.on("n3", "n1", args=["two words"]))
    runs.run("fails", runs.on("n1", "n2", "n3", script="fail.py"))
    runs.run("refused", runs.on("n1", "n2", "n3", script="nothing.py"))
    runs.run("one node", runs.on("n2"))
    runs.run("all again", runs.on("n1", "n2", "n3"))
    if not runs.by_engine:
        runs.wait_for_loss()
        runs.run("without n2", runs.on("n1", "n3"))
        runs.run("with n2", runs.on("n1", "n2"))
    runs.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
