"""What ends a detached job although its terminal does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dsrun.launcher.backends import load
from dsrun.launcher.backends.base import Part
from dsrun.launcher.features.detached import runner_launch as notes
from dsrun.launcher.specs.backend import BackendSettings

AGENT = {"SSH_AUTH_SOCK": "/run/agent"}


def spec(**more: Any) -> Any:
    return cast("Any", SimpleNamespace(**{"job_id": "j", "elastic": object(), **more}))


def parts(name: str, *, used: bool = False) -> list[Part]:
    backend: Any = load(name, BackendSettings())
    if used:
        backend._sessions = SimpleNamespace(used_agent=True)
    return [Part(load("local", BackendSettings()), [cast("Any", 0)]), Part(backend, ["n1"])]  # type: ignore[list-item]


def test_inside_the_job_of_a_scheduler_it_ends_with_that() -> None:
    note = notes.of_scheduler(spec(), {"SLURM_JOB_ID": "17"})
    assert note.startswith("this job ends with Slurm job 17, even if it is detached")
    assert "`dsrun-job wait j`" in note
    assert notes.of_scheduler(spec(), {}) == ""


@pytest.mark.parametrize(("used", "says"), [(True, True), (False, False)])
def test_paramiko_knows_whose_key_it_was(used: bool, says: bool) -> None:
    note = notes.of_agent(parts("ssh", used=used), AGENT)
    assert note.startswith("the ssh key came from your agent (/run/agent)") is says


def test_the_program_ssh_does_not_tell() -> None:
    note = notes.of_agent(parts("openssh"), AGENT)
    assert note.startswith("the ssh key may have come from your agent")


def test_who_never_connects_again_needs_no_agent() -> None:
    assert notes.of_agent(parts("pdsh"), AGENT) == ""
    assert notes.of_agent(parts("openssh"), {}) == ""
