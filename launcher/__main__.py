"""`python -m dsrun.launcher`: the command `dsrun`."""

from .runner import start

start()
