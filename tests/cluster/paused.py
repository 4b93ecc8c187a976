"""An example that waits amid its training, so that a test can hurt it just there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import builtins, os, runpy, signal, sys

example, folder, show = {example!r}, os.path.dirname(os.path.abspath(__file__)), print
mine, theirs = os.pipe()
os.set_blocking(theirs, False)
signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)

def show_and_wait(*words, **more):
    show(*words, **more)
    if words[0].split()[:2] == ["step", "{step}"]:
        try:
            os.close(os.open(f"{{folder}}/paused", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.read(mine, 1)

builtins.print = show_and_wait
sys.argv[0] = example
runpy.run_path(example, run_name="__main__")
"""


def paused(folder: Path, example: str, step: int) -> str:
    """Write a script that is the example; returns its path.

    Once, rank 0 goes on after it has told of this step when it has heard a signal, and not before.
    """
    path = folder / "paused.py"
    path.write_text(SCRIPT.format(example=example, step=step))
    return str(path)
