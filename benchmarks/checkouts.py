"""A temporary checkout of another state of this repository, for comparisons."""

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
    """Provide a checkout: a temporary one of a commit, or an existing folder.

    Args:
        before: a commit, in any form that git accepts, or the path of another checkout of dsrun.

    Raises:
        Unfit: it is neither of these.
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
    """Write the byte code of a checkout, so that it starts like one that has been used before."""
    words = ["-m", "compileall", "-q", "launcher", "accelerator"]
    subprocess.run([sys.executable, *words], cwd=path, check=True)


def _git(*words: str) -> None:
    done = subprocess.run(
        ["git", "-C", str(CHECKOUT), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unfit(f"git {' '.join(words)}: {done.stderr.strip()}")
