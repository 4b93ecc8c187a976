"""The picture of a job as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import re
from itertools import combinations
from math import dist

import pytest

from dsrun.launcher.features.picture import runner_page as pages
from dsrun.launcher.features.picture.runner_about import PictureHead
from dsrun.launcher.head.run.events import RankOutput, RanksStarted, Started

from ...support.pictures import HOSTILE, REPORT, Played, Read, embedded, made
from ...support.role_pictures import PlayedRoles, played

HOSTS = ("n0", HOSTILE[0])


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
    assert str(data["box"]).endswith(HOSTILE[0])
    tails = data["tails"]
    assert isinstance(tails, dict)
    line = f"{HOSTILE[0]} saved a.ckpt\n"
    assert tails["0"] == [["round 1", line], ["round 2", line]]


def test_it_says_what_ran() -> None:
    about = PictureHead("train.py --name '</script><script>' --token=geheim", "1.2", 1000.0)
    text = pages.page(REPORT, "", Played().timeline, about)
    assert embedded(text)["about"] == {
        "program": "train.py",
        "command line": "train.py --name '</script><script>' --token=***",
        "started": "1970-01-01 00:16:40 UTC",
        "dsrun": "1.2",
    }
    assert "geheim" not in text
    assert Read(text).texts("script")[1:] == Read(made(HOSTS, 2)).texts("script")[1:]


def test_a_service_that_a_good_end_stops_has_served_until_the_end() -> None:
    spans = embedded(played().page)["spans"]
    assert isinstance(spans, list)
    assert [[state, words] for *_, state, words in spans][:2] == [
        ["failed", "exit code 3"],
        ["served", "served until the end"],
    ]


def test_a_service_that_a_bad_end_stops_is_stopped_as_all_others() -> None:
    spans = embedded(pages.page({"exit_code": 1}, "", played().timeline))["spans"]
    assert isinstance(spans, list)
    assert [words for *_, words in spans][1] == "signal 15"


def test_only_the_last_life_of_a_service_ends_with_the_job() -> None:
    job = PlayedRoles()
    for _ in range(2):
        job.start("server", after=1.0)
        job.end("server", -15, after=1.0, stopped=True)
    job.start("trainer")
    job.end("trainer", -15, stopped=True)
    spans = embedded(job.page)["spans"]
    assert isinstance(spans, list)
    states = [state for *_, state, _ in spans]
    assert states == ["stopped", "served", "stopped", "stopped"]


# -- colours --------------------------------------------------------------------------------------

SWATCHES = {
    *("running", "ok", "failed", "lost", "stopped", "served"),
    *("start", "restart", "end", "hang", "slow", "rule"),
}
APART = 40.0
"""The distance of two colours that nobody takes for the same, in steps of red, green and blue."""


@pytest.mark.parametrize("scheme", [0, 1])
def test_no_two_colours_are_alike(scheme: int) -> None:
    style = Read(made(HOSTS, 2)).texts("style")[0]
    block = style.split("prefers-color-scheme: dark")[scheme]
    known = dict(re.findall(r"--(\w+): #([0-9a-f]{6});", block.partition("\nbody")[0]))
    colours = {name: bytes.fromhex(known[name]) for name in SWATCHES | {"panel", "back"}}
    near = {
        (one, other)
        for one, other in combinations(sorted(colours), 2)
        if dist(colours[one], colours[other]) < APART and {one, other} != {"panel", "back"}
    }
    assert not near


def test_each_has_the_colour_of_its_name() -> None:
    style = Read(made(HOSTS, 2)).texts("style")[0]
    rules = re.findall(r"\.(\w+) \{ background: var\(--(\w+)\); \}", style)
    assert {name: colour for name, colour in rules if name in SWATCHES} == {
        name: name for name in SWATCHES
    }
    script = Read(made(HOSTS, 2)).texts("script")[-1]
    states = re.search(r"STATES = \[([^\]]+)\]", script)
    causes = re.search(r"CAUSES = \{([^}]+)\}", script)
    assert states
    assert causes
    assert {*re.findall(r'"(\w+)"', states[1] + causes[1])} <= SWATCHES


def test_control_characters_of_programs_are_escaped() -> None:
    text = made(HOSTS, 4)
    assert "\\\\x1b]0;taken\\\\x07" in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029]", text)


def test_a_page_is_bounded_whatever_is_printed() -> None:
    job = Played()
    names = tuple(f"n{number}" for number in range(512))
    job.tell(Started("j", 4096, names, ("n0", 1)))
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
