"""Facts about the device for distributed jobs and the compiler."""

from collections.abc import MutableMapping, Sequence
from typing import Any

import torch

from ..vendors import Accelerator, mask
from .runtime import Runtime

# Source: DeepSpeed's HPU accelerator; every other vendor uses inductor.
_COMPILE_BACKENDS = {"hpu": "hpu_backend"}


class Distributed(Runtime):
    """Backends and variables."""

    def __init__(self, vendor: Accelerator) -> None:
        super().__init__(vendor)
        self._compile_backend = _COMPILE_BACKENDS.get(self._type, "inductor")

    def communication_backend_name(self) -> str:
        """Return torch.distributed's backend, as in `nccl`."""
        return self._vendor.comm_backend

    def communication_backend_version(self) -> Any:
        """Return NCCL's version as a tuple, RCCL's on AMD; None if torch does not report it."""
        return self._module.nccl.version() if hasattr(self._module, "nccl") else None

    def export_envs(self) -> list[str]:
        """Return the name prefixes of the variables that every node needs."""
        return list(self._vendor.env_prefixes)

    def visible_devices_envs(self) -> list[str]:
        """Return the variables that limit which devices a process sees."""
        return list(self._vendor.visible_env)

    def set_visible_devices_envs(
        self, current_env: MutableMapping[str, str], local_accelerator_ids: Sequence[int | str]
    ) -> None:
        """Set the masks in `current_env` for these devices, in this order."""
        current_env.update(mask(self._vendor, [str(index) for index in local_accelerator_ids]))

    def get_compile_backend(self) -> str:
        """Return the backend for torch.compile."""
        return self._compile_backend

    def set_compile_backend(self, backend: str) -> None:
        """Set the backend for torch.compile.

        Raises:
            ValueError: torch knows no such backend.
        """
        known = torch.compiler.list_backends(exclude_tags=())
        if backend not in known:
            raise ValueError(f"no compile backend '{backend}' (known: {', '.join(known)})")
        self._compile_backend = backend
