"""Names of jobs and holds that no other process sees, for tests of what lists them all."""

import os

import pytest

from dsrun.launcher.control import local


@pytest.fixture
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the sockets of this process have addresses at which no other one looks for any.

    Who lists jobs connects to all there are, and those of other tests may not answer.
    """
    address = local.address

    def own(kind: str, name: str = "") -> str:
        return address(f"{os.getpid()}-{kind}", name)

    monkeypatch.setattr(local, "address", own)
