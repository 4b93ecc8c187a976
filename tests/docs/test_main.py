"""`python -m docs.generate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docs.generate import __main__ as command

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_files_that_are_not_current_are_written_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "outdated", lambda root: {"share/x/a": f"of {root.name}\n"})
    command.main()
    assert (tmp_path / "share/x/a").read_text() == f"of {tmp_path.name}\n"
    assert capsys.readouterr().out == "share/x/a\n"
