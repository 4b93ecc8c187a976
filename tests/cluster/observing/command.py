"""The real dsrun, with an observer of its job: `command.py FILE`, and then the words of dsrun.

It does what `bin/dsrun` does. An observer is given to a run like those of `head/doors`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def main() -> None:
    """Run dsrun."""
    top = Path(__file__).resolve().parents[3]
    checkout = type(sys)("dsrun")
    checkout.__path__ = [str(top)]
    sys.modules["dsrun"] = checkout
    doors: Any = import_module("dsrun.launcher.head.doors")
    observer: Any = import_module("observer")
    observer.FILE = sys.argv.pop(1)
    sys.path[0] = str(top / "bin")
    sys.argv[0] = str(top / "bin" / "dsrun")
    doors.OBSERVERS += (doors.Door("observer:observe", lambda _: True),)
    import_module("dsrun.launcher.entry_points").dsrun()


main()
