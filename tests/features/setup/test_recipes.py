"""The recipes of docs/setup.md, with stand-ins for uv, conda and modules: there is no network."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ...support.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs/setup.md").read_text()
COMMANDS = re.findall(r"^    dsrun (--setup .*)$", PAGE, re.MULTILINE)

VENV = f"{sys.executable} -m venv --without-pip"
PROGRAMS = {
    "uv": f'[ "$*" = "sync --frozen" ] || exit 9; test -e .venv || {VENV} .venv',
    "conda": f"""
case "$1" in
    env) [ "$*" = "env update --prefix ./env --file environment.yml" ] || exit 9; {VENV} ./env;;
    shell.posix) echo ". $3/bin/activate";;
esac
""",
}
FILES = {
    "uv.lock": "",
    "environment.yml": "",
    "env.sh": 'eval "$(conda shell.posix activate ./env)"\n',
    "modules.sh": 'module() { LOADED="$*"; }\nmodule load python cuda\n',
    "train.py": "import sys; print(sys.prefix)\n",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_recipe_makes_its_environment_and_uses_it(tmp_path: Path, command: str) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "work").mkdir()
    for name, text in FILES.items():
        (tmp_path / "work" / name).write_text(text)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        [sys.executable, str(CHECKOUT / "bin/dsrun"), "--num_gpus", "1", "--prefix", "",
         *shlex.split(command)],
        cwd=tmp_path / "work",
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended
    assert ended.stdout.strip() in {f"{tmp_path}/work/.venv", f"{tmp_path}/work/env"}


def test_there_are_three() -> None:
    assert len(COMMANDS) == 3
    for name in ("env.sh", "modules.sh"):
        assert FILES[name].splitlines()[-1] in PAGE
