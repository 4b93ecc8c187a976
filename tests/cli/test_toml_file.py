"""Options in TOML files: values, and lines."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli import toml_file
from dsrun.launcher.common.errors import UsageError

TEXT = """\
top = 1
[default]
grace = 3

[[role]]
name = "a"
[role.env]
A = "1"

[[ role ]]
"name" = "b"
"""


def test_every_key_has_its_line() -> None:
    _, lines = toml_file.read("x.toml", TEXT.encode())
    keys = [("top",), ("default", "grace"), ("role", "0"), ("role", "0", "env", "A")]
    assert [toml_file.line(lines, key) for key in keys] == [1, 3, 5, 8]
    assert toml_file.line(lines, ("role", "1", "name")) == 11
    assert toml_file.line(lines, ("role", "1", "ends")) == 10, "that of its table"
    assert toml_file.line(lines, ("other",)) == 1


def test_what_is_no_toml_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"x\.toml:2: not valid TOML"):
        toml_file.read("x.toml", b"a = 1\nb = \n")
    with pytest.raises(UsageError, match=r"x\.toml: not valid TOML"):
        toml_file.read("x.toml", b"\xff")


def test_a_file_decides_which_options_it_takes() -> None:
    def unfit(row: object) -> str:
        return "" if row is not None else "no"

    found = toml_file.setting("x:1", "nodes", 2, unfit, {"nodes": "num_nodes"})
    assert (found.name, found.key, found.value) == ("num_nodes", "nodes", 2)
    with pytest.raises(UsageError, match="x:1: grace: not here"):
        toml_file.setting("x:1", "grace", 2, lambda _: "not here")
    with pytest.raises(UsageError, match=r"x:1: nods: unknown option \(did you mean nodes\?\)"):
        toml_file.setting("x:1", "nods", 2, unfit, {"nodes": "num_nodes"})
