"""A device's memory in bytes, and pinned memory of the host, which is faster to copy from."""

from collections.abc import Mapping
from typing import Any

import torch

from .runtime import Runtime, at


class Memory(Runtime):
    """Used, free and pinned memory."""

    def empty_cache(self) -> None:
        """Free the memory that torch keeps cached."""
        self._op("empty_cache")()

    def memory_allocated(self, device_index: int | None = None) -> int:
        """Return the memory of live tensors; on the CPU, the process's resident memory."""
        return int(self._op("memory_allocated")(*at(device_index)))

    def max_memory_allocated(self, device_index: int | None = None) -> int:
        """Return the peak of allocated memory since `reset_peak_memory_stats`."""
        return int(self._op("max_memory_allocated")(*at(device_index)))

    def memory_reserved(self, device_index: int | None = None) -> int:
        """Return the memory that torch has taken from the device, used or cached."""
        return int(self._op("memory_reserved")(*at(device_index)))

    def max_memory_reserved(self, device_index: int | None = None) -> int:
        """Return the peak of reserved memory since `reset_peak_memory_stats`."""
        return int(self._op("max_memory_reserved")(*at(device_index)))

    def memory_stats(self, device_index: int | None = None) -> Mapping[str, Any]:
        """Return torch's statistics of the allocator, as in `allocated_bytes.all.peak`."""
        stats: Mapping[str, Any] = self._op("memory_stats")(*at(device_index))
        return stats

    def reset_peak_memory_stats(self, device_index: int | None = None) -> None:
        """Count all peaks from now on."""
        self._op("reset_peak_memory_stats")(*at(device_index))

    # torch's older names of these functions; torch's own functions by these names warn.
    memory_cached = memory_reserved
    max_memory_cached = max_memory_reserved
    reset_max_memory_allocated = reset_peak_memory_stats
    reset_max_memory_cached = reset_peak_memory_stats

    def total_memory(self, device_index: int | None = None) -> int:
        """Return the device's total memory."""
        return self._free_and_total(device_index)[1]

    def available_memory(self, device_index: int | None = None) -> int:
        """Return the memory that no process has taken."""
        return self._free_and_total(device_index)[0]

    def _free_and_total(self, device_index: int | None) -> tuple[int, int]:
        free, total = self._op("mem_get_info", "get_memory_info")(*at(device_index))
        return int(free), int(total)

    def pin_memory(
        self, tensor: torch.Tensor, make_copy: bool = True, match_shape: bool = True
    ) -> torch.Tensor:
        """Return a copy in pinned memory; on the CPU the tensor itself: no device copies from it.

        Without `make_copy`, return new pinned memory of equal size with undefined content;
        without `match_shape` also, it is flat.
        """
        if self._on_host:
            return tensor
        if make_copy:
            return tensor.pin_memory()
        return self.pin_empty(tensor.shape if match_shape else tensor.numel(), dtype=tensor.dtype)

    def pin_empty(
        self, *size: Any, dtype: torch.dtype, device: str | torch.device = "cpu"
    ) -> torch.Tensor:
        """Return new pinned memory with undefined content; `size` is as for torch.empty.

        Raises:
            ValueError: `device` is not the CPU; only the host's memory is pinned.
        """
        if torch.device(device).type != "cpu":
            raise ValueError(f"device={device}: only host memory can be pinned; expected 'cpu'")
        return torch.empty(*size, dtype=dtype, pin_memory=not self._on_host)

    def pin_empty_like(
        self,
        tensor: torch.Tensor,
        device: str | torch.device = "cpu",
        dtype: torch.dtype | None = None,
    ) -> torch.Tensor:
        """Return new pinned memory in a tensor's shape."""
        return self.pin_empty(tensor.shape, dtype=dtype or tensor.dtype, device=device)

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is in pinned memory."""
        return tensor.is_pinned()

    def unpin_memory(self, tensor: torch.Tensor) -> None:
        """Do nothing: torch frees pinned memory with its last tensor."""

    def pin_memory_alignment(self) -> int:
        """Return the alignment of pinned memory in bytes: 1, as any address is allowed."""
        return 1

    def register_host_memory(self, address: int, num_bytes: int) -> bool:
        """Pin memory that already exists; return False if torch cannot.

        Raises:
            RuntimeError: the device refuses.
        """
        if not hasattr(self._module, "cudart"):
            return False
        self._check(self._module.cudart().cudaHostRegister(address, num_bytes, 0))
        return True

    def unregister_host_memory(self, address: int) -> None:
        """Undo `register_host_memory`.

        Raises:
            RuntimeError: the device refuses.
        """
        if hasattr(self._module, "cudart"):
            self._check(self._module.cudart().cudaHostUnregister(address))

    def _check(self, code: Any) -> None:
        if int(code):
            raise self._module.CudaError(int(code))

    def on_accelerator(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is on a device of this kind."""
        return tensor.device.type == self._type
