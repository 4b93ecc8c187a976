"""What a login shell prints before a command is not the command's."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.exec.runner_shell_session import NOISE, LoginNoiseFilter

STREAM = b"Welcome to n1\nmark-1\nout\nmark-1\nmore"


@pytest.mark.parametrize("size", [1, 3, 7, len(STREAM)])
def test_what_comes_before_the_mark_is_dropped_however_it_is_cut(size: int) -> None:
    noise_filter = LoginNoiseFilter("mark-1")
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert b"".join(map(noise_filter.feed, pieces)) == b"out\nmark-1\nmore"
    assert noise_filter.found
    assert noise_filter.noise == b"Welcome to n1\n"


def test_endless_noise_does_not_fill_the_memory() -> None:
    noise_filter = LoginNoiseFilter("mark-1")
    for _ in range(10):
        assert noise_filter.feed(b"x" * NOISE) == b""
    assert not noise_filter.found
    assert len(noise_filter.noise) == NOISE
