"""Checks that the workers' Python has debugpy, before anything is started."""

from __future__ import annotations

import subprocess

from ...common.errors import reason
from ...specs import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...node.workers.prepare import NodeSetup

PATIENCE = 30.0
"""Seconds for the workers' Python to start and to look."""

LOOK = "import importlib.util, sys; sys.exit(importlib.util.find_spec('debugpy') is None)"


def problem(setup: NodeSetup) -> str:
    """Return why workers cannot be debugged here, "" if they can."""
    wire = environment.from_wire
    env = {wire(name): wire(value) for name, value in {**setup.base, **setup.task.env}.items()}
    python = setup.python.decode("utf-8", "replace")
    try:
        done = subprocess.run(
            [setup.python, "-c", LOOK],
            timeout=PATIENCE,
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=env,
            cwd=setup.workdir,
        )
    except subprocess.TimeoutExpired:
        return f"--debug: {python} did not say within {PATIENCE:g} s whether it has debugpy"
    except OSError as error:
        return f"--debug: {python}: {reason(error)}"
    if done.returncode:
        return f"--debug: {python} has no debugpy: install it with {python} -m pip install debugpy"
    return ""
