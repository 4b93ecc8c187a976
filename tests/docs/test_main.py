"""`python -m docs.generate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from docs.generate import __main__ as command

if TYPE_CHECKING:
    from pathlib import Path


def test_files_that_are_not_current_are_written_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "outdated", lambda root: {"share/x/a": f"of {root.name}\n"})
    assert command.main([]) == 0
    assert (tmp_path / "share/x/a").read_text() == f"of {tmp_path.name}\n"
    assert capsys.readouterr().out == "share/x/a\n"


@pytest.mark.parametrize("words", [["missing", "nothing"], ["missing", "node", "cli"], ["write"]])
def test_another_command_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(words) == 2
    assert "AREA is one of" in capsys.readouterr().err


def test_what_is_missing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["missing"]) == 0
    assert capsys.readouterr().out.startswith("area")
    assert command.main(["missing", "node"]) == 0
