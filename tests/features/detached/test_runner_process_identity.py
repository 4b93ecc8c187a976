"""Which process runs a job: told from another one with its pid, and from those elsewhere."""

from __future__ import annotations

import os
import subprocess

import pytest

from dsrun.launcher.features.detached.runner_process_identity import Life, identity, life


def test_a_process_runs_until_it_has_ended() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        known = identity(child.pid)
        assert life(known) is Life.RUNS
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert life(known) is Life.ENDED, "a zombie has ended"
    assert life(known) is Life.ENDED


def test_another_process_with_its_pid_is_not_the_same() -> None:
    own = identity(os.getpid())
    assert life(own) is Life.RUNS
    assert life(own._replace(start=own.start - 1)) is Life.ENDED


def test_no_process_outlives_its_machine() -> None:
    assert life(identity(os.getpid())._replace(boot="another boot")) is Life.ENDED


@pytest.mark.parametrize("field", ["machine", "namespace"])
def test_a_process_of_another_machine_or_container_cannot_be_seen(field: str) -> None:
    other = identity(os.getpid())._replace(**{field: "another"})  # type: ignore[arg-type]
    assert life(other) is Life.ELSEWHERE
    assert life(other._replace(pid=1)) is Life.ELSEWHERE


def test_there_has_to_be_such_a_process() -> None:
    with pytest.raises(OSError, match="No such"):
        identity(2**22 + 1)
