"""The program that calls a function in a worker, run as the worker's Python runs it."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import pytest

from dsrun.launcher.node.workers.calls import CALL

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = list(sys.version_info[:2])


class Ended(NamedTuple):
    """How a call has ended."""

    code: int
    head: dict[str, Any]
    value: Any
    stdout: str
    stderr: str


def called(
    function: Callable[..., object],
    *args: object,
    path: tuple[str, ...] = (),
    python: list[int] | None = None,
    body: bytes | None = None,
    **kwargs: object,
) -> Ended:
    """Call a function in a process of its own, as a worker does."""
    head = json.dumps({"path": path, "python": python or HERE}).encode()
    payload = body if body is not None else cloudpickle.dumps((function, args, kwargs))
    source = os.memfd_create("payload")
    os.write(source, head + b"\n" + payload)
    read, write = os.pipe()
    with os.fdopen(read, "rb") as report:
        command = [sys.executable, "-u", CALL, str(source), str(write)]
        process = subprocess.Popen(
            command,
            pass_fds=(source, write),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(source)
        os.close(write)
        line, _, rest = report.read().partition(b"\n")
    out, err = process.communicate()
    found = json.loads(line)
    assert found.pop("size") == len(rest)
    return Ended(process.returncode, found, pickle.loads(rest) if rest else None, out, err)


def test_a_value_comes_back() -> None:
    offset = 10

    def add(one: int, other: int, *, more: int = 0) -> dict[str, int]:
        print("adding")
        return {"sum": one + other + more + offset}

    ended = called(add, 1, 2, more=3)
    assert (ended.code, ended.value) == (0, {"sum": 16})
    assert ended.head == {"state": "returned", "words": "", "text": ""}
    assert (ended.stdout, ended.stderr) == ("adding\n", "")


def test_the_function_finds_a_process_like_that_of_a_script() -> None:
    def look() -> list[Any]:
        import sys as its

        return [its.argv, its.path]

    argv, path = called(look, path=("/mine", sys.prefix)).value
    assert argv == [CALL]
    assert path[0] == "/mine"
    assert str(Path(CALL).parent) not in path


def test_an_exception_comes_back_with_its_traceback() -> None:
    def fail() -> None:
        raise KeyError("k")

    ended = called(fail)
    assert (ended.code, ended.head["state"], ended.head["words"]) == (1, "raised", "KeyError: 'k'")
    assert isinstance(ended.value, KeyError)
    text = ended.head["text"]
    assert text.startswith("Traceback (most recent call last):\n")
    assert ("in fail" in text, CALL in text) == (True, False)
    assert ended.stderr == text


def test_an_exception_that_cannot_be_unpickled_is_text() -> None:
    class Odd(Exception):
        def __init__(self, one: int, other: int) -> None:
            super().__init__(f"{one} of {other}")

    def fail() -> None:
        raise Odd(1, 2)

    ended = called(fail)
    assert (ended.code, ended.value, ended.head["words"]) == (1, None, "Odd: 1 of 2")


def test_a_result_that_cannot_be_pickled_is_an_exception() -> None:
    def open_one() -> object:
        import threading

        return threading.Lock()

    ended = called(open_one)
    assert (ended.code, ended.head["state"]) == (1, "raised")
    assert ended.head["words"].startswith("TypeError: the result, a lock, cannot be pickled: ")


@pytest.mark.parametrize(
    ("code", "state"), [(0, "returned"), (None, "returned"), (3, "raised"), ("bye", "raised")]
)
def test_a_function_may_end_its_process(code: object, state: str) -> None:
    ended = called(sys.exit, code)
    assert ended.head["state"] == state
    assert ended.code == {0: 0, None: 0, 3: 3, "bye": 1}[code]  # type: ignore[index]
    assert ended.stderr == ("bye\n" if code == "bye" else "")


def test_a_module_that_the_worker_lacks(tmp_path: Path) -> None:
    (tmp_path / "their_module.py").write_text("def work():\n    return 7\n")
    body = b"ctheir_module\nwork\n)}\x87."
    lost = called(print, body=body)
    assert (lost.code, lost.head["state"]) == (1, "raised")
    words = "NotLoaded: the function cannot be loaded: ModuleNotFoundError: No module named"
    assert lost.head["words"].startswith(words)
    assert called(print, body=body, path=(str(tmp_path),)).value == 7


def test_another_python_is_refused() -> None:
    ended = called(print, python=[3, 9])
    own = ".".join(map(str, HERE))
    assert ended.head["words"] == (
        f"NotLoaded: the function was sent by Python 3.9, but this is Python {own}"
    )
    assert ended.stdout == ""
