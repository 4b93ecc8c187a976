"""The picture of a job as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

from dsrun.launcher.head.picture import page as pages
from dsrun.launcher.head.run.events import JobStarted, RankOutput, RanksStarted

from .pages import HOSTILE, REPORT, made
from .test_timeline import Played

HOSTS = ("n0", HOSTILE[0])


class Read(HTMLParser):
    """The elements of a page, with their attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", {}, ""))

    def handle_data(self, data: str) -> None:
        if self.elements:
            tag, attributes, text = self.elements[-1]
            self.elements[-1] = (tag, attributes, text + data)

    def texts(self, tag: str) -> list[str]:
        return [text for one, _, text in self.elements if one == tag]


def embedded(text: str) -> dict[str, object]:
    """The data of a page."""
    (found,) = [
        text
        for tag, attributes, text in Read(text).elements
        if tag == "script" and attributes.get("id") == "data"
    ]
    data: dict[str, object] = json.loads(found)
    return data


def test_nothing_that_was_said_is_markup() -> None:
    page = Read(made(HOSTS, 2))
    tags = [tag for tag, _, _ in page.elements if tag[0] != "/"]
    assert tags.count("script") == 2
    assert {*tags} <= {
        *["html", "head", "meta", "title", "style", "body", "noscript", "main", "script"]
    }
    assert not [
        name for _, attributes, _ in page.elements for name in attributes if name[:2] == "on"
    ]


def test_its_policy_allows_its_own_script_and_style_alone() -> None:
    page = Read(made(HOSTS, 2))
    (policy,) = [
        attributes["content"]
        for tag, attributes, _ in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for name, tag in (("script-src", "script"), ("style-src", "style")):
        digest = hashlib.sha256(page.texts(tag)[-1].encode()).digest()
        assert rules[name] == f"'sha256-{base64.b64encode(digest).decode()}'"


def test_it_names_nothing_of_a_network() -> None:
    assert not re.search(r"https?:|//[a-z]|@import|url\(", made(HOSTS, 2))


def test_it_has_what_was_said_word_for_word() -> None:
    data = embedded(made(HOSTS, 2))
    assert data["hosts"] == [*HOSTS]
    assert data["report"] == REPORT
    assert str(data["text"]).endswith(HOSTILE[0])
    tails = data["tails"]
    assert isinstance(tails, dict)
    assert tails["0"] == f"{HOSTILE[0]} saved a.ckpt\n" * 2


def test_control_characters_of_programs_are_escaped() -> None:
    text = made(HOSTS, 4)
    assert "\\\\x1b]0;taken\\\\x07" in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029]", text)


def test_a_page_is_bounded_whatever_is_printed() -> None:
    job = Played()
    names = tuple(f"n{number}" for number in range(512))
    job.tell(JobStarted("j", 4096, names, ("n0", 1)))
    for number, name in enumerate(names):
        ranks = tuple(range(8 * number, 8 * number + 8))
        job.tell(RanksStarted(name, ranks))
        job.tell(*[RankOutput(rank, name, 1, b"<\x01" * 5000) for rank in ranks])
    page = pages.page(REPORT, "", job.timeline)
    assert len(page.encode()) <= pages.MOST
    data = embedded(page)
    assert isinstance(data["spans"], list)
    assert len(data["spans"]) == 4096


def test_text_that_cannot_be_encoded_is_replaced() -> None:
    job = Played()
    page = pages.page({"job_id": "x\udcff"}, "", job.timeline)
    assert embedded(page)["report"] == {"job_id": "x?"}
