"""Holds that a test plays; see `tests/support/fake_hold.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ...support.fake_hold import FakeHold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsrun.launcher.specs.host import Host


@pytest.fixture
def hold_of() -> Iterator[Callable[..., FakeHold]]:
    """Make holds of these hosts; all are closed at the end of the test."""
    made: list[FakeHold] = []

    def make(*hosts: Host | str, **more: Any) -> FakeHold:
        made.append(FakeHold(*hosts, **more))
        return made[-1]

    yield make
    for hold in made:
        hold.close()
