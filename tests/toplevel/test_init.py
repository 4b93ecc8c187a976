"""What `import dsrun` gives."""

from __future__ import annotations

import pytest

import dsrun
from dsrun.launcher import __version__
from dsrun.launcher.api import Role, launch


def test_the_names_are_those_of_the_packages_below() -> None:
    assert (dsrun.__version__, dsrun.launch, dsrun.Role) == (__version__, launch, Role)


def test_there_is_no_other_name() -> None:
    with pytest.raises(AttributeError, match=r"dsrun\.lunch"):
        dsrun.lunch  # noqa: B018
