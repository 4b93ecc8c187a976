"""The page that tells how a job runs names modules that exist, in a table that is in order."""

from __future__ import annotations

import re

from ..support import core
from ..support.checkout import CHECKOUT

PAGE = CHECKOUT / "docs" / "architecture.md"


def story() -> list[tuple[int, str]]:
    """Return the numbered modules of the story."""
    rows = re.findall(r"^\| (\d+) \| `([\w/]+)` \|", PAGE.read_text(), re.MULTILINE)
    return [(int(number), module) for number, module in rows]


def test_the_story_has_few_modules_in_their_order() -> None:
    numbers = [number for number, _ in story()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 20 <= len(numbers) <= 30


def test_each_module_of_the_story_exists() -> None:
    missing = [one for _, one in story() if not (CHECKOUT / "launcher" / f"{one}.py").exists()]
    assert missing == []


def test_each_module_of_the_story_is_in_the_core() -> None:
    listed = core.listed(core.contract()["core"])
    assert [one for _, one in story() if one.replace("/", ".") not in listed] == []
