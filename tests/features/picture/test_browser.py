"""The picture of a job in a real browser: what is seen, and what keyboard and mouse do."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.picture.runner_about import PictureHead
from dsrun.launcher.features.picture.runner_page import page as draw

from ...support.needs import need, need_modules
from ...support.pictures import HOSTILE, REPORT, made
from ...support.pictures import played as play
from ...support.role_pictures import PlayedRoles, played

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.tier("all")

WIDE = (1600, 1000)
NARROW = (400, 900)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, without a screen."""
    need("chromium", "chromedriver")
    need_modules("selenium")
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = Chrome(options, ChromeService(shutil.which("chromedriver")))
    yield found
    found.quit()


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Page]:
    """A page that is open; at the end it has not complained."""
    opened = Page(browser, tmp_path)
    yield opened
    assert not browser.get_log("browser")


class Page:
    """A page in the browser."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.browser, self._folder = browser, folder

    def open(self, hosts: int, per_host: int, size: tuple[int, int] = WIDE) -> None:
        """Show a job."""
        names = [f"n{number}" for number in range(hosts - 1)] + [HOSTILE[0]]
        self.show(made(names, per_host), size)

    def show(self, page: str, size: tuple[int, int] = WIDE) -> None:
        file = self._folder / "r.html"
        file.write_text(page, encoding="utf-8")
        self.browser.set_window_size(*size)
        self.browser.get(file.as_uri())

    def all(self, selector: str) -> list[Any]:
        return list(self.browser.find_elements("css selector", selector))

    @property
    def labels(self) -> list[str]:
        return [one.text for one in self.all("#chart .row[data-key] .label")]

    def detail(self) -> str:
        return str(self.all("#detail")[0].text)

    def style(self, selector: str, name: str) -> str:
        return str(self.all(selector)[0].value_of_css_property(name))


def test_nothing_that_was_said_is_run(page: Page) -> None:
    page.open(3, 2)
    assert page.browser.title == "dsrun job 20260101-000000-abcdef"
    assert not page.all("img")
    assert len(page.all("script")) == 2
    assert HOSTILE[0] in page.all("h1 ~ pre, section pre")[0].text


def test_a_row_shows_what_happened_to_a_rank_and_its_last_output(page: Page) -> None:
    page.open(3, 2)
    assert page.labels[:3] == ["n0:0", "n0:1", "n1:2"]
    assert "rank 1 on n0" in page.detail(), "the first failure is shown at first"
    page.all("#chart .row[data-key]")[2].click()
    assert "rank 2 on n1" in page.detail()
    assert "saved a.ckpt" in page.detail()


def test_it_says_what_ran_and_each_sentence_once(page: Page) -> None:
    about = PictureHead("train.py --token geheim", "1.2", 1000.0)
    verdict = {"class": "program", "sentence": "it has failed", "advice": "mend the script"}
    report = {
        **REPORT,
        "verdict": verdict,
        "first_failure": {"after_seconds": 18.0},
        "seconds": 25.0,
    }
    text = "dsrun: rank 1 exited with code 3\n  boom\n  try: mend the script"
    page.show(draw(report, text, play(["n0"], 2).timeline, about))
    shown = page.all("main")[0].text
    for sentence in ("rank 1 exited with code 3", "boom", "mend the script", "it has failed"):
        assert shown.count(sentence) == 1, sentence
    lines = shown.splitlines()
    assert lines[1] == (
        "the job failed 18.0 s after it started, in round 2, after 1 restart, and lasted"
        " 25.0 s in all"
    )
    at = lines.index("command line")
    assert lines[at + 1] == "train.py --token ***"


def test_the_rounds_of_a_rank_are_parted_in_its_output(page: Page) -> None:
    page.open(3, 2)
    page.all("#chart .row[data-key]")[2].click()
    assert [one.text for one in page.all("#detail pre .part")] == ["round 1", "round 2"]


def test_a_service_that_a_good_end_stops_looks_like_no_fault(page: Page) -> None:
    page.show(played().page)
    (span,) = page.all("#chart .lane > i.served")
    assert span.get_attribute("title") == "server/n0:0: served until the end"
    assert not page.all("#chart .lane > i.stopped")


def test_there_is_no_heading_with_nothing_below_it(page: Page) -> None:
    page.show(draw({"exit_code": 0}, "", PlayedRoles().timeline))
    assert page.all("h2") == []
    page.show(draw({"exit_code": 0}, "", played().timeline))
    assert [one.text for one in page.all("h2")] == [
        *("Where the time went", "Ranks", "rank 0 on server/n0", "What happened")
    ]
    job = PlayedRoles()
    job.start("trainer")
    job.end("trainer", after=1.0)
    page.show(draw({"exit_code": 0}, "", job.timeline))
    assert "What happened" not in [one.text for one in page.all("h2")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_legend_has_two_equal_swatches(page: Page, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    page.open(4, 4)
    for legend in page.all(".legend"):
        swatches = legend.find_elements("css selector", ".swatch")
        colours = [one.value_of_css_property("background-color") for one in swatches]
        assert len({*colours}) == len(colours) > 2
        assert "rgba(0, 0, 0, 0)" not in colours
    kinds = {one.get_attribute("class") for one in page.all(".events .swatch")}
    assert "swatch checkpoint" in kinds
    for one in page.all(".events .swatch"):
        assert one.value_of_css_property("background-color") != "rgba(0, 0, 0, 0)"


def test_rows_of_roles_have_their_ranks(page: Page) -> None:
    page.show(played().page)
    assert page.labels == ["server/n0:0", "trainer/n0:0", "trainer/n1:1"]
    assert "rank 0 on server/n0" in page.detail(), "it has failed"
    page.all("#chart .row[data-key]")[2].click()
    assert "rank 1 on trainer/n1" in page.detail()
    assert "saved a.ckpt" in page.detail()


def test_the_keyboard_walks_over_the_rows(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.open(3, 2)
    page.all("#chart .row[data-key]")[0].send_keys(Keys.ARROW_DOWN)
    page.browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert "rank 2 on n1" in page.detail()


def test_search_leaves_what_has_these_words(page: Page) -> None:
    page.open(3, 2)
    page.all("#search")[0].send_keys("n1:")
    assert page.labels == ["n1:2", "n1:3"]


def test_many_ranks_are_folded_by_host(page: Page) -> None:
    page.open(16, 8)
    assert len(page.labels) == 16
    page.all("#chart .row[data-key]")[1].click()
    assert len(page.labels) == 24
    assert page.labels[2] == "n1:8"


def test_zoom_shows_a_part_of_the_time(page: Page) -> None:
    page.open(2, 2)
    before = page.all("#chart .lane > i.failed")[0].size["width"]
    page.all("button[aria-label='zoom in']")[0].click()
    assert page.all("#chart .lane > i.failed")[0].size["width"] > 1.5 * before
    page.all("button[aria-label='the whole job']")[0].click()
    assert page.all("#chart .lane > i.failed")[0].size["width"] == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [NARROW, WIDE])
def test_it_fits_on_a_phone_and_in_the_dark(page: Page, size: tuple[int, int], scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    page.open(4, 4, size)
    dark = page.style("body", "background-color") != "rgba(255, 255, 255, 1)"
    assert dark == (scheme == "dark")
    script = "return document.documentElement.scrollWidth <= window.innerWidth"
    assert page.browser.execute_script(script), "nothing is cut off at the right"
    assert len(page.browser.get_screenshot_as_png()) > 10_000


def test_4096_ranks_are_512_rows(page: Page) -> None:
    page.open(512, 8)
    assert len(page.labels) == 512
    assert page.browser.execute_script("return document.readyState") == "complete"
