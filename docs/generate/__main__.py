"""Write every generated file that is not current: `python -m docs.generate`."""

from __future__ import annotations

from .generated import ROOT, outdated


def main() -> None:
    """Write the files that are not current, and name them."""
    for path, text in outdated(ROOT).items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
