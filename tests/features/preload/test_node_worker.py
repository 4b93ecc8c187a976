"""Orders: what a fork has from them, and what it says if it cannot carry one out."""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.preload import node_messages as messages
from dsrun.launcher.node.workers.spawn import WorkerSpec

from ...support.preloading import COMMON, Fork, Preloader, order, preloader
from ...support.specs import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("adopting")

FINDS = """
import os, random, sys
print(sorted(os.sched_getaffinity(0)), os.getcwd(), sys.stdin.read(), random.random())
for word in sys.argv[1:]:
    os.write(int(word), b"%s from %d" % (word.encode(), int(word)))
"""


@pytest.fixture
def process(tmp_path: Path, adopting: None) -> Iterator[Preloader]:  # noqa: ARG001
    (tmp_path / "train.py").write_text(FINDS)
    (tmp_path / "sets.py").write_text("import os; os.environ.update(SET='1', KEPT='no')")
    with preloader(["colorsys", "sets"], tmp_path, tmp_path) as one:
        yield one


def spec(folder: Path, *words: str, **more: Any) -> WorkerSpec:
    argv = [PYTHON, b"-u", b"train.py", *map(os.fsencode, words)]
    env = {os.fsencode(name): os.fsencode(value) for name, value in COMMON.items()}
    return WorkerSpec(0, argv, env, os.fsencode(folder), **more)


def test_cpus_streams_and_folder_are_those_of_the_order(process: Preloader, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "train.py").rename(tmp_path / "sub" / "train.py")
    cpu = max(os.sched_getaffinity(0))
    (fork,) = process.forks(1)
    with fork.line:
        worker = fork.becomes(spec(tmp_path / "sub", cpus=(cpu,), keep_stdin=True))
        ended = worker.ends(b"fed")
    assert ended.out.startswith(f"[{cpu}] {tmp_path}/sub fed ")


def test_random_numbers_differ(process: Preloader, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import random; print(random.random())")
    assert len({process.run(spec(tmp_path)).out for _ in range(3)}) == 3


@pytest.mark.parametrize("number", [7, 199, 200, 201, 202, 203, 204, 260])
def test_descriptors_have_the_same_numbers_as_in_the_node_launcher(
    process: Preloader, tmp_path: Path, number: int
) -> None:
    reading, writing = os.pipe()
    ended = process.run(spec(tmp_path, str(number), fds=(number,)), fds=[writing])
    os.close(writing)
    assert (ended.status, ended.err) == (0, "")
    assert os.read(reading, 99) == b"%d from %d" % (number, number)
    os.close(reading)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("", {}),
        ("import sets", {"KEPT": "no", "SET": "1"}),
        ("os.environ['SET'] = 'mine'; import sets", {"KEPT": "no", "SET": "mine"}),
    ],
)
def test_variables_that_a_module_has_set_are_set_again_when_it_is_imported(
    process: Preloader, tmp_path: Path, first: str, then: dict[str, str]
) -> None:
    (tmp_path / "train.py").write_text(f"import os; {first}\nprint(dict(os.environ))")
    worker = spec(tmp_path)
    ended = process.run(worker._replace(env={**worker.env, b"KEPT": b"yes"}))
    assert ast.literal_eval(ended.out) == {**COMMON, "KEPT": "yes", **then}


FAILS: dict[str, tuple[dict[str, Any], str]] = {
    "no folder": ({"workdir": "/none"}, "/none: No such file or directory"),
    "no such CPU": ({"cpus": [1000]}, "Invalid argument"),
    "no such node": ({"memory": ("bind", [900])}, "Invalid argument"),
    "no such policy": ({"memory": ("best", [0])}, "KeyError('best')"),
}


@pytest.mark.parametrize(("change", "text"), FAILS.values(), ids=FAILS)
def test_it_says_why_it_cannot_be_the_worker(
    process: Preloader, tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    (fork,) = process.forks(1)
    assert answer(fork, {**order(spec(tmp_path)), **change}) == {"error": text}
    assert os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1]) == 127


def answer(fork: Fork, value: dict[str, Any]) -> dict[str, Any]:
    """Send an order with empty streams; returns the one message that follows."""
    null = os.open(os.devnull, os.O_RDWR)
    messages.send(fork.line, value, [null] * 3)
    os.close(null)
    message = messages.receive(fork.line)
    assert message is not None
    assert messages.receive(fork.line) is None
    fork.line.close()
    return message[0]


def test_it_starts_cold_where_the_script_would_import_another_module(
    process: Preloader, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import colorsys; print(colorsys.__file__)")
    (tmp_path / "colorsys.py").write_text("")
    (fork,) = process.forks(1)
    with fork.line:
        worker = fork.becomes(spec(tmp_path))
        text = f"{tmp_path} has a different module 'colorsys' from the preloaded one"
        assert fork.answer() == text
    assert worker.ends().out == f"{tmp_path}/colorsys.py\n"


def test_it_starts_cold_if_a_module_has_taken_the_number_of_a_descriptor(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, sys; os.write(7, b'x'); print(*sys.modules)")
    (tmp_path / "opens.py").write_text("import os; os.dup2(os.open(__file__, 0), 7)")
    reading, writing = os.pipe()
    with preloader(["opens"], tmp_path, tmp_path) as process:
        (fork,) = process.forks(1)
        with fork.line:
            worker = fork.becomes(spec(tmp_path, fds=(7,)), fds=[writing])
            os.close(writing)
            assert fork.answer() == "descriptor 7 is open in a preloaded module"
        assert "opens" not in worker.ends().out.split()
    assert os.read(reading, 9) == b"x"
    os.close(reading)
