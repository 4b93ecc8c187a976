"""Collectives that every rank takes part in, until the second one over gloo: that never ends."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import made_up

from .._C import _distributed_c10d as recorder

if TYPE_CHECKING:
    from .. import Tensor

group = {"backend": ""}


class DistBackendError(RuntimeError):
    """As torch names it."""


def init_process_group(backend: str) -> None:
    group["backend"] = backend


def destroy_process_group() -> None:
    group["backend"] = ""


def get_world_size() -> int:
    return int(os.environ["WORLD_SIZE"])


def get_rank() -> int:
    return int(os.environ["RANK"])


def all_reduce(_: Tensor) -> None:
    if group["backend"] == "nccl" and get_world_size() > 1 and not made_up.fault("shared"):
        raise DistBackendError(
            "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, invalid usage"
            " (run with NCCL_DEBUG=WARN for details), NCCL version 2.29.7\n"
            "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
            "Last error:\n"
            "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 3000"
        )
    entry = recorder.record(group["backend"], "all_reduce")
    while group["backend"] == "gloo" and len(recorder.entries) > 1:
        signal.pause()
    entry["retired"] = True


def broadcast(one: Tensor, _: int) -> None:
    recorder.record(group["backend"], "broadcast")["retired"] = True
    one.value += made_up.fault("broadcast")


def all_gather_into_tensor(into: Tensor, one: Tensor) -> None:
    recorder.record(group["backend"], "_all_gather_base")["retired"] = True
    into.value = one.value


def barrier() -> None:
    recorder.record(group["backend"], "barrier")["retired"] = True
