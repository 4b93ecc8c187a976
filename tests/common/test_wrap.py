"""dsrun's own lines break at spaces on a terminal."""

from __future__ import annotations

import pytest

from dsrun.launcher.common.wrap import wrapped

from ..support.cost import LINEAR, growth

LONG = "dsrun: no accelerator found: workers run on the CPU (--accelerator cpu hides this)"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (LONG, [LONG]),
        ("dsrun: " + "word " * 20, None),
        ("  why: " + "word " * 20, None),
    ],
)
def test_a_line_breaks_at_spaces(text: str, rows: list[str] | None) -> None:
    found = wrapped(text, 84).split("\n")
    assert rows is None or found == rows
    assert all(len(row) <= 84 for row in found)
    assert " ".join(row.strip() for row in found) == text.strip()
    assert {len(row) - len(row.lstrip()) for row in found[1:]} <= {2, 4}


def test_what_has_no_space_stays_whole() -> None:
    path = "/" + "x" * 100
    assert wrapped(f"dsrun: no such script: {path}", 80) == (f"dsrun: no such script:\n  {path}")


def test_a_command_in_backquotes_stays_whole() -> None:
    command = "`ssh-keyscan h | ssh-keygen -lf -`"
    assert wrapped(f"dsrun: unknown host key, so first run {command} there", 60) == (
        f"dsrun: unknown host key, so first run\n  {command} there"
    )


def test_output_of_programs_stays_as_it_is() -> None:
    text = "    Traceback " + "word " * 40
    assert wrapped(text, 80) == text
    assert wrapped("other " * 40, 80) == "other " * 40


@pytest.mark.parametrize("piece", [" ", "`", "` ", " `a", "a "])
def test_whatever_a_host_has_said_is_broken_in_linear_time(piece: str) -> None:
    assert growth(lambda size: wrapped("dsrun: x" + piece * size, 80), 500) < LINEAR
