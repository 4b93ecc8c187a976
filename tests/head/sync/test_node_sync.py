"""What the runner says to a node about its copy of a folder, answer by answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.command_messages import CommandExit
from dsrun.launcher.head.fleet.commands import WINDOW
from dsrun.launcher.head.sync.node_sync import Copy, NodeSync
from dsrun.launcher.head.sync.shared import SharedProbe
from dsrun.launcher.head.sync.source import Source

from ...support.played_sync import fill, spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

LARGE = "x" * (3 * WINDOW)


class Sync:
    """A sync to one node, whose answers a test gives."""

    def __init__(self, job: FakeFleet, folder: Path) -> None:
        self.job = job
        self.folder = folder
        self.outcomes: list[Copy | str] = []
        self.logged: list[str] = []
        self.wanted = True
        self.source = Source(spec(folder), {"XDG_CACHE_HOME": str(folder.parent)})
        probe = SharedProbe(str(folder))
        self.sync = NodeSync(
            self.source, probe, self.outcomes.append, lambda: self.wanted, self.logged.append
        )
        self.sync.begin(job.fleet.commands, job.fleet.nodes[0])

    def sent(self) -> list[tuple[int, bytes]]:
        """What the node was sent since the last time."""
        self.job.step()
        node = self.job.node("n0")
        new = [(kind, body) for kind, body in node.received if kind != frames.BEAT]
        node.received.clear()
        return new

    def input(self) -> bytes:
        """The input of the program since the last time."""
        return b"".join(frames.unpack_for(b)[1] for k, b in self.sent() if k == frames.EXEC_INPUT)

    def answers(self, **fields: Any) -> None:
        """Have the program say a line."""
        self.prints(json.dumps(fields).encode() + b"\n")

    def prints(self, data: bytes, stream: int = 1) -> None:
        """Have the program print something."""
        frame = frames.pack_for(frames.EXEC_OUTPUT, 1, bytes([stream]) + data)
        self.job.node("n0").says(frame)
        self.job.step()

    def ends(self, code: int, hint: str = "") -> None:
        """Have the program end."""
        self.job.node("n0").says(messages.pack(frames.EXEC_EXIT, CommandExit(1, code, hint)))
        self.job.step()


@pytest.fixture
def sync(fleet_of: FleetOf, tmp_path: Path) -> Sync:
    """A sync of two files to a node, which was asked."""
    folder = fill(tmp_path / "proj", {"a.py": "one", "large": LARGE})
    return Sync(fleet_of("n0"), folder)


def test_a_node_that_has_everything(sync: Sync) -> None:
    (kind, asked), (_, request) = sync.sent()
    assert (kind, json.loads(asked)["program"]) == (frames.EXEC, "sync")
    fields = json.loads(frames.unpack_for(request)[1])
    assert (sync.folder / fields.pop("probe")).exists()
    assert fields == {
        "name": "proj",
        "key": sync.source.key,
        "source": str(sync.folder),
        "digest": sync.source.manifest.digest,
    }
    sync.answers(ready="/there/proj", lock="/there/.use.lock", number=1)
    assert sync.outcomes == [Copy("/there/proj", "/there/.use.lock", 1)]
    assert sync.sent() == [(frames.EXEC_INPUT, frames.pack_for(frames.EXEC_INPUT, 1)[5:])]
    sync.ends(0)
    assert len(sync.outcomes) == 1
    assert [path.name for path in sync.folder.iterdir()] == ["large", "a.py"] or not [
        path for path in sync.folder.iterdir() if path.name.startswith(".dsrun")
    ]


def test_a_node_that_shares_the_folder(sync: Sync) -> None:
    sync.answers(shared=True)
    assert sync.outcomes == [Copy("")]


def test_a_node_that_lacks_something_gets_it_as_fast_as_it_takes_it(sync: Sync) -> None:
    sync.input()
    sync.answers(waiting=True)
    sync.answers(manifest=True)
    packed = sync.source.manifest.packed
    assert sync.input() == len(packed).to_bytes(4, "big") + packed
    sync.answers(need=[1, 0])
    (said,) = sync.logged
    assert said == "copying 2 files, 786 kB (--sync)"
    received = b""
    while len(received) < len(LARGE) + 3:
        new = sync.input()
        assert 0 < len(new) <= 2 * WINDOW
        received += new
        size = len(new) + len(packed) + 4 if len(received) == len(new) else len(new)
        sync.job.node("n0").says(frames.pack_exec_count(frames.EXEC_TOOK, 1, size))
        sync.job.step()
    assert received.decode() == f"{LARGE}one"
    assert sync.outcomes == []


def test_what_a_run_has_written_is_named(sync: Sync) -> None:
    sync.answers(blocked=["a.py", "b\x1b[2J"], count=9, copy="/there/proj")
    sync.ends(0)
    assert sync.outcomes == [
        "--sync: a run has written or changed 9 files that this folder now has otherwise: a.py,"
        " b\\x1b[2J and 7 more; move them out of /there/proj there, or name them in .dsrunignore"
    ]


def test_a_node_that_cannot(sync: Sync) -> None:
    sync.answers(failed="/home/me/.cache: no space left on device")
    sync.ends(1)
    assert sync.outcomes == ["--sync: /home/me/.cache: no space left on device"]


def test_a_program_that_breaks(sync: Sync) -> None:
    sync.prints(b"Traceback\nValueError: x\n", 2)
    sync.ends(1)
    assert sync.outcomes == ["--sync: it ended with code 1 (ValueError: x)"]


@pytest.mark.parametrize(
    "line",
    [
        *("x", "[]", "{}", '{"ready":1,"lock":"","number":1}', '{"need":[7]}', '{"need":[-1]}'),
        *('{"need":["0"]}', '{"need":[true]}', "[" * 5000),
    ],
)
def test_an_answer_that_is_not_valid(sync: Sync, line: str) -> None:
    sync.prints(line.encode() + b"\n")
    assert sync.outcomes == ["--sync: the node has sent an invalid answer"]
    assert frames.EXEC_STOP in dict(sync.sent())


def test_a_line_without_an_end(sync: Sync) -> None:
    for _ in range(40):
        sync.prints(b"x" * 60_000)
    assert sync.outcomes == ["--sync: the node has sent an invalid answer"]


def test_a_file_that_is_gone_by_then(sync: Sync) -> None:
    (sync.folder / "a.py").unlink()
    sync.answers(need=[0])
    assert sync.outcomes == [f"--sync: {sync.folder}/a.py: no such file or directory"]


def test_a_copy_that_nobody_wants_any_more(sync: Sync) -> None:
    sync.wanted = False
    sync.answers(manifest=True)
    sync.answers(ready="/there", lock="/lock", number=1)
    assert sync.outcomes == []
    assert [kind for kind, _ in sync.sent()].count(frames.EXEC_STOP) == 1


def test_a_node_that_is_lost_has_no_outcome(sync: Sync) -> None:
    sync.job.node("n0").leaves()
    sync.job.step()
    assert sync.outcomes == []
    assert not [path for path in sync.folder.iterdir() if path.name.startswith(".dsrun")]
