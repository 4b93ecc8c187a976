"""Pictures of a terminal; the runs in the committed ones are real, see `docs.generate.pictures`."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

import pytest

from docs.generate.pictures import COMMAND, FOLDER, PARTS, svg


def shown(picture: str) -> list[str]:
    """Return the lines of a picture, without its title."""
    rows: dict[float, str] = {}
    for node in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"):
        if node.get("clip-path"):
            at = float(node.attrib["y"])
            rows[at] = rows.get(at, "") + unescape(node.text or "").replace("\xa0", " ")
    return [rows[at].rstrip() for at in sorted(rows)]


def test_the_command_and_what_it_has_printed_are_text() -> None:
    assert shown(svg("a", "dsrun train.py", "one & <two>\n  three\n")) == [
        "$ dsrun train.py",
        "one & <two>",
        "  three",
    ]


def test_colours_are_kept() -> None:
    picture = svg("a", "dsrun", "\x1b[31mred\x1b[0m plain")
    fill = re.search(r'class="(a-r\d+)"[^>]*>red<', picture)
    assert fill
    assert re.search(rf"\.{fill[1]} {{ fill: #(?!c5c8c6)", picture)


@pytest.mark.parametrize("name", PARTS)
def test_nothing_is_fetched_from_elsewhere(name: str) -> None:
    picture = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert "url(http" not in picture.replace('"', "")
    assert "@font-face" not in picture


def test_the_pictures_are_of_a_good_run_and_of_a_failure() -> None:
    run, failure = (shown((FOLDER / f"{name}.svg").read_text(encoding="utf-8")) for name in PARTS)
    assert run[0] == failure[0] == f"$ {COMMAND}"
    assert sum("loss" in line for line in run) == 4 * 3
    assert not any("exited" in line for line in run)
    assert any("rank 3 (n2, " in line and "exited with code 1" in line for line in failure)
    assert "FileNotFoundError" in failure[-1]
