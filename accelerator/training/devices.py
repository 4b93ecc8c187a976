"""Which devices there are, which one this process works on, and their random numbers."""

from types import ModuleType

import torch

from .runtime import Runtime, at

# Whose runtime itself orders what depends on each other and waits for memory. Source: DeepSpeed's
# HPU accelerator; what the CPU runs has ended when the call returns.
_ORDERED = ("cpu", "hpu")


class Devices(Runtime):
    """Devices by name and index, and their random numbers."""

    def is_available(self) -> bool:
        """Whether torch sees such a device."""
        return bool(self._op("is_available")())

    def is_synchronized_device(self) -> bool:
        """Whether an operation has ended when its call returns."""
        return self._on_host

    def use_host_timers(self) -> bool:
        """Whether the host's clock times operations as well as the device's events do."""
        return self._on_host

    def resolves_data_dependency(self) -> bool:
        """Whether operations on several streams need no waiting for each other's results."""
        return self._type in _ORDERED

    def handles_memory_backpressure(self) -> bool:
        """Whether an allocation waits for memory that earlier operations will free."""
        return self._type in _ORDERED

    def device(self, device_index: int | None = None) -> torch.device:
        """The device as torch writes it; there is one CPU, whatever the index."""
        if device_index is None or self._on_host:
            return torch.device(self._type)
        return torch.device(self._type, device_index)

    def device_name(self, device_index: int | None = None) -> str:
        """`cuda`, or `cuda:1` with an index; `cpu` always."""
        return str(self.device(device_index))

    def set_device(self, device_index: int) -> None:
        """Work on this device from now on."""
        self._op("set_device", "set_device_index")(device_index)

    def current_device(self) -> int:
        """The index of the device in use."""
        return int(self._op("current_device", "current_device_index")())

    def current_device_name(self) -> str:
        """The device in use, as in `cuda:1`."""
        return self.device_name(self.current_device())

    def device_count(self) -> int:
        """How many devices this process sees."""
        return int(self._op("device_count")())

    def synchronize(self, device_index: int | None = None) -> None:
        """Wait until a device has done all it was given."""
        self._op("synchronize")(*at(device_index))

    def random(self) -> ModuleType:
        """torch.random, for the random numbers of the host."""
        return torch.random

    def get_rng_state(self, device_index: int | None = None) -> torch.Tensor:
        """The state of a device's random numbers."""
        state: torch.Tensor = self._op("get_rng_state")(*at(device_index))
        return state

    def set_rng_state(self, new_state: torch.Tensor, device_index: int | None = None) -> None:
        """Continue a device's random numbers from a state."""
        self._op("set_rng_state")(new_state, *at(device_index))

    def manual_seed(self, seed: int) -> None:
        """Seed the random numbers of the current device."""
        self._op("manual_seed")(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed those of every device."""
        self._op("manual_seed_all")(seed)

    def initial_seed(self) -> int:
        """The seed of the current device's random numbers."""
        return int(self._op("initial_seed")())

    def default_generator(self, device_index: int) -> torch.Generator:
        """The generator behind a device's random numbers."""
        self.current_device()  # CUDA makes them when it is initialised, which this does
        generator: torch.Generator = self._op("default_generators")[device_index]
        return generator
