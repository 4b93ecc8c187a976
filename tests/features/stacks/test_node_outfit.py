"""The flight recorder's variables, and what the user has set of them."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.stacks.node_outfit import recorder, with_recorder

ALL = {
    "TORCH_FR_BUFFER_SIZE": "500",
    "TORCH_FR_DUMP_TEMP_FILE": "/logs/j/nccl_trace_rank_",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
}


def test_dumps_are_among_the_log_files_if_there_are_any() -> None:
    assert recorder({}, "/logs/j") == ALL
    assert recorder({}, "") == {"TORCH_FR_BUFFER_SIZE": "500"}


@pytest.mark.parametrize(
    ("own", "left"),
    [
        ("TORCH_FR_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"),
        ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE"),
        ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE"),
        ("TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT"),
    ],
)
def test_what_the_user_has_set_is_left_alone(own: str, left: str) -> None:
    assert recorder({own: "0"}, "/logs/j").keys() == ALL.keys() - {left}


def test_the_recorder_leaves_alone_what_the_user_has_set() -> None:
    env = {b"TORCH_FR_BUFFER_SIZE": b"7", b"\xff": b"\xfe"}
    assert with_recorder(env, "") == env
    added = with_recorder({b"A": b"1"}, "/logs/\udcff")
    assert added[b"TORCH_FR_DUMP_TEMP_FILE"] == b"/logs/\xff/nccl_trace_rank_"
