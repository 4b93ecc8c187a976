"""Numbers in files of sysfs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrun.launcher.features.binding import node_sysfs as sysfs


@pytest.mark.parametrize(
    ("text", "number", "numbers"),
    [
        ("7\n", 7, {7}),
        ("0-3,8\n", None, {0, 1, 2, 3, 8}),
        ("\n", None, set()),
        ("word\n", None, set()),
    ],
)
def test_what_a_file_says(tmp_path: Path, text: str, number: int | None, numbers: set[int]) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    assert sysfs.number(str(path)) == number
    assert sysfs.numbers(str(path)) == numbers


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert sysfs.number(str(tmp_path / "none")) is None
    assert sysfs.numbers(str(tmp_path)) == set()
