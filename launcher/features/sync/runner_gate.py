"""The gate of --sync: brings a folder to each node of a run before its JOB."""

from __future__ import annotations

import os
from functools import partial

from ...common.text import plain
from ...head.fleet.hosts import by_cause
from ...head.run.node_jobs import is_child
from ...specs.environment import to_wire
from .runner_node_sync import NodeSync
from .runner_shared import SharedProbe
from .runner_source import SyncSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...control.messages import NodeJob
    from ...head.run.gate import Done
    from ...head.run.run import Run
    from ...head.run.run_node import RunNode
    from .runner_node_sync import Copy

NAMED = 5
"""Most links and special files to name."""


class SyncedStart:
    """Copies the folder to each node, unless the node shares it."""

    def __init__(self, run: Run) -> None:
        """Read the folder.

        Raises:
            UsageError: it cannot be read, or is too large.
        """
        sync = run.spec.sync
        assert sync is not None
        self.handlers: Mapping[int, Callable[[RunNode, bytes], None]] = {}
        self._fleet, self._log, self._view = run.fleet, run.log, run.view
        self._source = SyncSource(sync, os.environ)
        self._probe = SharedProbe(sync.source)
        self._unsettled: set[RunNode] = set()
        self._apart: dict[str, str] = {}
        paths = self._source.paths
        moved = {to_wire(path): to_wire(place) for path, place in sync.moved.items()}
        self._moved = {path: place for path, place in moved.items() if place in paths}
        self._name_the_rest()

    def check(self, nodes: Sequence[RunNode], done: Done) -> None:
        """Copy the folder to a node; this machine's own node uses the folder itself."""
        (node,) = nodes
        if is_child(self._view().spec, node.node):
            done({}, ())
            return
        one = NodeSync(
            self._source,
            self._probe,
            partial(self._on_outcome, node, done),
            wanted=lambda: not self._view().ending,
            log=lambda text: self._log(f"{node.name}: {text}", "debug"),
        )
        self._unsettled.add(node)
        one.start(self._fleet.commands, self._fleet.nodes[node.connection.number])

    def close(self) -> None:
        """Do nothing: a copy under way ends by itself once the run does."""

    def _on_outcome(self, node: RunNode, done: Done, outcome: Copy | str) -> None:
        self._unsettled.discard(node)
        self._note_number(node, outcome)
        if isinstance(outcome, str):
            done({node: outcome}, ())
            return
        if outcome.folder:
            node.change_job = partial(self._placed, outcome)
        else:
            self._log(f"{node.name}: shares the --sync folder", "debug")
        done({}, ())

    def _placed(self, copy: Copy, task: NodeJob) -> NodeJob:
        synced = copy.lock, self._source.manifest.digest
        return placed(task, self._moved, copy.folder)._replace(synced=synced)

    def _note_number(self, node: RunNode, outcome: Copy | str) -> None:
        """Name the nodes that use another copy than usual, once no other node is being prepared."""
        if not isinstance(outcome, str) and outcome.number > 1:
            self._apart[node.name] = (
                "another job is running in the copy of the --sync folder, which has changed since;"
                f" using {plain(outcome.folder)}, without the files that jobs wrote in that copy"
            )
        if not any(one.connection.connected for one in self._unsettled):
            for line in by_cause(self._apart):
                self._log(line, "warning")
            self._apart.clear()

    def _name_the_rest(self) -> None:
        """Name the paths that are not synced, or may be missing on the nodes."""
        source = self._source
        if source.skipped:
            self._log(f"--sync: not copied: {_named(source.skipped)}", "warning")
        if source.outside:
            names = _named(source.outside)
            text = f"--sync: links that point out of the folder stay as they are: {names}"
            self._log(text, "info")


def placed(task: NodeJob, moved: Mapping[str, str], copy: str) -> NodeJob:
    """Return a task whose paths in the folder lead into a copy.

    Args:
        task: a task with the paths of the runner's machine.
        moved: the paths in the folder, with the path relative to the folder.
        copy: the path of the copy.
    """

    def there(path: str) -> str:
        place = moved.get(path)
        return path if place is None else os.path.join(copy, place) if place else copy

    program = task.program
    python = None if program.python is None else there(program.python)
    path = task.env.get("PYTHONPATH")
    env = {} if path is None else {"PYTHONPATH": ":".join(map(there, path.split(":")))}
    return task._replace(
        workdir=there(task.workdir),
        program=program._replace(
            script=there(program.script),
            python=python,
            project_python=there(program.project_python),
        ),
        workers=task.workers._replace(venv_script=there(task.workers.venv_script)),
        env={**task.env, **env},
    )


def _named(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return plain(", ".join(names[:NAMED])) + more
