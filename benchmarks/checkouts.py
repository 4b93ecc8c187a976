"""Another state of this repository, in a folder of its own for as long as it is compared with."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.measure import CHECKOUT, Unfit

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def checkout_of(before: str) -> Iterator[Path]:
    """Have the checkout of a commit, or a folder that is one.

    Args:
        before: what git takes for a commit, or the path of another checkout of dsrun.

    Raises:
        Unfit: it is neither.
    """
    if Path(before, "bin", "dsrun").is_file():
        yield Path(before).resolve()
        return
    with TemporaryDirectory(prefix="dsrun-before-") as folder:
        path = Path(folder, "dsrun")
        _git("worktree", "add", "--detach", "--quiet", str(path), f"{before}^{{commit}}")
        try:
            _compile(path)
            yield path
        finally:
            _git("worktree", "remove", "--force", str(path))


def _compile(path: Path) -> None:
    """Write the byte code of a checkout, so that it starts as one that was used before."""
    words = ["-m", "compileall", "-q", "launcher", "accelerator"]
    subprocess.run([sys.executable, *words], cwd=path, check=True)


def _git(*words: str) -> None:
    done = subprocess.run(
        ["git", "-C", str(CHECKOUT), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unfit(f"git {' '.join(words)}: {done.stderr.strip()}")
