"""`python -m dsrun.launcher`: the command `dsrun`."""

from .entry_points import dsrun

dsrun()
