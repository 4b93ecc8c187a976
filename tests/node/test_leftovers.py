"""Processes of jobs that have ended, found by the node launcher in their environment."""

from __future__ import annotations

import os
import subprocess

import pytest

from dsrun.launcher.node import leftovers, processes

from ..support.launcher_name import NAME


@pytest.mark.parametrize(
    ("launcher", "left"),
    [("1:0", True), ("999999999:5", True), ("self", False), ("none", False), ("1", False)],
)
def test_what_a_dead_job_has_left_is_found(launcher: str, left: bool) -> None:
    me = f"{os.getpid()}:{processes.started(os.getpid())}"
    environ = {
        "PATH": os.environ["PATH"],
        NAME: me if launcher == "self" else launcher,
    }
    # Its environment can be read once it runs, shortly after its start.
    up = ["sh", "-c", "echo; read -r _"]
    pipe = subprocess.PIPE
    with subprocess.Popen(up, env=environ, stdin=pipe, stdout=pipe) as child:
        assert child.stdout
        child.stdout.readline()
        found = f"pid {child.pid} of a dsrun job that has ended" in leftovers.leftovers()
        child.kill()
    assert found is left


def test_who_counts_pids_otherwise_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the same number is another process."""
    environ = {"PATH": os.environ["PATH"], NAME: "1:0"}
    namespaces = {"/proc/self/ns/pid": "pid:[1]"}
    monkeypatch.setattr(os, "readlink", lambda path: namespaces.get(path, "pid:[2]"))
    # Its environment can be read once it runs, shortly after its start.
    up = ["sh", "-c", "echo; read -r _"]
    pipe = subprocess.PIPE
    with subprocess.Popen(up, env=environ, stdin=pipe, stdout=pipe) as child:
        assert child.stdout
        child.stdout.readline()
        found = leftovers.leftovers()
        child.kill()
    assert not [text for text in found if str(child.pid) in text]


def test_a_process_of_which_nothing_can_be_read_is_not_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbid(_path: str) -> str:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "readlink", forbid)
        assert not leftovers.numbered_as_here("1")
    assert leftovers.numbered_as_here(str(os.getpid()))
