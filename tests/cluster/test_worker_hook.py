"""The hook in jobs on hosts: workers get ready for questions, however they are started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .scripts import script

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun

READY = """
import faulthandler, os
fds = "/proc/self/fd"
found = [os.readlink(f"{fds}/{fd}") for fd in os.listdir(fds) if os.path.islink(f"{fds}/{fd}")]
print(faulthandler.is_enabled(), sum("dsrun-stacks" in one for one in found))
"""

HOSTS = "--host", "n1:1,n2:1"
AGENT = "--nproc_per_node", "1", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:29655"


@pytest.mark.parametrize(
    "options",
    [
        (*HOSTS, "--max_restarts", "1"),
        (*HOSTS, "--preload", "json"),
        pytest.param(AGENT, marks=pytest.mark.tier("all")),  # torch's agent imports torch
    ],
    ids=["rounds", "preload", "agent"],
)
def test_workers_get_ready_for_questions(
    dsrun: Dsrun, tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = script(tmp_path, READY)
    ready = dsrun(*options, "--prefix", "", path)
    assert (ready.returncode, {*ready.stdout.split("\n")}) == (0, {"True 1", ""})
    plain = dsrun(*options, "--prefix", "", "--no_worker_hook", path)
    assert {*plain.stdout.split("\n")} == {"False 0", ""}
