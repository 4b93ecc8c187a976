"""A node launcher whose runner falls silent, though the line between them stands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.backends.base import node_argv, package_root
from dsrun.launcher.common.errors import LOST
from dsrun.launcher.control import frames, messages
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.program import Program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

LEASE = 4.0


@pytest.fixture
def node() -> Iterator[subprocess.Popen[bytes]]:
    """A node launcher; ours is the runner's end of its line."""
    argv = node_argv(BackendSettings(sys.executable, package_root()), "--stdio")
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        yield process
        process.kill()


def say(node: subprocess.Popen[bytes], frame: bytes) -> None:
    assert node.stdin is not None
    node.stdin.write(frame)
    node.stdin.flush()


def heard(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Every frame from here to the end of the line."""
    decoder = frames.Decoder()
    while data := stream.read1(65536):  # type: ignore[attr-defined]
        yield from decoder.feed(data)


def test_its_last_word_is_why_it_leaves(node: subprocess.Popen[bytes], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import signal\nsignal.pause()\n")
    program = Program("train.py", (), module=False, python=sys.executable)
    task = messages.NodeJob(
        __version__, "j", "n1", program, str(tmp_path), {}, (0,), 0, lease=LEASE
    )
    start = messages.Start(0, (0,), 1, 0, 1, "127.0.0.1", 29500, 1 << 20)
    said = []
    assert node.stdout is not None
    assert node.stdout.read(len(frames.MAGIC)) == frames.MAGIC
    say(node, messages.pack(frames.JOB, task))
    for kind, body in heard(node.stdout):
        said.append(kind)
        if kind == frames.HELLO:
            say(node, messages.pack(frames.START, start))
        if kind == frames.NOTE and json.loads(body)["signal"]:
            text = json.loads(body)["text"]
            assert re.fullmatch(r"no heartbeat from the runner for \d+ s", text)
            break
    else:
        pytest.fail(f"it left without a word: {said}")
    assert said.count(frames.BEAT) > 1, "how often depends on how busy this machine is"
    assert list(heard(node.stdout)) == []


@pytest.mark.parametrize(
    "words", [["--stdio"], ["--dial=127.0.0.1:1", f"--pin={'0' * 64}", "--node=n"]]
)
def test_a_runner_that_has_gone_is_lost_in_a_line(words: tuple[str, ...]) -> None:
    """It may end while its backend is still starting nodes."""
    argv = node_argv(BackendSettings(sys.executable, package_root()), *words)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            argv, stdin=subprocess.PIPE, stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stderr.count(b"\n")) == (LOST, 1), ended.stderr
