"""Write the generated files, or show what the catalogue of messages lacks.

python -m docs.generate                  write every generated file that is not current
python -m docs.generate missing          count what the catalogue of messages lacks, by area
python -m docs.generate missing AREA     print entries to fill in for one area
"""

from __future__ import annotations

import sys

from .catalogue import AREAS
from .generated import outdated
from .messages import skeleton, summary
from .strings import ROOT


def main(arguments: list[str]) -> int:
    """Do what the arguments say; return the exit code."""
    if not arguments:
        return write()
    command, *areas = arguments
    if command != "missing" or len(areas) > 1 or set(areas) - set(AREAS):
        print(f"{__doc__}\nAREA is one of {', '.join(AREAS)}", file=sys.stderr)
        return 2
    print(skeleton(areas[0]) if areas else summary())
    return 0


def write() -> int:
    """Write the files that are not current, and name them."""
    for path, text in outdated(ROOT).items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
