"""The version stands in one place; all that tells it takes it from there."""

from __future__ import annotations

import re

from docs.generate import manual
from dsrun.launcher import __version__

from ..support.checkout import CHECKOUT

ONE_PLACE = "launcher/__init__.py"
OTHERS = {"CHANGELOG.md", "launcher/common/launch_json.py", "tests/common/test_launch_json.py"}
"""History, and the format of VS Code's launch.json, whose version was never another than 0.2.0."""

READ = (
    *(
        "launcher/**/*.py",
        "accelerator/**/*.py",
        "bin/*",
        "docs/**/*.*",
        "share/**/*",
        "examples/**/*",
    ),
    *("tests/**/*.py", "tests/recorded/*.json", "*.md", "*.toml", "Makefile", ".ci/*"),
)


def places(version: str) -> set[str]:
    """Return the files of the checkout that have a version in their text."""
    found = re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.])")
    files = {path for pattern in READ for path in CHECKOUT.glob(pattern) if path.is_file()}
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in files}
    return {str(path.relative_to(CHECKOUT)) for path, text in texts.items() if found.search(text)}


def test_no_other_file_says_the_version_but_those_made_from_it() -> None:
    assert places(__version__) - OTHERS == {ONE_PLACE, *manual.files()}


def test_the_newest_release_of_the_changelog_is_this_version() -> None:
    """Its day follows; what is not released yet stands above it."""
    text = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(__version__)} - \d{{4}}-\d\d-\d\d", headings[1])
