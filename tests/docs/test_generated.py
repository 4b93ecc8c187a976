"""The generated files of the checkout are those that the generators make now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from docs.generate import generated

from ..support.checkout import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path


def test_all_generated_files_are_current() -> None:
    """`python -m docs.generate` writes them."""
    assert list(generated.outdated(CHECKOUT)) == []


def test_a_file_that_is_missing_or_differs_is_outdated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"same": "1", "other": "2", "missing": "3"}
    monkeypatch.setattr(generated, "GENERATORS", (SimpleNamespace(files=lambda: texts),))
    (tmp_path / "same").write_text("1")
    (tmp_path / "other").write_text("1")
    assert generated.outdated(tmp_path) == {"other": "2", "missing": "3"}
