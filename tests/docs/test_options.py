"""The page of all options."""

from __future__ import annotations

import pytest

from docs.generate.options import page, plain
from dsrun.launcher.cli.options import all_options, table
from dsrun.launcher.cli.peers import REFUSED


def test_every_option_has_a_row_with_a_default() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `-")]
    assert len(rows) == len(all_options()) + len(REFUSED)
    for name in table():
        assert f"`{name}`" in page() if name[0] == "-" else f"`--{name}`" in page()
    cells = [row.replace("\\|", "").split("|")[1:-1] for row in rows]
    assert {len(one) for one in cells} == {2, 3}
    assert all(cell.strip() for row in cells for cell in row)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("see --log_dir, not A_B", "see `--log_dir`, not A\\_B"),
        ("a|b <c> *", "a\\|b \\<c\\> \\*"),
        ("python -m X", "python `-m` X"),
    ],
)
def test_only_options_are_marked(words: str, expected: str) -> None:
    assert plain(words) == expected
