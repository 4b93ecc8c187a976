"""Draw two runs as a terminal shows them: `python -m docs.generate.pictures` (as root).

Each picture is a real run of `docs/pictures/train.py` on two virtual hosts
(`tests/cluster/hosts.py`), and is written to `docs/pictures/NAME.svg`. In `failure` the data of
rank 3 is missing.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys

from rich.console import Console
from rich.text import Text

from .generated import ROOT

FOLDER = ROOT / "docs" / "pictures"
COMMAND = "dsrun --host n1:2,n2:2 train.py"
PARTS = {"run": 4, "failure": 3}
"""The pictures, and how many ranks have data there."""

WIDTH = 100
ON_THE_HOSTS = """
set -eu
cp "$1/docs/pictures/train.py" "$HOME"
cd "$HOME"
mkdir data
for rank in $(seq 0 $(($2 - 1))); do printf '%s\\n' 0.5 1.0 1.5 "$rank" > data/part-$rank.txt; done
PATH=$1/.venv/bin:$PATH DSRUN_COLOR=always exec $3
"""
"""$1: this checkout; $2: how many ranks have data; $3: the command to draw."""

FONTS = re.compile(r" *@font-face \{.*?\}\n", re.DOTALL)
"""What makes a browser fetch a font; any monospaced one will do."""


def main() -> int:
    """Run, draw and write both pictures; return the exit code."""
    for name, parts in PARTS.items():
        path = FOLDER / f"{name}.svg"
        path.write_text(svg(name, COMMAND, run(parts)), encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


def run(parts: int) -> str:
    """Return what the command prints, colours and all, where so many ranks have data."""
    hosts = [sys.executable, "tests/cluster/hosts.py", "--hosts", "2", "--"]
    script = ["sh", "-c", ON_THE_HOSTS, "sh", str(ROOT), str(parts), COMMAND]
    done = subprocess.run(
        [*hosts, *script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout.decode()


def svg(name: str, command: str, output: str) -> str:
    """Return a picture of a terminal in which `command` has printed `output`.

    Args:
        name: the picture's; its parts are named with it, as two may be on one page.
        command: the line behind the prompt.
        output: what was printed, with escape sequences for colours.
    """
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print(Text.from_ansi(output.rstrip("\n")))
    picture = console.export_svg(title=command.split(maxsplit=1)[0], unique_id=name)
    return FONTS.sub("", picture) + "\n"


if __name__ == "__main__":
    sys.exit(main())
