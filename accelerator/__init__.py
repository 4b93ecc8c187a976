"""Device vendors: what the launcher must know of each, and what training code does with its own.

The launcher's part is found without torch. Importing this package imports nothing; the two
functions here, which training code calls, import torch when they are called.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .training import TrainingAccelerator

__all__ = ["get_accelerator", "set_accelerator"]


def get_accelerator() -> "TrainingAccelerator":
    """Return this process's accelerator: the one that was set, else the one found at first.

    Raises:
        RuntimeError: DSRUN_ACCELERATOR or DS_ACCELERATOR names one that torch cannot use here.
        ValueError: one of them names none that dsrun knows.
    """
    from .training import chosen

    return chosen.get()


def set_accelerator(accelerator: "TrainingAccelerator") -> None:
    """Have `get_accelerator` return this one from now on: one of ours, or what answers like it."""
    from .training import chosen

    chosen.replace(accelerator)
