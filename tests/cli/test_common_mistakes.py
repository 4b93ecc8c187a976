"""Frequent mistakes in command lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrun.launcher.cli.common_mistakes import check, notes
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.specs.program import Program

FILES = {
    "run.sh": b"#!/bin/sh\nexec python train.py\n",
    "launch": b"#!/usr/bin/env -S bash -l\n",
    "a.out": b"\x7fELF\x02\x01\x01",
    "train.py": b"#!/usr/bin/env python3\nprint(1)\n",
    "plain.sh": b"import os\n",
    "bare.sh": b"set -e\npython train.py\n",
    "uv.py": b"#!/usr/bin/env -S uv run --script\n",
    "both": b"#!/bin/sh\n'''exec' \"/a long path/python\" \"$0\" \"$@\"\n' '''\nimport sys\n",
    "old": b'#!/bin/bash\n""":"\nexec python "$0" "$@"\n"""\nimport sys\n',
    "torchrun": b"import torch\n",
    "there.ipynb": b"{}",
    "conf.YAML": b"a: 1\n",
    "rl.toml": b"[[role]]\n",
    "hosts": b"# two\n\nn[1-2] slots=4\nn3\n",
    "nodes.txt": b"worker-0  slots = 8 block=a\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "folder.sh").mkdir()
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/mod.py").touch()
    return str(tmp_path)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "run.sh",
            "a shell script, not a Python script; write dsrun [options] --no_python ./run.sh ",
        ),
        (
            "./run.sh",
            "a shell script, not a Python script; write dsrun [options] --no_python ./run.sh ",
        ),
        (
            "bare.sh",
            "a shell script without #!, not a Python script; write dsrun [options] --no_python ba",
        ),
        ("hosts", "this is a hostfile; write dsrun --hostfile hosts SCRIPT"),
        ("nodes.txt", "this is a hostfile; write dsrun --hostfile nodes.txt SCRIPT"),
        (
            "launch",
            "a shell script, not a Python script; write dsrun [options] --no_python ./launch ",
        ),
        (
            "a.out",
            "an executable, not a Python script; write dsrun [options] --no_python ./a.out ",
        ),
        (
            "python",
            "dsrun starts Python itself; write dsrun [options] SCRIPT [ARGS...] (--python chooses ",
        ),
        ("/usr/bin/python3.11", "dsrun starts Python itself"),
        ("deepspeed", "dsrun replaces deepspeed; leave this word out"),
        ("accelerate", "dsrun replaces accelerate launch; leave these words out"),
        ("mpirun", "dsrun replaces mpirun; leave this word out"),
        (
            "train.ipynb",
            "a notebook; convert it with jupyter nbconvert --to script train.ipynb",
        ),
        ("there.ipynb", "a notebook; "),
        (
            "conf.YAML",
            "a YAML file, not a Python script; the script comes first: dsrun train.py con",
        ),
        (
            "rl.toml",
            "a TOML file, not a Python script; the script comes first: dsrun train.py rl.tom",
        ),
    ],
)
def test_a_file_that_is_not_a_python_script_is_refused(
    folder: str, script: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check(Program(script), folder, here=True)
    assert str(caught.value).startswith(f"{script}: {message}")
    check(Program(script, no_python=True), folder, here=True)
    check(Program(script, module=True), folder, here=True)


@pytest.mark.parametrize(
    "script",
    [
        "train.py",
        "nowhere.yaml",
        "plain.sh",
        "uv.py",
        "both",
        "old",
        "nowhere.sh",
        "folder.sh",
        "/dev/tty",
        "torchrun",
    ],
)
def test_a_file_that_may_be_a_python_script_is_accepted(folder: str, script: str) -> None:
    check(Program(script), folder, here=True)


@pytest.mark.parametrize(
    ("name", "module"),
    [("train.py", "train"), ("./pkg/mod.py", "pkg.mod")],
)
def test_a_module_has_no_end(folder: str, name: str, module: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(Program(name, module=True), folder, here=True)
    assert str(caught.value).endswith(f"write -m {module}, or leave -m out")
    check(Program(module, module=True), folder, here=True)


def test_a_slip_of_the_hand_is_told_before_other_nodes_are_asked(folder: str) -> None:
    said = f"no such script: {folder}/trian.py (did you mean train.py?)"
    with pytest.raises(UsageError) as caught:
        check(Program("trian.py"), folder, here=True)
    assert str(caught.value) == said
    with pytest.raises(UsageError) as caught:
        check(Program("trian.py"), folder, here=False)
    assert str(caught.value) == f"{said}; write ./trian.py if only the nodes have it"
    check(Program("./trian.py"), folder, here=False)
    check(Program("quite_another.py"), folder, here=False)


@pytest.mark.parametrize(
    ("args", "given", "flag"),
    [
        (("--num_gpus", "2"), (), "--num_gpus"),
        (("x", "--num-gpus=2"), (), "--num-gpus"),
        (("--lr", "1", "--hostfile", "h"), (), "--hostfile"),
        (("--num-gpus", "2"), ("num_gpus",), ""),
        (("--", "--num_gpus", "2"), (), ""),
        (("--lr", "--output_dir", "--local_rank"), (), ""),
        (("num_gpus", "-num_gpus"), (), ""),
    ],
)
def test_options_of_dsrun_after_the_script_are_noted(
    args: tuple[str, ...], given: tuple[str, ...], flag: str
) -> None:
    note = f"{flag} after t.py is passed to t.py; dsrun's options go before it"
    assert notes(Program("t.py", args), given) == ([note] if flag else [])
    assert notes(Program("t.py", args, no_python=True), given) == []
