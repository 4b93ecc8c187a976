"""Apple's GPUs: no Linux has one, so only by name, and one worker."""

from .base import Accelerator

ACCELERATOR = Accelerator(
    name="mps",
    title="Apple GPUs",
    comm_backend="gloo",
    built_in=1,
)
