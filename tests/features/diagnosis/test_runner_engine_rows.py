"""Memory of engines that serve models, and of allocators other than torch's."""

from __future__ import annotations

import pytest

from .test_corpus import BEGIN, UNKNOWN, answer


def explained(text: str) -> tuple[str, str]:
    """Return class and sentence for an exception in the form of Python."""
    kind, _, sentence = answer(f"{BEGIN}{text}\n", {})
    return kind, sentence


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "RuntimeError: Bad StatusOr access: RESOURCE_EXHAUSTED: Ran out of memory in memory"
            " space hbm. Used 20.01G of 15.48G hbm. Exceeded hbm capacity by 4.53G.",
            "4.53G",
        ),
        (
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Attempting to reserve 2.50G"
            " at the bottom of memory. That was not possible. There are 1.20G free.",
            "2.50G",
        ),
        ("RuntimeError: [TM][ERROR] CUDA runtime error: out of memory a.cu:32", "CUDA runtime"),
        (
            "RuntimeError: [TensorRT-LLM][ERROR] CUDA runtime error in cudaMallocAsync(ptr, n,"
            " pool, stream): out of memory (/src/cudaUtils.h:187)",
            "cudaMallocAsync",
        ),
        (
            "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease"
            " `--max-batch-prefill-tokens`",
            "4096",
        ),
        ("RuntimeError: Prefill out of memory. Try to lower your batch size.", "batch size"),
        (
            "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000 bytes"
            " (allocated so far: 1,000 bytes).",
            "8,000,000 bytes",
        ),
    ],
)
def test_the_memory_of_a_device(text: str, named: str) -> None:
    kind, sentence = explained(text)
    assert kind == "memory"
    assert named in sentence


@pytest.mark.parametrize(
    "line",
    [
        "(EngineCore_0 pid=18104) ERROR 02-03 11:03:37 [core.py:712] ValueError: Free memory on"
        " device (9.18/139.72 GiB) on startup is less than desired GPU memory utilization"
        " (0.9, 125.75 GiB).",
        'Error: Warmup(Generation("Not enough memory to handle 8192 prefill tokens."))',
        "[TM][ERROR] CUDA runtime error: out of memory /src/memory_utils.cu:32",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096.00 MiB on device 0:"
        " cudaMalloc failed: out of memory",
    ],
)
def test_a_last_line(line: str) -> None:
    assert answer(f"\n{line}\n", {})[0] == "memory"


@pytest.mark.parametrize(
    "line",
    [
        "step 12: CUDA runtime error: out of memory was simulated",
        "answer: RuntimeError: CUDA runtime error: out of memory",
        "RuntimeError: it went wrong, and ran out of memory of what happened",
    ],
)
def test_a_line_of_a_program(line: str) -> None:
    assert answer(f"\n{line}\n", {})[0] == UNKNOWN
