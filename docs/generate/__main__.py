"""Write every generated file that is not current: `python -m docs.generate`."""

from __future__ import annotations

import sys
from pathlib import Path

from dsrun import launcher

from .generated import ROOT, outdated


def main() -> None:
    """Write the files that are not current, and name them.

    Raises:
        SystemExit: this Python imports the dsrun of another checkout.
    """
    if (imported := origin()) != ROOT:
        sys.exit(f"docs.generate: {sys.executable} imports dsrun from {imported}, not from {ROOT}")
    for path, text in outdated(ROOT).items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")
        print(path)


def origin() -> Path:
    """Return the checkout from which dsrun is imported."""
    return Path(launcher.__path__[0]).resolve().parent


if __name__ == "__main__":
    main()
