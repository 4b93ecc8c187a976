"""Where a plan comes from, as text for the user."""

from __future__ import annotations

from ..common.values import NamedTuple

OWN_PYTHON = "dsrun"
"""The workers' Python is the one that dsrun itself runs on."""


class Origin(NamedTuple):
    """Where a plan comes from, as text for the user.

    Attributes:
        source: where the hosts are named.
        choice: the launcher, and why it was chosen.
        notes: lines for the user, printed at the start and in a dry run.
        quiet: hosts and launcher are the defaults, so they are not worth a line.
        python: where the workers' Python comes from: `--python`, `--venv_script`, `VIRTUAL_ENV`,
            `CONDA_PREFIX`, `.venv`, or `dsrun` for dsrun's own.
    """

    source: str = "this program"
    choice: str = ""
    notes: tuple[str, ...] = ()
    quiet: bool = False
    python: str = OWN_PYTHON

    @property
    def words(self) -> str:
        """Both in one line."""
        return f"hosts: {self.source}; launcher: {self.choice}"
