"""Facts about libraries that read variables or start threads when they are imported."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PREFIXES = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "NUMEXPR_"),
    *("TORCH_", "PYTORCH_", "NCCL_", "GLOO_", "CUDA_MODULE_LOADING", "CUBLAS_", "CUDNN_"),
    *("PYTHON", "LD_", "GLIBC_", "MALLOC_", "LC_", "LANG", "TZ", "OPENSSL_", "SSL_"),
    *("TQDM_", "FSSPEC"),
)
"""Prefixes of variables that count as read, as Python and C libraries read them.

The last row is for the modules in `SELECTIVE`.
"""

SELECTIVE = {"tqdm.utils": "TQDM_", "fsspec.config": "FSSPEC"}
"""Modules that read all variables, but use only those with these prefixes."""

THREADS = {"jemalloc_bg_thd"}
"""Native threads, by name, that a fork does not harm: their library has fork handlers for them.

jemalloc (in pyarrow, which `datasets` imports) stops its thread around a fork.
"""

PYTHON = re.compile(
    r"/lib-dynload/[^/]+$|/(ld[-\w]*|libpython[\w.]+|lib(c|m|dl|rt|util|pthread|crypt|z|expat|ffi|"
    r"ssl|crypto|bz2|lzma|uuid|nsl|intl|gcc_s|stdc\+\+))(-[\d.]+)?\.so[.\d]*$"
)
"""The paths of Python's own libraries, which do nothing at exit."""


def _lightning(module: Any) -> None:
    module.rank_zero_only.rank = module._get_rank() or 0


def _torchmetrics(module: Any) -> None:
    module.rank_zero_only.rank = int(os.environ.get("LOCAL_RANK", "0"))


def _inductor(module: Any) -> None:
    number = module.decide_compile_threads()
    if module.compile_threads != number:
        module.compile_threads = number


def _distributed(module: Any) -> None:
    """Never destroy a process group of torch: its threads may be waiting for the GIL.

    In torch 2.13 the destructor of a gloo group waits for its threads while it holds the GIL, and a
    thread may need the GIL to release objects that `torch._dynamo` has put there. A model that is
    freed after `destroy_process_group` then hangs forever. The groups are still shut down.
    """
    make = module._new_process_group_helper

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        group = make(*args, **kwargs)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group[0]))
        return group

    module._new_process_group_helper = made


KEEP_RANK: dict[str, Callable[[Any], None]] = {
    "lightning.fabric.utilities.rank_zero": _lightning,
    "lightning_fabric.utilities.rank_zero": _lightning,
    "torchmetrics.utilities.prints": _torchmetrics,
}
"""Modules that keep the rank which they find in the variables (lightning 2.6, torchmetrics 1.9)."""

_RENEW: dict[str, Callable[[Any], None]] = {
    **KEEP_RANK,
    "torch._inductor.config": _inductor,
    "torch.distributed.distributed_c10d": _distributed,
}
"""Modules that a fork has to change: they keep a rank or a CPU count, or would hang at the end.

In a worker, these functions repeat the effects of an import there (torch 2.13).
"""


def renew() -> str:
    """Let modules learn their rank and CPUs again; return the name of one that cannot, or ""."""
    for name, learn in _RENEW.items():
        if name in sys.modules:
            try:
                learn(sys.modules[name])
            except (AttributeError, ValueError):
                return name
    return ""
