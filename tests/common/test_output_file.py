"""Files that the user names for writing: what they have now, and what is said of their names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.options import all_options
from dsrun.launcher.cli.tool_options import OWN
from dsrun.launcher.common import output_file
from dsrun.launcher.common.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

JSON = "JSON is written there; a name ending in .html gets a picture"


def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.py"
    path.write_text("import torch\n")
    (tmp_path / "link").symlink_to("v.py")
    for one in (path, tmp_path / "link"):
        with pytest.raises(UsageError) as caught:
            output_file.check_replaceable("--html", str(one))
        assert str(caught.value) == (
            f"--html {one}: has content that dsrun did not write; name another file, or"
            " remove this one"
        )
    assert path.read_text() == "import torch\n"


def test_what_loses_nothing_is_accepted(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    (tmp_path / "report").write_text('{"format": 1, "job_id": "j"}')
    for one in ("none", "empty", "pipe", "report"):
        output_file.check_replaceable("--html", str(tmp_path / one))
    for device in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/full"):
        output_file.check_replaceable("--html", device)


def test_one_file_under_two_names_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "link").symlink_to("a")
    os.link(tmp_path / "a", tmp_path / "hard")
    (tmp_path / "sub").mkdir()
    for one in ("link", "hard", "sub/../a"):
        assert output_file.is_same(f"{tmp_path}/a", f"{tmp_path}/{one}")
    assert output_file.is_same(f"{tmp_path}/new", f"{tmp_path}/sub/../new")
    assert not output_file.is_same(f"{tmp_path}/a", f"{tmp_path}/new")
    assert not output_file.is_same("/dev/null", "/dev/null"), "a device keeps nothing"


@pytest.mark.parametrize(
    ("option", "name", "form"),
    [
        ("report_file", "r.xml", JSON),
        ("report_file", "r.HTML", JSON),
        ("metrics_file", "m.json", "the text format of Prometheus is written there"),
        ("html", "h.pdf", "HTML is written there"),
        ("svg", "s.png", "SVG is written there"),
        ("debug_file", "d.toml", "JSON is written there"),
        *(("report_file", name, "") for name in ("r.json", "r.html", "r.htm", "r", "r.12")),
        ("report_file", "/dev/stdout", ""),
        *(("metrics_file", name, "") for name in ("m.prom", "m.txt", "m")),
    ],
)  # fmt: skip
def test_an_ending_that_promises_something_else(option: str, name: str, form: str) -> None:
    assert output_file.note(option, name) == (f"--{option} {name}: {form}" if form else "")


def test_each_option_that_names_a_file_to_write_has_a_form() -> None:
    rows = [*all_options().items(), *(row for own in OWN.values() for row in own.items())]
    assert {name for name, row in rows if row.file == "written"} == output_file.FORMS.keys()


def test_each_option_that_takes_a_file_says_what_becomes_of_it() -> None:
    rows = [*all_options().items(), *(row for own in OWN.values() for row in own.items())]
    assert [name for name, row in rows if row.metavar == "FILE" and not row.file] == []
    assert {row.file for _, row in rows} == {"", "read", "written"}
