"""Errors in words: why a system call has failed, and which limit it has met."""

from __future__ import annotations

import errno
import os

import pytest

from dsrun.launcher.common.errors import exhausted, is_full, limit_met, reason


def of(number: int) -> OSError:
    """The error of this number."""
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOENT, "no such file or directory"),
        (
            errno.EMFILE,
            f"too many open files (the limit is {os.sysconf('SC_OPEN_MAX')}; raise it with"
            " ulimit -n)",
        ),
        (
            errno.ENFILE,
            "too many open files in system (on this machine; raise sysctl fs.file-max)",
        ),
    ],
)
def test_the_limit_that_was_met_stands_behind_the_reason(number: int, said: str) -> None:
    assert f"{reason(of(number))}{limit_met(of(number))}" == said


@pytest.mark.parametrize(
    ("number", "full"),
    [
        (errno.EMFILE, True),
        (errno.ENFILE, True),
        (errno.EAGAIN, True),
        (errno.ENOMEM, True),
        (errno.ENOENT, False),
    ],
)
def test_a_machine_is_full(number: int, *, full: bool) -> None:
    assert is_full(of(number)) is full


def following(error: Exception, cause: Exception) -> Exception:
    """An error that was raised while another was handled."""
    error.__context__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (of(errno.EMFILE), True),
        (of(errno.ENFILE), True),
        (following(KeyError("x"), following(ValueError("y"), of(errno.EMFILE))), True),
        (ImportError("libz.so: cannot open shared object file: Too many open files"), True),
        (ImportError("no module named x"), False),
        (ValueError("Too many open files"), False),
        (of(errno.ENOENT), False),
        (of(errno.ENOMEM), True),
        (MemoryError(), True),
        (following(KeyError("x"), MemoryError()), True),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("another one"), False),
        (ImportError("libz.so.1: failed to map segment from shared object"), True),
    ],
)
def test_an_error_comes_of_a_limit(error: Exception, *, told: bool) -> None:
    assert bool(exhausted(error)) is told
