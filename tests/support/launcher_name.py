"""The variable by which tests of the node know processes of a job."""

from __future__ import annotations

import os

NAME = f"DSRUN_TEST_LAUNCHER_{os.getpid()}"
"""In place of DSRUN_NODE_LAUNCHER: node launchers name what is left over, and other tests that run
at the same time on this machine leave processes for a moment."""
