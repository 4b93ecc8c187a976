"""The catalogue of messages has every message of the code, and nothing else."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from docs.generate.catalogue import (
    AREAS,
    Area,
    Difference,
    Message,
    compare,
    difference,
    read,
)
from docs.generate.strings import Found, collect

ENTRY = '[[message]]\ntext = "lost {host}"\ncause = "A cause."\ndo = "Nothing."\n'


@cache
def now() -> Difference:
    return difference()


def test_every_message_is_in_the_catalogue() -> None:
    """`python -m docs.generate missing AREA` prints what to fill in."""
    assert now().missing == ()


def test_every_entry_is_in_the_code_once() -> None:
    assert now().stale == ()
    assert now().twice == ()


def test_every_module_belongs_to_an_area() -> None:
    assert {one.area for one in collect()} <= set(AREAS)


def test_every_file_of_the_catalogue_belongs_to_an_area() -> None:
    read()
    folder = Path(__file__).parents[2] / "docs" / "messages"
    assert {path.stem for path in folder.glob("*")} <= set(AREAS)


def test_missing_stale_and_double_texts_are_told() -> None:
    code = [Found(text, "launcher/node/a.py", 1) for text in ("{a} lost", "{b} lost", "all lost")]
    messages = (Message("{host} lost", "", "", ("gone now",)), Message("{x} lost", "", ""))
    found = compare({"node": Area("node", messages)}, code)
    assert found.missing == (code[2],)
    assert found.stale == (("node", "gone now"),)
    assert found.twice == (("node", "{host} lost"), ("node", "{x} lost"))


def test_areas_are_independent() -> None:
    code = [Found("all lost", path, 1) for path in ("launcher/node/a.py", "launcher/head/a.py")]
    found = compare({"node": Area("node", (), ("all lost",))}, code)
    assert found == Difference((code[1],), (), ())


def catalogue(root: Path, text: str) -> dict[str, Area]:
    folder = root / "docs" / "messages"
    folder.mkdir(parents=True)
    (folder / "node.toml").write_text(text)
    return read(root)


def test_an_area_is_read(tmp_path: Path) -> None:
    text = f'{ENTRY}also = ["{{host}} lost"]\n[ignored]\ntext = ["a row"]\n'
    area = catalogue(tmp_path, text)["node"]
    assert area == Area(
        "node", (Message("lost {host}", "A cause.", "Nothing.", ("{host} lost",)),), ("a row",)
    )
    assert area.texts == ("lost {host}", "{host} lost", "a row")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (ENTRY.replace("do =", "to_do ="), "expected text, cause and do"),
        (f'{ENTRY}see = "that"\n', "; see"),
        (ENTRY.replace('"A cause."', '"a cause"'), "whole sentences"),
        (ENTRY.replace('"Nothing."', '""'), "whole sentences"),
        (f'{ENTRY}also = "one"\n', "also: expected a list"),
        (f'{ENTRY}[ignore]\ntext = ["a row"]\n', "expected .*ignored"),
        (f'{ENTRY}[ignored]\ntexts = ["a row"]\n', "expected .*ignored"),
    ],
)
def test_what_is_no_entry_is_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        catalogue(tmp_path, text)
