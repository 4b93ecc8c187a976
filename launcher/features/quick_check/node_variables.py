"""The variables of the workers that decide how their libraries behave. Pure."""

from __future__ import annotations

from ...specs.environment import is_mask, looks_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIXES = (
    *("NCCL_", "RCCL_", "GLOO_", "CUDA_", "CUBLAS_", "CUDNN_"),
    *("TORCH_", "PYTORCH_", "TORCHINDUCTOR_"),
    *("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "UCX_", "FI_"),
    *("HIP_", "HSA_", "ROCM_", "MIOPEN_", "XLA_", "DS_", "DEEPSPEED_", "ACCELERATE_"),
)
"""Prefixes of variables that matter; not MPI's, which its launchers set for their own tasks."""

NAMES = frozenset({"LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHASHSEED", "PYTHONHOME"})
"""Other variables that matter."""

LONGEST = 4096
"""Characters of a value; a longer one is cut."""


def that_matter(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that should be equal on all nodes, and that are not secret.

    Variables that mask devices may differ: each node has its own.
    """
    return {
        name: environ[name][:LONGEST]
        for name in sorted(environ)
        if (name in NAMES or name.startswith(PREFIXES))
        and not (looks_secret(name) or is_mask(name))
    }
