"""The devices, the one that this process uses, and their random numbers."""

from types import ModuleType

import torch

from .runtime import Runtime, at

# Devices whose runtime orders dependent operations and waits for memory itself. Source: DeepSpeed's
# HPU accelerator; on the CPU an operation has ended when its call returns.
_ORDERED = ("cpu", "hpu")


class Devices(Runtime):
    """Devices by name and index, and their random numbers."""

    def is_available(self) -> bool:
        """Return whether torch sees such a device."""
        return bool(self._op("is_available")())

    def is_synchronized_device(self) -> bool:
        """Return whether an operation has ended when its call returns."""
        return self._on_host

    def use_host_timers(self) -> bool:
        """Return whether the host's clock measures operations as well as the device's events do."""
        return self._on_host

    def resolves_data_dependency(self) -> bool:
        """Return whether operations on several streams wait for each other's results."""
        return self._type in _ORDERED

    def handles_memory_backpressure(self) -> bool:
        """Return whether an allocation waits for memory that earlier operations will free."""
        return self._type in _ORDERED

    def device(self, device_index: int | None = None) -> torch.device:
        """Return torch's device; there is one CPU, whatever the index."""
        if device_index is None or self._on_host:
            return torch.device(self._type)
        return torch.device(self._type, device_index)

    def device_name(self, device_index: int | None = None) -> str:
        """Return `cuda`, or `cuda:1` with an index; for the CPU always `cpu`."""
        return str(self.device(device_index))

    def set_device(self, device_index: int) -> None:
        """Make this the current device."""
        self._op("set_device", "set_device_index")(device_index)

    def current_device(self) -> int:
        """Return the index of the current device."""
        return int(self._op("current_device", "current_device_index")())

    def current_device_name(self) -> str:
        """Return the name of the current device, as in `cuda:1`."""
        return self.device_name(self.current_device())

    def device_count(self) -> int:
        """Return the number of devices that this process sees."""
        return int(self._op("device_count")())

    def synchronize(self, device_index: int | None = None) -> None:
        """Wait until a device has done all its work."""
        self._op("synchronize")(*at(device_index))

    def random(self) -> ModuleType:
        """Return torch.random, for the random numbers of the host."""
        return torch.random

    def get_rng_state(self, device_index: int | None = None) -> torch.Tensor:
        """Return the state of a device's random numbers."""
        state: torch.Tensor = self._op("get_rng_state")(*at(device_index))
        return state

    def set_rng_state(self, new_state: torch.Tensor, device_index: int | None = None) -> None:
        """Set the state of a device's random numbers."""
        self._op("set_rng_state")(new_state, *at(device_index))

    def manual_seed(self, seed: int) -> None:
        """Seed the random numbers of the current device."""
        self._op("manual_seed")(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed the random numbers of every device."""
        self._op("manual_seed_all")(seed)

    def initial_seed(self) -> int:
        """Return the seed of the current device's random numbers."""
        return int(self._op("initial_seed")())

    def default_generator(self, device_index: int) -> torch.Generator:
        """Return the generator of a device's random numbers."""
        self.current_device()  # this initialises CUDA, which creates them
        generator: torch.Generator = self._op("default_generators")[device_index]
        return generator
