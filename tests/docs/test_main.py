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
    monkeypatch.setattr(command, "origin", lambda: tmp_path)
    monkeypatch.setattr(command, "outdated", lambda root: {"share/x/a": f"of {root.name}\n"})
    command.main()
    assert (tmp_path / "share/x/a").read_text() == f"of {tmp_path.name}\n"
    assert capsys.readouterr().out == "share/x/a\n"


def test_nothing_is_written_of_another_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = command.origin()
    monkeypatch.setattr(command, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=f"imports dsrun from {own}, not from {tmp_path}"):
        command.main()
    assert list(tmp_path.iterdir()) == []
