"""The intervals of a start, from what strace tells."""

from __future__ import annotations

import pytest

from benchmarks import intervals

TRACE = r"""7 10.000 execve("/py", ["/py"...], 0x7ffe /* 3 vars */) = 0
7 10.010 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f) = 8
7 10.030 write(4, "\1\0\0\3{\"dsrun\""..., 980) = 980
9 10.060 write(5, "!\0\0\2{\"dsrun\""..., 715) = 715
7 10.061 write(4, "\3\0\0\0{\"first"..., 254 <unfinished ...>
10 10.070 execve("/py", ["/py", "hello.py"...], 0x55 /* 9 vars */) = 0
11 10.075 execve("/py", ["/py", "hello.py"...], 0x55 /* 9 vars */) = 0
11 10.090 write(1, "worker here\n", 12) = 12
10 10.095 write(1, "worker here\n", 12) = 12
10 10.096 exit_group(0) = ?
9 10.100 write(5, "'\0\0\0{\"left\":"..., 77) = 77
7 10.102 write(4, "\t\0\0\0{\"code"..., 27) = 27
9 10.103 exit_group(0) = ?
7 10.110 exit_group(0) = ?
7 10.111 +++ exited with 0 +++
"""


def test_each_interval_ends_where_the_next_begins() -> None:
    found = [round(seconds * 1000) for seconds in intervals.intervals(TRACE)]
    assert found == [10, 20, 30, 1, 14, 20, 5, 2, 8]
    assert len(found) == len(intervals.MILESTONES)


def test_a_start_without_one_of_them_is_none() -> None:
    with pytest.raises(LookupError, match="START is sent"):
        intervals.intervals(TRACE.replace(r"\3\0\0", r"\4\0\0"))
