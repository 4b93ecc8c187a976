"""What a worker sees of itself: this file is also the script that such a worker runs.

Bytes that are no text come and go as the characters of the same numbers (latin-1).
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = __file__


@dataclass(frozen=True)
class Told:
    """What one worker has seen of itself.

    Attributes:
        argv: all words behind the interpreter's own.
        env: the whole environment.
        cwd: the folder it runs in.
        python: its interpreter.
        cpus: those that it may run on.
        host: the machine it is on.
    """

    argv: list[bytes]
    env: dict[bytes, bytes]
    cwd: bytes
    python: str
    cpus: set[int]
    host: str

    def __getitem__(self, name: str) -> str:
        """The text of a variable."""
        return self.env[name.encode()].decode()


def tell(folder: str) -> None:
    """Write it all to a file of this rank's in that folder."""
    seen = {
        "argv": [os.fsencode(word).decode("latin-1") for word in sys.argv],
        "env": {n.decode("latin-1"): v.decode("latin-1") for n, v in os.environb.items()},
        "cwd": os.fsencode(Path.cwd()).decode("latin-1"),
        "python": sys.executable,
        "cpus": sorted(os.sched_getaffinity(0)),
        "host": os.uname().nodename,
    }
    Path(folder, f"told-{os.environ['RANK']}.json").write_text(json.dumps(seen))


def told(folder: Path) -> list[Told]:
    """What the workers have written to that folder, by rank; the files are gone then."""
    files = sorted(folder.glob("told-*.json"), key=lambda path: int(path.stem.partition("-")[2]))
    found = [_read(json.loads(path.read_text())) for path in files]
    for path in files:
        path.unlink()
    return found


def _read(seen: dict[str, Any]) -> Told:
    return Told(
        argv=[word.encode("latin-1") for word in seen["argv"]],
        env={n.encode("latin-1"): v.encode("latin-1") for n, v in seen["env"].items()},
        cwd=seen["cwd"].encode("latin-1"),
        python=seen["python"],
        cpus=set(seen["cpus"]),
        host=seen["host"],
    )


if __name__ == "__main__":
    tell(os.environ["TELL"])
