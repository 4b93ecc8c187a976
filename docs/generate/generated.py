"""The generators: each module has `files()`, which returns every file it makes, path to content."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from . import bugs, completion, manual, options, promises_seen, schemas

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent.parent
"""The checkout."""

GENERATORS: tuple[ModuleType, ...] = (
    *(manual, completion, options, schemas),
    *(bugs, promises_seen),
)


def generated() -> dict[str, str]:
    """Return every generated file: its path from the root, and its content."""
    return {path: text for module in GENERATORS for path, text in module.files().items()}


def outdated(root: Path) -> dict[str, str]:
    """Return the generated files that the checkout at `root` does not have, or has otherwise."""
    return {path: text for path, text in generated().items() if _content(root / path) != text}


def _content(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None
