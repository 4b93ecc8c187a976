"""`--debug` on real hosts: an editor at the login, a rank elsewhere, and strangers at both ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from .command import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .command import Dsrun
    from .hosts import Cluster

TRAIN = """\
import os
from helper import double
print("rank", os.environ["RANK"], double(21), flush=True)
"""

HELPER = """\
def double(number):
    twice = 2 * number
    return twice
"""

EDITOR = f"""
import json, sys
sys.path.insert(0, {str(CHECKOUT)!r})
from tests.support.editor import Editor
with open("launch.json") as file:
    (configuration,) = json.load(file)["configurations"]
editor = Editor.at(configuration["connect"]["port"])
given = {{name: configuration[name] for name in ("connect", "pathMappings", "subProcess")}}
editor.attach(sys.argv[1], 3, **given)
thread, frame = editor.stopped()
print(frame["line"], frame["source"]["path"], editor.locals(frame))
editor.ask("continue", threadId=thread)
editor.until(event="terminated")
"""

STRANGER = """
import encodings.idna, os, re, socket, sys
os.setgid(65534)
os.setuid(65534)
with open("/proc/net/unix") as file:
    names = re.findall(r"@(dsrun-\\d+-debug-\\S+)", file.read())
lines = [socket.create_connection(("127.0.0.1", int(port))) for port in sys.argv[1:]]
for name in names:
    lines.append(socket.socket(socket.AF_UNIX))
    lines[-1].connect("\\0" + name)
for line in lines:
    line.settimeout(120)
    try:
        line.sendall(b"x" * 10)
        print("got", line.recv(100))
    except (BrokenPipeError, ConnectionResetError):  # closed before, or after it was sent
        print("got", b"")
print(len(lines), "tried")
"""


@pytest.fixture
def folder(cluster: Cluster) -> Iterator[Path]:
    """A folder that is at the login alone, with a cache for its copies on n2."""
    folder = cluster.login.root / "tmp" / f"debug-{os.urandom(4).hex()}"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "helper.py").write_text(HELPER)
    with cluster.host("n2").tmpfs("/var/tmp", "64m"):
        yield folder
    shutil.rmtree(folder)


@pytest.mark.tier("test")
def test_an_editor_reaches_a_rank_elsewhere_and_strangers_do_not(
    dsrun: Dsrun, cluster: Cluster, folder: Path
) -> None:
    there, node, login = f"/tmp/{folder.name}", cluster.host("n2"), cluster.login
    before = node.listening()
    words = ("--host", "n1:1,n2:1", "--accelerator", "cpu", "--sync", ".", "--debug", "1")
    job = dsrun.start(*words, "--debug_file", "launch.json", "train.py", cwd=there)
    port = job.wait_for_output(r"rank 1 on n2 waits for a debugger at 127\.0\.0\.1:(\d+);")[1]
    assert node.listening() - before == set(), "but the master port, which n1 has"

    knocked = login.run([sys.executable, "-c", STRANGER, port])
    assert (knocked.stdout, knocked.stderr) == ("got b''\n1 tried\n", "")
    job.wait_for_output(f"rank 1: refused another user's connection to port {port}")
    knocked = node.run([sys.executable, "-c", STRANGER])
    assert (knocked.stdout, knocked.stderr) == ("got b''\n1 tried\n", "")

    seen = login.run([sys.executable, "-c", EDITOR, f"{there}/helper.py"], cwd=there)
    assert seen.stdout == f"3 {there}/helper.py {{'number': '21', 'twice': '42'}}\n", seen.stderr
    done = job.wait()
    assert (done.returncode, "n2:1| rank 1 42" in done.stdout) == (0, True), done.stderr
    (mapping,) = json.loads((folder / "launch.json").read_text())["configurations"][0][
        "pathMappings"
    ]
    assert mapping["localRoot"] == there
    assert re.fullmatch(rf"/.*/sync/.*/{folder.name}", mapping["remoteRoot"])
