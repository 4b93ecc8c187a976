"""What was written on a host, in memory or not, and exit codes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from dsrun.launcher.features.exec.runner_results import (
    IN_MEMORY,
    Captured,
    HostResult,
    code_words,
    exit_code,
)


def captured(*blocks: bytes) -> Captured:
    output = Captured()
    for block in blocks:
        output.add(block)
    return output


def links() -> list[str]:
    """Return what our descriptors are."""
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(fd.readlink()))
    return found


@pytest.mark.parametrize("size", [0, 1, IN_MEMORY, IN_MEMORY + 1, 3 * IN_MEMORY])
def test_equal_outputs_have_equal_keys_however_they_came(size: int) -> None:
    data = os.urandom(size)
    one, other = captured(data), captured(*(data[at : at + 777] for at in range(0, size, 777)))
    assert one.key == other.key
    assert (one.key == b"") is (size == 0)
    longer = captured(data, b"x")
    assert longer.key != one.key
    longer.close()
    assert b"".join(one.blocks()) == b"".join(other.blocks()) == data
    one.close()
    other.close()


def test_a_large_output_is_in_a_file_without_a_name() -> None:
    output = captured(b"x" * (IN_MEMORY + 1))
    assert "(deleted)" in str(links())
    assert list(output.blocks()) == list(output.blocks()), "it can be read again"
    output.close()


def test_the_exit_code_is_the_largest() -> None:
    results = [HostResult(f"n{number}") for number in range(3)]
    assert exit_code([]) == 0
    for result, code in zip(results, (0, 3, 1), strict=True):
        result.code = code
    assert exit_code(results) == 3
    unreached = HostResult("n9")
    unreached.fail("no answer", 69)
    assert exit_code([*results, unreached]) == 69


def test_exit_codes_in_words() -> None:
    assert code_words(3) == "exit code 3"
    assert code_words(137) == "exit code 137 (SIGKILL)"
    assert code_words(250) == "exit code 250"
