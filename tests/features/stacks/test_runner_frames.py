"""Frames: whose code they are, and how they are named."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.stacks.runner_frames import (
    LONGEST,
    Frame,
    innermost,
    parsed,
    since_fork,
)


@pytest.mark.parametrize(
    ("written", "frame"),
    [
        ("main (/work/train.py:41)", Frame("main", "/work/train.py", 41)),
        ("<module> (/a (b)/x y.py:3)", Frame("<module>", "/a (b)/x y.py", 3)),
        ("f.<locals>.<lambda> (<string>:1)", Frame("f.<locals>.<lambda>", "<string>", 1)),
        (
            "void f(int (*)(long)) (libtorch.so)",
            Frame("void f(int (*)(long))", "libtorch.so", 0),
        ),
        ("gloo::f(int, int) (x/pair.cc:456)", Frame("gloo::f(int, int)", "x/pair.cc", 456)),
        ("nonsense", Frame("nonsense", "", 0)),
    ],
)
def test_written_frames_are_read(written: str, frame: Frame) -> None:
    assert parsed(written) == frame


@pytest.mark.parametrize(
    "file",
    [
        "/home/me/.venv/lib/python3.11/site-packages/torch/nn/modules/module.py",
        "/usr/lib/python3/dist-packages/numpy/core.py",
        "/root/.pyenv/versions/3.11.7/lib/python3.11/threading.py",
        "/opt/pytorch/pytorch/torch/distributed/distributed_c10d.py",
        "/home/me/dsrun/launcher/node/call.py",
        "<frozen runpy>",
        "/src/gloo/pair.cc",
    ],
)
def test_code_of_others(file: str) -> None:
    assert not Frame("f", file, 3).user


@pytest.mark.parametrize("file", ["/home/me/train.py", "train.py", "/data/torch/main.py"])
def test_code_of_the_user(file: str) -> None:
    assert Frame("f", file, 3).user


def test_names_and_places() -> None:
    frame = Frame("Images.__getitem__", "/home/me/project/__init__.py", 3)
    assert [frame.name, frame.place] == ["__getitem__", "project/__init__.py:3"]
    library = Frame("f", "/v/lib/python3.11/site-packages/torch/x.py", 3)
    assert [library.path, library.place] == ["torch/x.py", "x.py:3"]
    assert Frame("wait", "libc.so.6", 0).place == "libc.so.6"


def test_very_long_frames_are_cut() -> None:
    frame = parsed(f"{'f<int> (' * 100_000} (libtorch.so)")
    assert [frame.file, frame.native, len(frame.function) < LONGEST] == ["libtorch.so", True, True]


def test_the_innermost_of_the_user() -> None:
    frames = [Frame("wait", "libc.so.6", 0), Frame("f", "/w/x.py", 3), Frame("g", "/w/x.py", 9)]
    assert innermost(frames) == (frames[:1], frames[1])
    assert innermost(frames[:1]) == (frames[:1], None)


def test_what_is_outside_a_fork_does_not_count() -> None:
    start = Frame("BaseProcess._bootstrap", "/u/lib/python3.11/multiprocessing/process.py", 3)
    inside = Frame("f", "/w/x.py", 3)
    assert since_fork([inside, start, Frame("main", "/w/x.py", 9)]) == [inside]
