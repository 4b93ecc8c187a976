"""Lists of files as nodes print them; test_quick_check.py has them asked for."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.quick_check.runner_file_lists import _read


@pytest.mark.parametrize(
    "line", [b"", b"x", b"[1]", b"null", b"[" * 100_000, b"\xff", b'{"a": 1}', b'{"files": 1}']
)
def test_what_is_not_a_list_of_files_is_none(line: bytes) -> None:
    assert _read(line) == {}


def test_names_and_sizes() -> None:
    assert _read(b'{"files": {"a.py": 1, "b/c.py": 0, "d.py": null}, "hello": {}}') == {
        "a.py": 1,
        "b/c.py": 0,
    }
