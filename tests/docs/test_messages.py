"""The page of messages, and the skeletons for what it lacks."""

from __future__ import annotations

import pytest

from docs.generate import messages
from docs.generate.catalogue import AREAS, Area, Difference, Message
from docs.generate.strings import Found

LOST = Message("lost {host}", "It went down.", "Start again.", ("gone `{host}`", "no host"))

FOUND = Difference(
    (Found('no "x" here', "launcher/node/a.py", 7), Found("a b", "launcher/cli/b.py", 1)),
    (("node", "an old text"), ("cli", "another one")),
    (("node", "a text"),),
)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "difference", lambda: FOUND)


def test_an_area_is_a_section_with_a_point_for_each_entry() -> None:
    page = messages.page([Area("node", (LOST,)), Area("cli")])
    assert page.startswith(messages.HEAD)
    assert page.removeprefix(messages.HEAD) == (
        f"\n## {AREAS['node']}\n\n"
        "* `lost {host}`<br>\n"
        "  It went down. **Do:** Start again.<br>\n"
        "  Parts and variants: `` gone `{host}` ``, `no host`.\n"
    )


def test_text_of_several_lines_is_shown_in_one() -> None:
    assert messages.code("one\n  two") == "`one two`"


@pytest.mark.usefixtures("found")
def test_a_skeleton_has_what_is_missing_and_names_what_is_not_in_the_code() -> None:
    assert messages.skeleton("node") == (
        '# launcher/node/a.py:7\n[[message]]\ntext = "no \\"x\\" here"\ncause = ""\ndo = ""\n\n'
        '# not in the code: "an old text"\n'
    )


@pytest.mark.usefixtures("found")
def test_a_summary_counts_by_area() -> None:
    lines = [line.split() for line in messages.summary().splitlines()]
    assert ["node", "1", "1"] in lines
    assert ["head", "0", "0"] in lines
    assert lines[-1] == ["twice", "in", "node:", '"a', 'text"']
