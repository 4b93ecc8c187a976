"""Which version of dsrun a job or hold is of, as the end of a message."""

from __future__ import annotations

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import local
from dsrun.launcher.control.versions import another

from ..support.local_control import serving


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"version": "0.0.7"}, f"; it runs dsrun 0.0.7, but this is dsrun {__version__}"),
        ({"version": "7" * 99}, f"; it runs dsrun {'7' * 40}, but this is dsrun {__version__}"),
        ({"version": __version__}, ""),
        *(({"version": wrong}, "") for wrong in (7, None, ["0.0.7"])),
        ({}, ""),
    ],
)
@pytest.mark.parametrize("kind", [local.JOB, local.HOLD])
def test_another_version_is_named(kind: str, told: dict[str, object], words: str) -> None:
    with serving({"status": lambda *_: told}, kind) as served:
        assert another(kind, served.name) == words


def test_one_that_refuses_or_has_ended_has_none() -> None:
    def refuse(*_: object) -> None:
        raise UsageError("not now")

    with serving({"status": refuse}) as served:
        assert another(local.JOB, served.name) == ""
    assert another(local.JOB, served.name) == ""
