"""What the kernel keeps of a worker."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import signal

import pytest

from dsrun.launcher.features.preload import node_identity as identity

from ...support.leaks import open_files

GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236}


def test_files_get_their_numbers_though_they_have_each_others() -> None:
    gc.collect()
    before = open_files()
    free = max(map(int, before)) + 20
    pipes = [os.pipe() for _ in range(3)]
    reading, writing = [one[0] for one in pipes], [one[1] for one in pipes]
    for at, fd in enumerate(writing):
        os.write(fd, b"%d" % at)
        os.close(fd)
    numbers = [reading[2], reading[0], free]
    identity.take_files(reading, numbers)
    assert [os.read(fd, 9) for fd in numbers] == [b"0", b"1", b"2"]
    assert all(os.get_inheritable(fd) for fd in numbers)
    for fd in numbers:
        os.close(fd)
    assert open_files() == before


GET_PDEATHSIG = 2
"""prctl(2): the signal that this process gets as its parent ends."""


def test_a_process_is_killed_as_its_parent_ends() -> None:
    pid = os.fork()
    if pid == 0:
        try:
            identity.die_with_parent()
            number = ctypes.c_int(-1)
            ctypes.CDLL(None).prctl(GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
            os._exit(number.value)
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == signal.SIGKILL


def memory_policy() -> tuple[int, int]:
    """The memory policy of this process, and its nodes as bits (get_mempolicy(2))."""
    libc, mode, nodes = ctypes.CDLL(None), ctypes.c_int(-1), (ctypes.c_uint64 * 16)()
    number = ctypes.c_long(GET_MEMPOLICY[platform.machine()])
    length = ctypes.c_ulong(64 * len(nodes))
    assert libc.syscall(number, ctypes.byref(mode), nodes, length, None, ctypes.c_ulong(0)) == 0
    return mode.value, nodes[0]


def in_a_fork(policy: str, nodes: tuple[int, ...]) -> int:
    """Set a policy in a process of its own: 0 if it has it then, else what was wrong."""
    pid = os.fork()
    if pid == 0:
        try:
            identity.set_memory(policy, nodes)
            mode, bits = memory_policy()
            wanted = identity._POLICIES.get(policy, 0), sum(1 << node for node in nodes)
            os._exit(0 if (mode, bits) == wanted else 99)
        except OSError as error:
            os._exit(error.errno or 2)
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(platform.machine() not in GET_MEMPOLICY, reason="no number of the system call")
@pytest.mark.parametrize("policy", ["", "bind", "preferred", "preferred-many", "interleave"])
def test_memory_policies_are_the_kernels(policy: str) -> None:
    """Like numactl: a kernel may lack a policy, and a container may forbid them all."""
    assert in_a_fork(policy, (0,) if policy else ()) in {0, 1, 22, 38}


def test_a_node_that_is_not_there_is_an_error() -> None:
    assert in_a_fork("bind", (900,)) not in {0, 99}


def test_a_process_dies_with_its_parent() -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            identity.die_with_parent()
            os.write(writing, b"x")
            os.close(writing)
            signal.pause()
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    assert os.read(reading, 9) == b""  # the last one that had it open is gone
    os.close(reading)
