"""What a preloader imports, and with which variables."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.features.preload.node_workers import PreloadRequest, request
from dsrun.launcher.specs.policies import BindingPolicy
from dsrun.launcher.specs.program import Program

from ...support.node_setup import node_setup
from ...support.tasks import task_of

if TYPE_CHECKING:
    from pathlib import Path

CUDA = {"DSRUN_ACCELERATOR": "cuda", "CUDA_VISIBLE_DEVICES": "3,5"}


def made(folder: Path, **fields: Any) -> PreloadRequest:
    (folder / "train.py").touch()
    usual: dict[str, Any] = {
        "dsrun": __version__,
        "job_id": "j",
        "host": "n0",
        "program": Program("train.py", python=sys.executable),
        "workdir": str(folder),
        "env": {"DSRUN_ACCELERATOR": "cpu"},
        "slots": (0, 1),
        "port": None,
        "preload": ("torch", "re"),
    }
    return request(node_setup(task_of(**usual | fields), print))


def test_it_is_run_as_the_workers_are(tmp_path: Path) -> None:
    found = made(tmp_path)
    python, workdir = os.fsencode(sys.executable), os.fsencode(tmp_path)
    assert found[:4] == (python, ("torch", "re"), (str(tmp_path),), workdir)
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert found.env[b"OMP_NUM_THREADS"] == b"%d" % threads
    assert found.env[b"DSRUN_JOB_ID"] == b"j"
    assert found.env[b"DSRUN_NODE_LAUNCHER"].startswith(b"%d:" % os.getpid())
    assert not {b"RANK", b"LOCAL_RANK", b"MASTER_ADDR", b"WORLD_SIZE"} & found.env.keys()


@pytest.mark.parametrize(
    ("fields", "mask"),
    [
        ({}, b"3,5"),
        ({"one_device": True}, None),
        ({"one_device": True, "slots": (1,)}, b"5"),
    ],
)
def test_what_differs_between_workers_is_left_out(
    tmp_path: Path, fields: dict[str, Any], mask: bytes | None
) -> None:
    assert made(tmp_path, env=CUDA, **fields).env.get(b"CUDA_VISIBLE_DEVICES") == mask


def test_slurms_ranks_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    found = made(tmp_path, slots=(0,))
    assert b"SLURM_PROCID" not in found.env
    assert found.env[b"SLURM_JOB_ID"] == b"9"


def test_cores_count_threads(tmp_path: Path) -> None:
    policy = BindingPolicy("core", memory="none")
    found = made(tmp_path, binding=policy, slots=(0,))
    assert 1 <= int(found.env[b"OMP_NUM_THREADS"]) <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("program", "folders"),
    [
        (Program("pack.train", module=True, python=sys.executable), ["."]),
        (Program("link.py", python=sys.executable), ["real"]),
        (Program("real/train.py", python=sys.executable, folder_first=True), ["real", "."]),
    ],
)
def test_folders_are_those_that_python_looks_in_first(
    tmp_path: Path, program: Program, folders: list[str]
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "train.py").touch()
    (tmp_path / "link.py").symlink_to("real/train.py")
    expected = tuple(str((tmp_path / folder).resolve()) for folder in folders)
    assert made(tmp_path, program=program).folders == expected
