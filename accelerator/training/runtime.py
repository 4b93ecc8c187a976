"""The base of all parts of the interface: a vendor, and torch's module for it."""

from typing import Any

import torch

from ..vendors import Accelerator
from . import cpu_runtime


def usable(device_type: str) -> bool:
    """Return whether this torch was built for such devices, and sees one."""
    try:
        return bool(module(device_type).is_available())
    except RuntimeError:  # torch knows no such type: its plug-in is not installed
        return False


def module(device_type: str) -> Any:
    """Return the module with a device type's functions.

    Raises:
        RuntimeError: torch does not know the type, or has no module for it.
    """
    return cpu_runtime if device_type == "cpu" else torch.get_device_module(device_type)


def at(device_index: int | None) -> tuple[int, ...]:
    """Return an optional index as arguments: torch's functions treat None differently."""
    return () if device_index is None else (device_index,)


class Runtime:
    """One vendor and its module.

    Raises:
        RuntimeError: torch has no module for the vendor.
    """

    def __init__(self, vendor: Accelerator) -> None:
        self._vendor = vendor
        self._type = vendor.torch_device
        self._module = module(self._type)
        self._on_host = self._type == "cpu"

    def _op(self, name: str, generic: str = "") -> Any:
        """Return the module's `name`, else torch.accelerator's `name` or `generic`."""
        for place, called in ((self._module, name), (torch.accelerator, generic or name)):
            if hasattr(place, called):
                return getattr(place, called)
        raise NotImplementedError(f"torch {torch.__version__} has no {name} for {self._type}")
