"""Build a release in `dist/`, as `make release` does before it tests the result.

    python -m tests.release [FOLDER]

The wheel and the source archive are built twice and compared. Files of earlier releases are removed
from the folder. Nothing is fetched or uploaded.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..support.checkout import CHECKOUT
from . import building, components

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str]) -> None:
    """Build the release, and print the names of its files."""
    out = Path(words[0] if words else CHECKOUT / "dist")
    for old in (*out.glob("dsrun-*"), *out.glob("SHA256SUMS")):
        old.unlink()
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    if changed.stdout:
        print(f"building with uncommitted changes:\n{changed.stdout}", end="")
    made = building.build_twice(out)
    bill = out / f"dsrun-{components.read(made.wheel).version}.cdx.json"
    bill.write_text(components.listed(made.wheel, building.moment()), encoding="utf-8")
    print(*made, bill, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
