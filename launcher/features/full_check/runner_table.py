"""The steps of the full check, in their order."""

from __future__ import annotations

from . import runner_collective_step as collective_step
from . import runner_device_step as device_step
from . import runner_network as network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .runner_steps import Step


def steps(workdir: str = "", python: str = "") -> tuple[Step, ...]:
    """Return all steps.

    Args:
        workdir: the folder that jobs run in, whose disk is tested, or "".
        python: the workers', "" for the one that dsrun runs on on each node.
    """
    return network.STEP, device_step.step(workdir, python), collective_step.step(python)
