"""All facts of this machine, for a task."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.facts import MOST_FILES
from dsrun.launcher.features.quick_check.node_collect import collect
from dsrun.launcher.node.workers.prepare import NodeSetup
from dsrun.launcher.specs.program import Program

from ...support.cost import calls
from ...support.node_setup import node_setup
from ...support.tasks import task_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[..., NodeSetup]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Prepare a task in a folder with a script."""
    (tmp_path / "train.py").write_text("print(1)\n")

    def setup(program: Program | None = None, **fields: Any) -> NodeSetup:
        usual: dict[str, Any] = {
            "dsrun": __version__,
            "job_id": "j",
            "host": "n0",
            "program": program or Program("train.py"),
            "workdir": str(tmp_path),
            "env": {"DSRUN_ACCELERATOR": "cpu", "NCCL_DEBUG": "\udcff"},
            "slots": (0, 1),
            "port": None,
            "facts": True,
            "reach": True,
        }
        return node_setup(task_of(**usual | fields), lambda _text: None)

    return setup


def test_a_hello_has_the_facts_if_they_are_asked_for(make: Make, tmp_path: Path) -> None:
    before = time.time()
    hello = make().hello()
    after = time.time()
    ((_, body),) = frames.Decoder().feed(messages.pack(frames.HELLO, hello))
    back = messages.unpack(messages.Hello, body)
    assert back.facts is not None
    facts = back.facts
    assert facts == hello.facts
    assert before <= facts.wall <= after
    assert facts.script == hashlib.sha256(b"print(1)\n").hexdigest()
    assert (facts.file_count, len(facts.files)) == (1, 64)
    assert facts.env["NCCL_DEBUG"] == "\udcff"
    assert facts.python_path == sys.executable
    assert {one.role: one.path for one in facts.spaces}["work"] == str(tmp_path)
    assert facts.memory > 0
    assert 0 < facts.cpus <= (os.cpu_count() or 1)
    assert make(facts=False).hello().facts is None


def test_a_node_alone_leaves_out_what_differs_only_between_nodes(
    make: Make, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import torch, other\n")
    known, facts = collect(make()), collect(make(reach=False))
    assert (facts.script, facts.files, facts.file_count, facts.env) == ("", "", 0, {})
    assert (facts.mtus, facts.modules) == ({}, {})
    assert known.script
    assert (facts.versions, facts.limits) == (known.versions, known.limits)
    assert facts.imports_torch


def test_a_node_with_a_problem_is_not_compared(make: Make) -> None:
    hello = make(Program("none.py")).hello()
    assert hello.problems
    assert hello.facts is None


def test_a_module_and_a_function_have_no_script(make: Make) -> None:
    assert collect(make(Program("json", module=True))).script == ""
    assert collect(make(payload="gASVBAAAAAAAAABLAS4=")).script == ""


def test_it_is_told_whether_the_script_imports_torch(make: Make, tmp_path: Path) -> None:
    assert not collect(make()).imports_torch
    (tmp_path / "train.py").write_text("import torch\n")
    assert collect(make()).imports_torch
    assert not collect(make(Program("./train.py", no_python=True))).imports_torch
    assert not collect(make(Program("json", module=True))).imports_torch


def test_where_the_modules_of_the_script_are(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pp").mkdir()
    (tmp_path / "pp" / "nicemod.py").touch()
    (tmp_path / "train.py").write_text("import nicemod\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/pp:/no/such")
    found = collect(make())
    assert (found.modules, found.absent) == ({"nicemod": f"{tmp_path}/pp"}, ("/no/such",))
    assert collect(make(Program("./train.py", no_python=True))).modules == {}


def test_too_many_files_are_counted_as_one_more(make: Make, tmp_path: Path) -> None:
    for number in range(MOST_FILES):
        (tmp_path / f"{number}.py").touch()
    facts = collect(make())
    assert (facts.files, facts.file_count) == ("", MOST_FILES + 1)


def test_it_takes_little_processor_time(make: Make) -> None:
    """Five milliseconds at most, which that many calls are."""
    setup = make()
    collect(setup)  # imports, and compiles
    assert calls(lambda: collect(setup)) < 8000
