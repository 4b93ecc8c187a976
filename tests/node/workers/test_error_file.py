"""What torch's `@record` has saved of an exception, and other things in place of its file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.node.workers import error_file


def record(**found: object) -> bytes:
    return json.dumps(found).encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            record(
                message={"message": "E: x", "extraInfo": {"py_callstack": "T", "timestamp": "1"}}
            ),
            ["E: x", "T"],
        ),
        (
            record(message={"message": "\ud800", "extraInfo": {"py_callstack": "\udcff"}}),
            ["?", "?"],
        ),
        (record(message="by a signal"), ["by a signal", ""]),
        (record(message={"message": 3, "extraInfo": ["py_callstack"]}), ["", ""]),
        (record(message={"message": "m" * 20000}), ["m" * error_file.KEPT, ""]),
        (record(other=1), ["", ""]),
        (b"[]", ["", ""]),
        (b"", ["", ""]),
        (b'{"message":', ["", ""]),
        (b"\xff", ["", ""]),
        (b"[" * 200_000, ["", ""]),
        (record(message="x" * error_file.LIMIT), ["", ""]),
    ],
)
def test_what_a_worker_has_recorded(content: bytes, expected: list[str]) -> None:
    fd, path = error_file.in_memory()
    # As another process of this user writes it.
    code = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    subprocess.run([sys.executable, "-S", "-c", code, path], input=content, check=True)
    try:
        assert error_file.read(path.encode()) == expected
    finally:
        os.close(fd)
    assert error_file.read(path.encode()) == ["", ""]


def test_a_pipe_in_the_place_of_what_is_recorded_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "error.json")
    assert error_file.read(os.fsencode(tmp_path / "error.json")) == ["", ""]


def test_the_longest_file_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    end = '"}'
    start = '{"message": "'
    text = start + "x" * (error_file.LIMIT - len(start + end)) + end
    path.write_text(text)
    assert error_file.read(os.fsencode(path)) == ["x" * error_file.KEPT, ""]
    path.write_text(f"{text} ")
    assert error_file.read(os.fsencode(path)) == ["", ""]
