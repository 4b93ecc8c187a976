"""A node says that it is another: it gets nothing that is meant for that one, and is named."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from ..support.needs import need
from . import intruder
from .command import COMMAND
from .jobs import BY_NAME, place
from .reaching import HELLO, PATIENT, UNUSABLE, script

if TYPE_CHECKING:
    from pathlib import Path

    from .hosts import Cluster

SECRET = "correct horse battery staple"
TOKEN = "x" * 43

# The Python of the nodes. On n1 it announces n2 before itself, and dials in n2's place; on n2 it
# begins once that is done. What the impostor is told is in a file.
IMPOSTOR = """\
#!/bin/bash
[[ "$*" =~ --dial=([0-9.]+)[^:]*:([0-9]+) ]] && case $(uname -n) in
n1)
    echo "DSRUN-TOKEN {name} {token}"
    {python} {intruder} "this token" ${{BASH_REMATCH[1]}} ${{BASH_REMATCH[2]}} {name} {token} \\
        >> {folder}/told 2>&1 &;;
n2)
    until grep -q knocked {folder}/told; do sleep 0.05; done;;
esac
exec {python} "$@"
"""


def impostor(folder: Path, name: str) -> str:
    """Write the Python of the nodes; returns its path."""
    given = {"folder": folder, "name": name, "token": TOKEN, "python": shlex.quote(sys.executable)}
    (folder / "told").touch()
    (folder / "python").write_text(IMPOSTOR.format(intruder=intruder.__file__, **given))
    (folder / "python").chmod(0o755)
    return str(folder / "python")


@pytest.mark.parametrize("launcher", ["pdsh", *BY_NAME, "slurm"])
def test_no_node_takes_the_place_of_another(site: Cluster, tmp_path: Path, launcher: str) -> None:
    if launcher == "pdsh":
        need("pdsh")
    python = impostor(tmp_path, "n2" if launcher == "pdsh" else "1@n2")
    where = [*place(launcher, 1, ("n1", "n2")), "--python", python, "--export", f"KEY={SECRET}"]
    path = script(tmp_path, "print('hello')")
    ended = site.login.run([*COMMAND, *where, *PATIENT, path], cwd=tmp_path)
    assert (tmp_path / "told").read_text() == "knocked\nshut out\n"
    assert (ended.returncode, ended.stdout) == (UNUSABLE, ""), ended.stderr
    told = "n1: two node launchers claim to be n2: those started for n1 and n2"
    assert f"dsrun:   {told}\n" in ended.stderr
    assert "  n2: " not in ended.stderr


@pytest.mark.parametrize("launcher", BY_NAME)
def test_nodes_are_known_whichever_the_engine_begins_with(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    """Open MPI 4 gives the machine where it runs the first task."""
    where = place(launcher, 1, ("n1", "login", "n2"))
    ended = cluster.login.run([*COMMAND, *where, *PATIENT, script(tmp_path, HELLO)], cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    hosts = enumerate(("n1", "login", "n2"))
    assert sorted(ended.stdout.splitlines()) == sorted(
        f"{host}:{rank}| here is {host}" for rank, host in hosts
    )
    assert "rejected" not in ended.stderr
