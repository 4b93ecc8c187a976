"""Apple's GPUs: torch does not support them on Linux, so only if named, and with one worker."""

from .base import Accelerator

ACCELERATOR = Accelerator(
    name="mps",
    title="Apple GPUs",
    comm_backend="gloo",
    built_in=1,
)
