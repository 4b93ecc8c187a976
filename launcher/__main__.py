"""`python -m dsrun.launcher`: the command `dsrun`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command, with Python's own modules whatever files lie in the current folder."""
    if not getattr(sys.flags, "safe_path", False):  # from Python 3.11 on
        del sys.path[0]  # `-m` has put the current folder there
    from .entry_points import dsrun

    dsrun()


if __name__ == "__main__":
    main()
