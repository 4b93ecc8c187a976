"""Failures of devices and of collectives; `test_corpus` has more of them."""

from __future__ import annotations

from dsrun.launcher.features.diagnosis.runner_device_rows import DEVICE_ROWS, NCCL_LINES, NCCL_ROWS
from dsrun.launcher.features.diagnosis.runner_row import fits


def test_the_process_itself_is_not_another_one() -> None:
    text = "CUDA out of memory. Including non-PyTorch memory, this process has 3 GiB memory in use."
    fitting = [row for row in DEVICE_ROWS if fits(row, text) is not None]
    assert [row.advice == fitting[0].advice for row in fitting] == [True]


def test_what_another_rank_may_have_caused_is_an_echo() -> None:
    echoes = {row.name for row in NCCL_ROWS if row.echo}
    assert echoes == {
        *("nccl-connect", "nccl-timeout", "nccl-remote", "nccl-system", "nccl-peer", "hccl")
    }


def test_rows_of_nccl_that_need_no_exception() -> None:
    assert {row.name for row in NCCL_LINES} == {
        *("nccl-memlock", "nccl-duplicate", "nccl-shm", "nccl-peer", "nccl-timeout"),
        *("nccl-no-interface", "nccl-link"),
    }
