"""Where a plan is from, in words for the user."""

from __future__ import annotations

from ..common.values import NamedTuple


class Origin(NamedTuple):
    """Where a plan is from, in words for the user.

    Attributes:
        source: what has named the hosts.
        choice: the launcher, and why it.
        notes: lines that the user is to see, at the start as well as in a dry run.
        quiet: nobody has chosen hosts or a launcher, so that there is nothing to tell.
    """

    source: str = "this program"
    choice: str = ""
    notes: tuple[str, ...] = ()
    quiet: bool = False

    @property
    def words(self) -> str:
        """Both in one line."""
        return f"hosts: {self.source}; launcher: {self.choice}"
