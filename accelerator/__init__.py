"""Device vendors: the launcher's facts about each, and an interface for training code.

The launcher's part does not need torch. Importing this package imports nothing. The two functions
here are for training code, and import torch when they are called.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .training import TrainingAccelerator

__all__ = ["get_accelerator", "set_accelerator"]


def get_accelerator() -> "TrainingAccelerator":
    """Return this process's accelerator: the one that was set, or the first one detected.

    Raises:
        RuntimeError: DSRUN_ACCELERATOR or DS_ACCELERATOR names one that torch cannot use here.
        ValueError: a variable names an accelerator unknown to dsrun.
    """
    from .training import chosen

    return chosen.get()


def set_accelerator(accelerator: "TrainingAccelerator") -> None:
    """Make `get_accelerator` return this accelerator: one of dsrun's, or a compatible object."""
    from .training import chosen

    chosen.replace(accelerator)
