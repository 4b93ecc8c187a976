"""Failures of engines that serve models, and of allocators other than torch's: their memory."""

from __future__ import annotations

from ...specs.verdict import FailureClass, Retry
from .runner_device_rows import SMALLER
from .runner_row import Row, said

MEMORY, NO = FailureClass.MEMORY, Retry.NO

LESS_WORK = "lower the engine's batch size, number of tokens or context length"

ENGINE_ROWS = (
    Row(
        "xla-memory",
        MEMORY,
        NO,
        said("Ran out of memory in memory space"),
        "out of memory in the device's {space}: {used} needed, {more} more than its {total}",
        SMALLER.partition(";")[0],
        pattern=r"in memory space (?P<space>\w+)\. Used (?P<used>[\d.]+\w) of (?P<total>[\d.]+\w)"
        r" \w+\. Exceeded \w+ capacity by (?P<more>[\d.]+\w)",
    ),
    Row(
        "xla-memory",
        MEMORY,
        NO,
        said("RESOURCE_EXHAUSTED"),
        "out of device memory",
        SMALLER.partition(";")[0],
        pattern=r"[Oo]ut of memory|of memory in memory space|at the bottom of memory"
        r"|[Aa]ttempting to (?:allocate|reserve)|OOM when|ailed to allocate",
    ),
    Row(
        "engine-memory",
        MEMORY,
        NO,
        said(
            "Not enough memory to handle",
            "Not enough memory to run",
            "Not enough memory. Please",
            "Prefill out of memory",
            "Decode out of memory",
            "No enough gpu memory",
            "Not enough GPU memory",
            "not enough GPU memory",
            "Requested amount of GPU memory",
            "is larger than the maximum number of tokens that can be stored in KV cache",
            "Insufficient GPU memory",
            "insufficient GPU memory",
        ),
        "its device has too little memory for what the engine was asked to do",
        LESS_WORK,
    ),
    Row(
        "device-memory",
        MEMORY,
        NO,
        said("out of memory", "Out of memory", "OutOfMemory"),
        "out of device memory",
        SMALLER.partition(";")[0],
        # CUDA's and HIP's, as reported by engines, llama.cpp, cupy, Paddle and TensorRT.
        pattern=r"(?:\b(?:CUDA|HIP|ROCm|XPU|NPU|SYCL|cuda|hip)\b[^\n]{0,60}\b(?:error|failure)"
        r"|cudaMalloc(?!Host)\w*|hipMalloc\w*|cuMem\w+|aclrtMalloc\w*)[^\n]{0,200}\bout of memory"
        r"|Out of memory (?:allocating [\d,]+ bytes|error on [GX]PU)"
        r"|Error Code \d+: (?:OutOfMemory|Out of memory)",
    ),
)
"""Rows of vLLM, SGLang, TGI, LMDeploy, TensorRT-LLM and XLA."""

_BY_NAME = {row.name: row for row in reversed(ENGINE_ROWS)}

ENGINE_LINES = (
    _BY_NAME["xla-memory"],
    _BY_NAME["device-memory"]._replace(
        pattern=r"^(?:\[\S{1,40}\]\[?ERROR\]|\[TM\]\[ERROR\]|ggml_\w+: |.{0,60}\[TRT\] \[E\]"
        r")(?=.{0,300}(?:out of memory|OutOfMemory))"
    ),
    _BY_NAME["device-memory"]._replace(
        said=said("Cuda failure 'out of", "Cuda failure 2 'out of"),
        pattern=r"^.{0,80}\[\d+\] .{0,120}NCCL WARN ",
    ),
    _BY_NAME["engine-memory"]._replace(
        pattern=r"^(?:\[[^\]\n]{1,60}\] (?:Prefill|Decode) out of memory"
        r"|\d{4}-\d\d-\d\d\S{0,30} +ERROR [\w:.]{1,60}: Not enough memory)"
    ),
)
"""Rows that need no exception."""
