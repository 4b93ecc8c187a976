"""Parsers of what comes from outside: a value, or an error that they document, for any bytes.

The boundaries behind which they stand (`common/unexpected`) are tested beside their modules.
"""

from __future__ import annotations

import io
import socket
import struct
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.common.network import lines_of
from dsrun.launcher.control import frames, local, local_client, messages
from dsrun.launcher.control.auth import Credentials
from dsrun.launcher.features.diagnosis import node_core_dump as core_dump
from dsrun.launcher.features.diagnosis import node_disks as disks
from dsrun.launcher.features.diagnosis import node_kernel_log as kernel_log
from dsrun.launcher.features.diagnosis import node_kernel_messages as kernel_messages
from dsrun.launcher.features.jobs import runner_job_status as job_status
from dsrun.launcher.node.machine import leftovers, ports, processes, sock_diag

from .support.cost import LINEAR, growth
from .support.properties import same_examples

if TYPE_CHECKING:
    from collections.abc import Callable


def _table(data: bytes) -> list[str]:
    return list(io.TextIOWrapper(io.BytesIO(data), "ascii", "replace", newline="\n"))


def _lines(data: bytes) -> list[str]:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        return lines_of(file.name)


def _sockets(data: bytes) -> object:
    return [sock_diag.parsed(socket.AF_INET, one) for _, one in sock_diag.messages(data)]


def _core(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as root:
        Path(root, "proc/sys/kernel").mkdir(parents=True)
        Path(root, "proc/sys/kernel/core_pattern").write_bytes(data)
        return core_dump.place(7, 11, "/w", f"{root}/")


def _kernel(data: bytes) -> object:
    lines = [kernel_log.message(data)]
    return [
        read(lines)
        for read in (kernel_messages.victims, kernel_messages.xids, kernel_messages.crashes)
    ]


def _mounts(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as root:
        Path(root, "proc/self").mkdir(parents=True)
        Path(root, "proc/self/mounts").write_bytes(data)
        return disks.full("'/none/x'", "/none", {}, f"{root}/")


PARSERS: dict[str, tuple[Callable[[bytes], object], tuple[type[Exception], ...], bytes]] = {
    "AUTH of a caller": (
        lambda data: messages.unpack(Credentials, data),
        (frames.BadFrame,),
        b'{"node":"n1","proof":"x"}',
    ),
    "request of a caller": (frames.unpack_json, (frames.BadFrame,), b'{"do":"x","id":1,"fds":0}'),
    "output from a hold": (frames.unpack_output, (frames.BadFrame,), b"\0\0\0\1\1text"),
    "status of a job": (
        lambda data: job_status.from_answer(frames.unpack_json(data)),
        (frames.BadFrame,),
        b'{"version":"1","job_id":"a","pid":1,"state":"running","since":1.5,"program":"p",'
        b'"workdir":"/","launcher":"ssh","elastic":false,"round":0,"restarts":0,"world_size":1,'
        b'"running":1,"nodes":[{"host":"n","state":"lost","reason":""}],"ranks":[],"last":"",'
        b'"last_rank":null}',
    ),
    "/proc/net/unix": (
        lambda data: local_client.listening(_table(data), local.JOB),
        (),
        b"0000000000000000: 00000002 00000000 00010000 0001 01 7 @dsrun-0-job-x\n",
    ),
    "/proc/net/tcp": (
        lambda data: ports.listening(_lines(data), 29500),
        (),
        b"sl\n 0: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 8 1\n",
    ),
    "/proc/PID/stat": (
        processes.fields,
        (OSError,),
        b"7 (a b) S 1 7 7 0 -1 4 1 2 3 4 5 6 7 8 9 10 20 0 99 0",
    ),
    "/proc/PID/environ": (leftovers.owners_in, (), b"A=1\0DSRUN_NODE_LAUNCHER=12:34,5:6\0"),
    "sock_diag": (
        _sockets,
        (struct.error,),
        (struct.pack("=IHHII", 88, 20, 0, 1, 0) + bytes(72)) * 2,
    ),
    "core_pattern": (_core, (), b"|/usr/lib/apport %p%s"),
    "kernel message": (
        _kernel,
        (),
        b"6,1,2,-;Out of memory: Killed process 7 (a) total-vm:1kB, anon-rss:2kB, file-rss:3kB,"
        b" shmem-rss:4kB",
    ),
    "/proc/self/mounts": (_mounts, (), b"none / tmp\\0401 rw 0 0\n"),
}
"""By what they read: the parser, the errors that it documents, and something valid."""


def _changed(valid: bytes) -> st.SearchStrategy[bytes]:
    """Return bytes: any, and valid ones of which some were replaced, left out or doubled."""
    places = st.integers(0, len(valid))
    new = st.one_of(st.binary(max_size=8), st.sampled_from([b"{", b"%", b"9" * 5000, b"\n", b"\0"]))
    edits = st.lists(st.tuples(places, places, new), max_size=4)

    def edited(changes: list[tuple[int, int, bytes]]) -> bytes:
        data = valid
        for start, end, put in changes:
            data = data[:start] + put + data[end:]
        return data

    return st.one_of(st.binary(max_size=200), edits.map(edited))


@pytest.mark.parametrize("name", PARSERS)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    parse, documented, valid = PARSERS[name]

    @given(_changed(valid))
    @same_examples
    def check(data: bytes) -> None:
        with suppress(*documented):
            parse(data)

    parse(valid)
    check()


@pytest.mark.parametrize("name", PARSERS)
def test_it_takes_linear_time(name: str) -> None:
    parse, documented, valid = PARSERS[name]
    middle = len(valid) // 2

    def read(size: int, piece: bytes) -> None:
        with suppress(*documented):
            parse(valid[:middle] + piece * (size // len(piece)) + valid[middle:])

    for piece in (b" ", b"9", b"\n", b"[", b'{"a":', valid):
        assert growth(partial(read, piece=piece), 10_000) < LINEAR, piece
