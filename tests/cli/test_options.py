"""The table of options, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.cli.help.tools import TOOLS
from dsrun.launcher.cli.option import Option, option
from dsrun.launcher.cli.options import Options, all_options, shared
from dsrun.launcher.cli.tool_options import OWN
from dsrun.launcher.specs import policies
from dsrun.launcher.specs.backend import BackendSettings, DialIn
from dsrun.launcher.specs.job import JobSpec

SHAPES: dict[str, Any] = {**vars(policies), "BackendSettings": BackendSettings, "DialIn": DialIn}
FILLING = {name: row for name, row in all_options().items() if row.fills}
ELASTIC = {"cool", "gain_delay"}
"""A policy made without a command line is more patient with a node than the command is."""


@pytest.mark.parametrize(("name", "row"), FILLING.items())
def test_an_option_and_the_field_it_fills_have_the_same_type_and_default(
    name: str, row: Option
) -> None:
    policy, _, field = row.fills.partition(".")
    shape = SHAPES[JobSpec.__annotations__[policy].removesuffix(" | None")]
    assert shape.__annotations__[field] == Options.__annotations__[name]
    if field not in ELASTIC:
        assert Options().policy(policy)[field] == shape._field_defaults[field]


def test_no_field_is_filled_by_two_options() -> None:
    assert len({row.fills for row in FILLING.values()}) == len(FILLING)


def test_a_flag_against_something_switches_its_field_off() -> None:
    assert Options().policy("debug") == {"wait": True}
    assert Options(no_debug_wait=True).policy("debug") == {"wait": False}
    assert Options(warn_slow=True).policy("watch")["slow"] is True


def test_options_are_shared_with_commands_that_exist() -> None:
    named = {f"dsrun-{tool}" for row in all_options().values() for tool in row.tools}
    assert named == OWN.keys() <= TOOLS.keys()
    assert "grace" in shared("hold")
    assert "grace" not in shared("exec")
    for command, own in OWN.items():
        assert not own.keys() & shared(command.removeprefix("dsrun-")).keys()


def test_a_row_has_no_other_fields() -> None:
    with pytest.raises(TypeError):
        option(1, "Text.", colour="red")


def test_options_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Options().grace = 3.0
    with pytest.raises(TypeError, match="unknown options: gracee"):
        Options(gracee=3.0)
    assert Options(grace=3.0).changed(quiet=True).grace == 3.0
