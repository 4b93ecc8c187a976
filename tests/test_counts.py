"""What the processes of a start do is as much as is recorded in `benchmarks/counts.json`.

The counts are those of `benchmarks/counts.py`: modules, code, system calls, processes, bytes.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from benchmarks import counts, traces

from .support.checkout import CHECKOUT
from .support.code_size import code_lines
from .support.needs import need

if TYPE_CHECKING:
    from pathlib import Path

AGAIN = "python benchmarks/counts.py --write REASON"

MOST_TRIES = 6
"""Starts until each count was as recorded once: a busy machine makes more calls at times."""

UNTRACED = "DSRUN_TEST_UNTRACED"
"""With this variable set, CI passes where the kernel lets nobody trace processes."""


@pytest.fixture
def tracing() -> None:
    """Skip what the kernel does not allow; in CI that is a failure, unless it is asked for."""
    need("strace")
    if not counts.is_allowed():
        reason = f"strace may not trace here; {UNTRACED}=1 leaves counts out"
        if os.environ.get("CI") and not os.environ.get(UNTRACED):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.mark.usefixtures("tracing")
@pytest.mark.parametrize("name", counts.STARTS)
def test_a_start_does_no_more_than_is_recorded(name: str) -> None:
    known = counts.recorded()
    before, alike = {name: known["counts"][name]}, known["python"] == counts.version()
    for trial in islice(counts.trials_of(name), MOST_TRIES):
        up = counts.risen(before, {name: trial.counts}, alike=alike)
        if not up:
            break
    if up and trial.is_late:
        pytest.skip(f"a start takes {trial.seconds:.0f} s on this busy machine, and does more")
    assert not up, "\n".join(["more than is recorded:", *map(str, up), AGAIN])
    down = counts.fallen(before, {name: trial.counts})
    assert not down, "\n".join(["less than is recorded, which is to stay:", *map(str, down), AGAIN])


def test_the_recorded_counts_are_those_of_the_last_change() -> None:
    """Whoever writes another count into the file has said no reason."""
    known = counts.recorded()
    assert known["counts"].keys() == counts.STARTS.keys()
    last = known["changes"][-1]
    assert last["sum"] == counts.sum_of(known["counts"]), f"written by hand; use {AGAIN}"
    assert [one for one in known["changes"] if one["up"] and not one["why"]] == []


def a_start(**fields: int) -> dict[str, counts.Start]:
    return {"start": {"runner": {"modules": 10, "code": 1000, "read": 5, "wait": 4, **fields}}}


def test_a_count_that_goes_up_needs_a_reason() -> None:
    known = {"counts": a_start(), "changes": []}
    with pytest.raises(ValueError, match="start, runner, read: 5 -> 14"):
        counts.renewed(known, a_start(read=14), " ", "2026-01-01")
    made = counts.renewed(known, a_start(read=14, wait=5), "it has to", "2026-01-01")
    assert made["counts"] == a_start(read=14)
    (change,) = made["changes"]
    assert (change["why"], change["up"]) == ("it has to", ["start, runner, read: 5 -> 14"])
    assert change["sum"] == counts.sum_of(made["counts"])


def test_small_steps_within_the_tolerance_do_not_add_up() -> None:
    known = {"counts": a_start(), "changes": []}
    for wait in (8, 12, 16):
        known = counts.renewed(known, a_start(wait=wait), "", "2026-01-01")
    assert known["counts"] == a_start()
    assert counts.risen(known["counts"], a_start(wait=17), alike=True) != []


def test_fewer_are_recorded_without_a_reason() -> None:
    known = {"counts": a_start(), "changes": []}
    less = a_start(modules=9, code=900)
    assert [one.now for one in counts.fallen(a_start(), less)] == [9, 900]
    assert counts.fallen(a_start(), a_start(code=995, read=1)) == []
    assert counts.renewed(known, less, "", "2026-01-01")["counts"] == less


def test_another_python_has_other_calls_and_the_same_modules() -> None:
    other = a_start(read=50, foreign=9)
    assert counts.risen(a_start(), other, alike=False) == []
    assert counts.risen(a_start(), a_start(modules=11), alike=False) != []


TRACE = """execve("/usr/bin/python", ["python"], 0x7ffe /* 3 vars */) = 0
openat(AT_FDCWD</tmp>, "/d/launcher/__pycache__/a.cpython-311.pyc", O_RDONLY|O_CLOEXEC) = 3</d>
openat(AT_FDCWD</tmp>, "/d/launcher/__pycache__/b.cpython-311.pyc", O_RDONLY) = -1 ENOENT (No)
clone3({flags=CLONE_VM|CLONE_THREAD, child_tid=0x7f}, 88) = 11
clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f) = 12
write(4<pipe:[70]>, "\\1\\0\\0\\3{\\"dsrun\\""..., 900) = 900
--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---
write(1</tmp/out>, "\\1\\0", 2) = 2
write(4<pipe:[70]>, "\\3\\0"..., 100) = 100
exit_group(0) = ?
+++ exited with 0 +++
"""


def test_the_command_may_have_the_highest_pid(tmp_path: Path) -> None:
    (tmp_path / "trace.32767").write_text(TRACE)
    for pid in (11, 12):
        (tmp_path / f"trace.{pid}").write_text("exit_group(0) = ?\n")
    assert counts.traces_in(tmp_path).first == 32767


def test_what_strace_tells_is_counted() -> None:
    calls = traces.read(TRACE)
    assert (traces.children(calls), traces.started(calls)) == ([12], [11, 12])
    found = traces.count(calls)
    assert found.modules == ["/d/launcher/a.py"]
    assert found.calls == {"execve": 1, "open": 2, "fork": 2, "write": 3}
    assert traces.sent(calls, r"\\3\\0") == 1000
    assert len(traces.until(calls, traces.starts_process)) == 5
    with pytest.raises(LookupError):
        traces.until(calls, lambda call: call.name == "kill")


SEARCH = """execve("/usr/bin/python", ["python"], 0x7ffe /* 3 vars */) = 0
openat(AT_FDCWD</tmp>, "/l/glibc-hwcaps/x86-64-v4/libpython3.11.so.1.0", O_RDONLY) = -1 ENOENT (No)
newfstatat(AT_FDCWD</tmp>, "/l/glibc-hwcaps/x86-64-v4", 0x7fff71b5d960, 0) = -1 ENOENT (No)
openat(AT_FDCWD</tmp>, "/l/haswell/libpython3.11.so.1.0", O_RDONLY) = -1 ENOENT (No)
newfstatat(AT_FDCWD</tmp>, "/l/haswell", {st_mode=S_IFDIR|0755}, 0) = 0
openat(AT_FDCWD</tmp>, "/l/libpython3.11.so.1.0", O_RDONLY) = 3</l>
newfstatat(AT_FDCWD</tmp>, "/l/glibc-hwcaps", 0x7fff71b5d960, 0) = -1 ENOENT (No)
"""


def test_folders_that_only_this_processor_has_are_not_counted() -> None:
    found = traces.count(traces.read(SEARCH))
    assert found.calls == {"execve": 1, "look": 2, "open": 1}


CODE = '''"""Text."""
import a  # why

# A comment.
VALUE = """one
two"""
"""Its text."""
def f(
    b,
):
    """Text

    of lines."""
    return b
'''


def test_code_is_neither_blank_nor_a_docstring_nor_a_comment() -> None:
    found = ["import a", 'VALUE = """one', 'two"""', "def f(", "b,", "):", "return b"]
    assert code_lines(CODE) == found
    assert len(code_lines((CHECKOUT / "launcher" / "runner.py").read_text())) > 5
