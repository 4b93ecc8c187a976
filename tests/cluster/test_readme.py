"""The training of README on two virtual hosts, by the command that it has."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from ..test_readme import TRAINED, as_lines, write_training

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun


@pytest.mark.usefixtures("torch_is_here")
def test_the_training_on_two_hosts(dsrun: Dsrun, tmp_path: Path) -> None:
    write_training(tmp_path)
    command, hosts = [*TRAINED.items()][1]
    # Otherwise torch leaves a folder in /tmp.
    cache = "--export", f"TORCHINDUCTOR_CACHE_DIR={tmp_path}/inductor"
    done = dsrun(*cache, *shlex.split(command)[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "| step " in line]
    assert len(lines) == 12
    assert as_lines(hosts, lines) == []
