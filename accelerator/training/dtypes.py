"""The data types that a device supports, and tensors of them."""

from collections.abc import Callable
from functools import lru_cache, partial
from importlib.util import find_spec
from types import SimpleNamespace

import torch

from .runtime import Runtime

# Triton needs this compute capability of CUDA; AMD's devices have higher numbers.
_TRITON_MAJOR = 8


@lru_cache
def _adds(device_type: str, dtype: torch.dtype) -> bool:
    """Return whether a device adds such numbers: by trying, not by a list of models."""
    try:
        one = torch.ones(1, dtype=dtype, device=device_type)
        return bool((one + one).item() == 2)
    except (RuntimeError, TypeError):
        return False


class Dtypes(Runtime):
    """Data types."""

    def is_bf16_supported(self) -> bool:
        """Return whether it supports bfloat16: torch's own answer if it has one."""
        if hasattr(self._module, "is_bf16_supported"):
            return bool(self._module.is_bf16_supported())
        return _adds(self._type, torch.bfloat16)

    def is_fp16_supported(self) -> bool:
        """Return whether it supports float16."""
        return _adds(self._type, torch.half)

    def is_fp64_supported(self) -> bool:
        """Return whether it supports float64."""
        return _adds(self._type, torch.double)

    def supported_dtypes(self) -> list[torch.dtype]:
        """Return the types for training: float32, and float16 and bfloat16 if supported."""
        halves = {torch.half: self.is_fp16_supported(), torch.bfloat16: self.is_bf16_supported()}
        return [torch.float, *(dtype for dtype, supported in halves.items() if supported)]

    def is_triton_supported(self) -> bool:
        """Return whether Triton is installed and compiles for this device."""
        if self._on_host or find_spec("triton") is None or not self._module.is_available():
            return False
        properties = self._module.get_device_properties(self._module.current_device())
        return getattr(properties, "major", _TRITON_MAJOR) >= _TRITON_MAJOR

    def prefer_triton_grouped_mm(self) -> bool:
        """Return False: dsrun has no Triton kernel for grouped products."""
        return False

    def amp(self) -> SimpleNamespace:
        """Return torch.amp's `autocast` and `GradScaler` for this device type."""
        return SimpleNamespace(
            autocast=partial(torch.amp.autocast, self._type),
            GradScaler=partial(torch.amp.GradScaler, self._type),
        )

    @property
    def BFloat16Tensor(self) -> Callable[..., torch.Tensor]:
        """A function that makes bfloat16 tensors on the current device, as torch.tensor does."""
        return self._maker(torch.bfloat16)

    @property
    def ByteTensor(self) -> Callable[..., torch.Tensor]:
        """A function that makes uint8 tensors on the current device, as torch.tensor does."""
        return self._maker(torch.uint8)

    @property
    def DoubleTensor(self) -> Callable[..., torch.Tensor]:
        """A function that makes float64 tensors on the current device, as torch.tensor does."""
        return self._maker(torch.double)

    @property
    def FloatTensor(self) -> Callable[..., torch.Tensor]:
        """A function that makes float32 tensors on the current device, as torch.tensor does."""
        return self._maker(torch.float)

    @property
    def HalfTensor(self) -> Callable[..., torch.Tensor]:
        """A function that makes float16 tensors on the current device, as torch.tensor does."""
        return self._maker(torch.half)

    @property
    def IntTensor(self) -> Callable[..., torch.Tensor]:
        """A function that makes int32 tensors on the current device, as torch.tensor does."""
        return self._maker(torch.int)

    @property
    def LongTensor(self) -> Callable[..., torch.Tensor]:
        """A function that makes int64 tensors on the current device, as torch.tensor does."""
        return self._maker(torch.long)

    def _maker(self, dtype: torch.dtype) -> Callable[..., torch.Tensor]:
        return partial(torch.tensor, dtype=dtype, device=self._type)
