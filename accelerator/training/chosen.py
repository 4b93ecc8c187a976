"""Which accelerator this process works with."""

import logging
import os
import threading
from collections.abc import Mapping

import torch

from ..detect import OVERRIDES, detect
from ..vendors.cpu import ACCELERATOR as CPU
from .device import TrainingAccelerator
from .runtime import usable

_log = logging.getLogger("dsrun")


class _Process:
    """What this process has settled on."""

    lock = threading.Lock()
    accelerator: TrainingAccelerator | None = None


def get() -> TrainingAccelerator:
    """Return the one that was set, else the one chosen at the first call."""
    with _Process.lock:
        if _Process.accelerator is None:
            _Process.accelerator = choose(os.environ)
        return _Process.accelerator


def replace(accelerator: TrainingAccelerator) -> None:
    """Return this one from now on."""
    with _Process.lock:
        _Process.accelerator = accelerator


def choose(environ: Mapping[str, str], root: str = "/") -> TrainingAccelerator:
    """Return the one that dsrun gives this machine's slots, else the CPU, with a warning.

    Raises:
        RuntimeError: the environment names one that torch cannot use here.
        ValueError: it names none that dsrun knows.
    """
    vendor = detect(environ, root)
    if usable(vendor.torch_device):
        return TrainingAccelerator(vendor)
    missing = f"torch {torch.__version__} sees no {vendor.torch_device} device"
    for name in OVERRIDES:
        if environ.get(name):
            raise RuntimeError(f"{name}={environ[name]}: {missing} here")
    _log.warning("dsrun: this machine has %s, but %s: using the CPU", vendor.title, missing)
    return TrainingAccelerator(CPU)
