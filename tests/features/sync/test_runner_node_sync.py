"""What the runner says to a node about its copy of a folder, answer by answer."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.command_messages import CommandExit
from dsrun.launcher.features.sync.runner_node_sync import Copy, NodeSync
from dsrun.launcher.features.sync.runner_shared import SharedProbe
from dsrun.launcher.features.sync.runner_source import SyncSource
from dsrun.launcher.head.fleet.commands import WINDOW

from ...support.cost import LINEAR, growth
from ...support.fake_fleet import FakeFleet
from ...support.played_sync import fill, spec
from ...support.properties import same_examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    FleetOf = Callable[..., FakeFleet]

LARGE = "x" * (3 * WINDOW)


@contextmanager
def played(*hosts: str) -> Iterator[FakeFleet]:
    """Nodes for one example of a property."""
    job = FakeFleet(*hosts)
    job.connect()
    try:
        yield job
    finally:
        job.close()


class Sync:
    """A sync to one node, whose answers a test gives."""

    def __init__(self, job: FakeFleet, folder: Path) -> None:
        self.job = job
        self.folder = folder
        self.outcomes: list[Copy | str] = []
        self.logged: list[str] = []
        self.wanted = True
        self.source = SyncSource(spec(folder), {"XDG_CACHE_HOME": str(folder.parent)})
        probe = SharedProbe(str(folder))
        self.sync = NodeSync(
            self.source, probe, self.outcomes.append, lambda: self.wanted, self.logged.append
        )
        self.sync.start(job.fleet.commands, job.fleet.nodes[0])

    def sent(self) -> list[tuple[int, bytes]]:
        """What the node was sent since the last time."""
        self.job.step()
        node = self.job.node("n0")
        new = [(kind, body) for kind, body in node.received if kind != frames.BEAT]
        node.received.clear()
        return new

    def input(self) -> bytes:
        """The input of the program since the last time."""
        return b"".join(
            frames.unpack_numbered(b)[1] for k, b in self.sent() if k == frames.EXEC_INPUT
        )

    def answers(self, **fields: Any) -> None:
        """Have the program say a line."""
        self.prints(json.dumps(fields).encode() + b"\n")

    def prints(self, data: bytes, stream: int = 1) -> None:
        """Have the program print something."""
        frame = frames.pack_numbered(frames.EXEC_OUTPUT, 1, bytes([stream]) + data)
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
    fields = json.loads(frames.unpack_numbered(request)[1])
    assert (sync.folder / fields.pop("probe")).exists()
    assert fields == {
        "name": "proj",
        "key": sync.source.key,
        "source": str(sync.folder),
        "digest": sync.source.manifest.digest,
    }
    sync.answers(ready="/there/proj", lock="/there/.use.lock", number=1)
    assert sync.outcomes == [Copy("/there/proj", "/there/.use.lock", 1)]
    assert sync.sent() == [(frames.EXEC_INPUT, frames.pack_numbered(frames.EXEC_INPUT, 1)[5:])]
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
    sync.answers(blocked=["a.py", "b\x1b[2J"], files=9, copy="/there/proj")
    sync.ends(0)
    assert sync.outcomes == [
        "--sync: a run wrote or changed 9 files that now differ in this folder: a.py,"
        " b\\x1b[2J and 7 more; move them out of /there/proj there, or name them in .dsrunignore"
    ]


def test_a_node_that_cannot(sync: Sync) -> None:
    sync.answers(failed="/home/me/.cache: no space left on device")
    sync.ends(1)
    assert sync.outcomes == ["--sync: /home/me/.cache: no space left on device"]


def test_a_program_that_breaks(sync: Sync) -> None:
    sync.prints(b"Traceback\nValueError: x\n", 2)
    sync.ends(1)
    assert sync.outcomes == ["--sync: it exited with code 1 (ValueError: x)"]


@pytest.mark.parametrize(
    "line",
    [
        *("x", "[]", "{}", '{"ready":1,"lock":"","number":1}', '{"need":[7]}', '{"need":[-1]}'),
        *('{"need":["0"]}', '{"need":[true]}', "[" * 5000),
        r'{"ready":"/\ud800","lock":"/lock","number":1}',
        r'{"ready":"/copy","lock":"/\ud800","number":1}',
        '{"ready":"/copy","lock":"/lock","number":1e3}',
        '{"ready":"/copy","lock":"/lock","number":' + "9" * 4000 + "}",
        r'{"blocked":["\ud800"],"files":1,"copy":"/copy"}',
        '{"blocked":[[]],"files":1,"copy":"/copy"}',
        r'{"blocked":[],"files":1,"copy":"\ud800"}',
        '{"blocked":[],"files":-1,"copy":"/copy"}',
        r'{"failed":"\ud800"}',
        *('{"shared":1}', '{"manifest":1}', '{"waiting":true,"more":1}'),
    ],
)
def test_an_answer_that_is_not_valid(sync: Sync, line: str) -> None:
    sync.prints(line.encode() + b"\n")
    (outcome,) = sync.outcomes
    assert str(outcome).startswith("--sync: the node sent an invalid answer: ")
    assert len(str(outcome)) < 300
    assert frames.EXEC_STOP in dict(sync.sent())


TEXTS = st.sampled_from(["/copy", "", "\udcff", "\ud800", "\0", "\x1b[2J", "x" * 300])
NUMBERS = st.sampled_from([0, 1, 2, -1, 2**31, 2**64, 10**4000, 0.5, float("nan"), True])
VALUES = st.recursive(
    st.one_of(st.none(), TEXTS, NUMBERS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=2)),
    max_leaves=4,
)
FIELDS = ("shared", "manifest", "need", "ready", "lock", "number", "blocked", "files", "copy")
ANSWERS = st.dictionaries(st.sampled_from([*FIELDS, "failed", "waiting"]), VALUES, max_size=3)


def answer(values: st.SearchStrategy[Any], *names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*(values for _ in names)).map(
        lambda found: dict(zip(names, found, strict=True))
    )


LIKELY = st.one_of(
    answer(VALUES, "ready", "lock", "number"),
    answer(VALUES, "blocked", "files", "copy"),
    *(answer(VALUES, name) for name in ("need", "failed", "shared")),
)
LINES = st.one_of(st.one_of(ANSWERS, LIKELY).map(lambda one: json.dumps(one).encode()), st.binary())


@given(st.lists(LINES, min_size=1, max_size=4), st.sampled_from([50, 1000]))
@same_examples
def test_no_answer_raises_and_what_it_tells_can_be_used(lines: list[bytes], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder, played("n0") as job:
        sync = Sync(job, fill(Path(folder) / "proj", {"a.py": "one"}))
        data = b"\n".join(lines) + b"\n"
        for at in range(0, len(data), size):
            sync.prints(data[at : at + size])
        assert not job.fleet.nodes[0].lost
    for outcome in sync.outcomes:
        texts = [outcome] if isinstance(outcome, str) else [outcome.folder, outcome.lock]
        assert all(map(os.fsencode, filter(None, texts)))


def test_an_answer_in_many_blocks_costs_no_more_than_its_length(sync: Sync) -> None:
    block = b"x" * 64

    def work(blocks: int) -> None:
        for _ in range(blocks):
            sync.sync._read(block)
        sync.sync._line.clear()

    assert growth(work, 1000) < LINEAR


def test_a_line_without_an_end(sync: Sync) -> None:
    for _ in range(40):
        sync.prints(b"x" * 60_000)
    assert sync.outcomes == ["--sync: the node sent an invalid answer: a line that is too long"]


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
