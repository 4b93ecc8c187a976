"""A small dsrun as a runner sends it, and the places where a node keeps it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from dsrun.launcher.backends.package import bootstrap, place

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"launcher/__init__.py": '__version__ = "7"\n', "launcher/node/run/run.py": "# é\n"}
DIGEST = hashlib.sha256(json.dumps(FILES).encode()).hexdigest()


def placed(*bases: Path) -> str:
    """Keep the copy below one of these folders; return its folder."""
    return place.place([str(base) for base in bases], DIGEST, FILES, bootstrap.intact)


def contents(folder: str | Path) -> dict[str, str]:
    """The files of a copy."""
    from pathlib import Path

    root = Path(folder)
    files = (path for path in root.rglob("*") if path.is_file() and path.name != "manifest")
    return {str(path.relative_to(root)): path.read_text() for path in files}
