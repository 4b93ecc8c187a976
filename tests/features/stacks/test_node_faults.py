"""What faulthandler has written, as Python 3.10 to 3.14 write it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from dsrun.launcher.features.stacks import hook
from dsrun.launcher.features.stacks import node_faults as faults
from dsrun.launcher.features.stacks.hook import sitecustomize
from dsrun.launcher.features.stacks.messages import ThreadStack
from dsrun.launcher.features.stacks.node_family import Member

from ...support.cost import LINEAR, growth
from ...support.leaks import open_files
from ...support.limits import HANG, wait_for

TEXT = """\
Thread 0x00007f9a3c7fe640 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/w/a (b).py", line ??? in load

Thread 0x00007f9a3cfff640 [loader 1] (most recent call first):
  <no Python frame>

Current thread 0x00007f9a44a56740 (most recent call first):
  Garbage-collecting
  File "/w/train.py", line 5 in <lambda>
  File "/w/train.py", line 9 in <module>

Current thread's C stack trace (most recent call first):
  Binary file "/usr/bin/python3.14", at _Py_DumpStack+0x29
"""


def test_threads_and_frames() -> None:
    assert [*faults.parse(7, TEXT)] == [
        ThreadStack(
            7,
            "",
            False,
            False,
            ("wait (/usr/lib/python3.11/threading.py:324)", "load (/w/a (b).py)"),
        ),
        ThreadStack(7, "loader 1", False, False, ()),
        ThreadStack(7, "", True, False, ("<lambda> (/w/train.py:5)", "<module> (/w/train.py:9)")),
    ]


def test_the_thread_of_the_hook_is_left_out() -> None:
    frame = f'  File "{hook.FOLDER}/sitecustomize.py", line 5 in a\n'
    begins = "Thread 0x1 (most recent call first):\n"
    (only,) = faults.parse(7, begins + frame + begins)
    assert only.main


@pytest.mark.parametrize(
    "text", ["", "\n\n", "nothing of this kind\n", '  File "x", line 5 in a\n']
)
def test_text_without_a_thread(text: str) -> None:
    assert [*faults.parse(7, text)] == []


@pytest.mark.parametrize(
    ("version", "first"),
    [
        ("3.9", False),
        ("3.13", False),
        ("3.14", True),
        ("3.20", True),
        ("2.14", False),
        ("3.", False),
    ],
)
def test_which_versions_of_python_write_their_stacks_themselves(version: str, first: bool) -> None:
    file = os.memfd_create(f"{sitecustomize.STACKS}{version}")
    try:
        assert faults.goes_first(os.getpid()) == first
    finally:
        os.close(file)
    assert not faults.goes_first(os.getpid()), "without the hook there is no other way"


def test_which_signals_have_a_handler() -> None:
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        assert faults.handles(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert not faults.handles(os.getpid(), signal.SIGUSR2)
    assert not faults.handles(os.getpid(), 64)


@pytest.mark.parametrize("line", ["Thread 0x1 [{}", "Thread 0x1{}", '  File "{}'])
@pytest.mark.parametrize("part", ["]", " (", '", line 1', "[", '"'])
def test_stacks_are_read_in_linear_time(line: str, part: str) -> None:
    def read(size: int) -> None:
        text = "Thread 0x1 (most recent call first):\n" + line.format(part * size)
        list(faults.parse(1, text))

    assert growth(read, 4000) < LINEAR


WRITES = f"""
import faulthandler, os, signal
fd = os.memfd_create({f"{sitecustomize.STACKS}3.14"!r})
faulthandler.register({int(sitecustomize.SIGNAL)}, file=fd, all_threads=True)
def waits():
    print(flush=True)
    signal.pause()
waits()
"""


def test_an_idle_process_writes_its_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "YOUNG", -1.0)
    before = open_files()
    argv = [sys.executable, "-ISc", WRITES]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        member = Member(0, process.pid, os.getpid(), "python", "S", "", python=True, tracer=0)
        answers: list[tuple[ThreadStack, ...]] = []

        def answered() -> list[tuple[ThreadStack, ...]]:
            answers.extend(faults.read([member], time.monotonic() + HANG).values())
            return answers

        wait_for(answered, "its stacks")  # it may not rest yet
        process.kill()
    (stack,) = answers[0]
    assert [frame.partition(" (")[0] for frame in stack.frames] == ["waits", "<module>"]
    assert open_files() == before
