"""`python -m dsrun`: the command `dsrun`."""

from dsrun.launcher.__main__ import main

main()
