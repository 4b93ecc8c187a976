"""Why a rank has died: real faults on hosts, and what the report says of them.

What the out-of-memory killer does is tested in `test_workers`.
"""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ..support.limits import wait_for
from .scripts import script

if TYPE_CHECKING:
    from .command import Dsrun
    from .hosts import Cluster

HOST = "n2"


class Fault(NamedTuple):
    """A fault, and what must be said of it.

    Attributes:
        work: what the worker does.
        code: the exit code of dsrun.
        kind: the class of the verdict.
        why: what explains it, as a regular expression.
        small: a folder that is a disk of 4 MiB.
        listens: whether another program has the port in the file `port`.
    """

    work: str
    code: int
    kind: str
    why: str
    small: str = ""
    listens: bool = False


FAULTS = {
    "a full disk": Fault(
        "open('/srv/small/step.pt', 'wb').write(bytes(8 << 20))",
        1,
        "data",
        r"/srv/small \(tmpfs\) is full: 0 KiB of 4 MiB are free",
        small="/srv/small",
    ),
    "a full /dev/shm": Fault(
        """
        import mmap
        with open("/dev/shm/ring", "wb+") as file:
            file.truncate(8 << 20)
            mmap.mmap(file.fileno(), 0).write(b"x" * (8 << 20))
        """,
        135,
        "memory",
        r"/dev/shm is full: 0 of 4 MiB are free",
        small="/dev/shm",
    ),
    "a crash": Fault(
        """
        import ctypes, faulthandler, resource
        faulthandler.enable()
        resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE)[1:] * 2)
        open("/proc/self/coredump_filter", "w").write("0")
        def launch():
            ctypes.string_at(0)
        launch()
        """,
        139,
        "unknown",
        r"native code crashed"
        r"(, called by launch \(work.py:\d+\)| in libc\.so\.6 \(segfault\))",
    ),
    "a port in use": Fault(
        """
        import socket
        port = int(open("port").read())
        try:
            socket.create_server(("127.0.0.1", port))
        except OSError as error:
            raise OSError(f"port {port}: {error.strerror}") from None
        """,
        1,
        "node",
        r"port \d+ is held by \S*python\S* -c .*import socket.* \(pid \d+, user root\)",
        listens=True,
    ),
}

LISTENER = (
    "import socket, os, sys; one = socket.create_server(('127.0.0.1', 0));"
    " open('number', 'w').write(str(one.getsockname()[1])); os.rename('number', 'port');"
    " sys.stdin.read()"
)
"""The file `port` has the number as soon as it is there."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=pytest.mark.tier("test" if "disk" in one else "ci"))
        for one in FAULTS
    ],
)
def test_a_death_is_explained(dsrun: Dsrun, cluster: Cluster, tmp_path: Path, name: str) -> None:
    fault, host = FAULTS[name], cluster.host(HOST)
    with ExitStack() as faults:
        if fault.small:
            faults.enter_context(host.tmpfs(fault.small, "4m"))
        if fault.listens:
            command = ["python3", "-c", LISTENER]  # ends with its standard input
            faults.enter_context(host.popen(command, cwd=tmp_path, stdin=subprocess.PIPE))
            wait_for((tmp_path / "port").exists, "the other program")
        work = script(tmp_path, fault.work)
        done = dsrun("--host", f"{HOST}:1", "--report_file", "report.json", work)
    assert done.returncode == fault.code, done.stderr
    assert re.search(rf"\n  why: {fault.why}", done.stderr), done.stderr
    verdict = json.loads((tmp_path / "report.json").read_text())["verdict"]
    assert verdict["class"] == fault.kind
    assert re.match(fault.why, verdict["sentence"])
    core = re.search(rf"\n  its core dump: {HOST}:(\S+)", done.stderr)
    assert core is None or Path(core[1]).stat().st_size
