"""The accelerator that this process uses."""

import logging
import os
import threading
from collections.abc import Mapping

import torch

from ..detect import detect
from ..vendors import OVERRIDES, VENDORS
from .device import TrainingAccelerator
from .runtime import usable

_log = logging.getLogger("dsrun")


class _ChosenDevice:
    """The choice of this process."""

    lock = threading.Lock()
    accelerator: TrainingAccelerator | None = None


def get() -> TrainingAccelerator:
    """Return the accelerator that was set, else the one chosen at the first call."""
    with _ChosenDevice.lock:
        if _ChosenDevice.accelerator is None:
            _ChosenDevice.accelerator = choose(os.environ)
        return _ChosenDevice.accelerator


def replace(accelerator: TrainingAccelerator) -> None:
    """Make `get` return this accelerator."""
    with _ChosenDevice.lock:
        _ChosenDevice.accelerator = accelerator


def choose(environ: Mapping[str, str], root: str = "/") -> TrainingAccelerator:
    """Return the accelerator that dsrun detects here, else the CPU, with a warning.

    Raises:
        RuntimeError: the environment names one that torch cannot use here.
        ValueError: the environment names one that dsrun does not know.
    """
    vendor = detect(environ, root)
    if usable(vendor.torch_device):
        return TrainingAccelerator(vendor)
    missing = f"torch {torch.__version__} sees no {vendor.torch_device} device"
    for name in OVERRIDES:
        if environ.get(name):
            raise RuntimeError(f"{name}={environ[name]}: {missing} here")
    _log.warning("dsrun: this machine has %s, but %s: using the CPU", vendor.title, missing)
    return TrainingAccelerator(VENDORS["cpu"])
