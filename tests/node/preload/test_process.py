"""The preloader as a process: a script cannot tell its fork from `python -u script`."""

from __future__ import annotations

import os
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.workers.spawn import WorkerSpec

from ...support.preloading import COMMON, Ended, cold, preloader
from ...support.specs import PYTHON

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("adopting")


def spec(folder: Path, *words: str, **env: str) -> WorkerSpec:
    """A worker that runs these words in a folder."""
    argv = [PYTHON, b"-u", *map(os.fsencode, words)]
    variables = {os.fsencode(name): os.fsencode(v) for name, v in {**COMMON, **env}.items()}
    return WorkerSpec(0, argv, variables, os.fsencode(folder))


def script(folder: Path, text: str, name: str = "train.py") -> str:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(dedent(text))
    return name


def same(folder: Path, *words: str, **env: str) -> Ended:
    """Run a command both ways; returns the one way in which it ends."""
    worker = spec(folder, *words, **env)
    with preloader(["colorsys"], folder) as process:
        forked = process.run(worker)
    assert forked == cold(worker).ends()
    return forked


def test_a_script_fails_as_ever(tmp_path: Path) -> None:
    ended = same(tmp_path, script(tmp_path, "def f():\n    return 1 / 0\nf()"), "x", RANK="3")
    assert ended.status == 1
