"""pdsh: what its output means for its hosts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import backends
from dsrun.launcher.backends.events import BackendWarning, SessionEnded, TokenAnnounced
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import auth
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import lay_out

from ..commands import events, install

if TYPE_CHECKING:
    from pathlib import Path

NODES = lay_out([Host("n1", (0,)), Host("n2", (0,))])
NEW_KEY = "Warning: Permanently added 'n1' (ED25519) to the list of known hosts."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the test's own pdsh, first on PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def emitted(folder: Path, text: str, ends: int) -> list[object]:
    install(folder, "pdsh", text)
    backend = backends.load("pdsh", BackendSettings(sys.executable, "/"))
    return [*events(backend, NODES, ends=ends)]


def test_what_hosts_print_and_how_they_end(folder: Path) -> None:
    text = f"""
        echo 'n1: {auth.announcement("n1", "T")}'
        echo "n1: {NEW_KEY}" >&2
        echo 'n2: sh: /no/python: not found' >&2
        echo 'pdsh@login: n2: ssh exited with exit code 127' >&2"""
    found = emitted(folder, text, 2)
    assert TokenAnnounced("n1", "T") in found
    assert BackendWarning("n1: accepted its new ED25519 host key") in found
    ends = [event for event in found if isinstance(event, SessionEnded)]
    assert [end.rank for end in ends] == [1, 0]
    assert ends[0].cause.startswith("no Python at that path")
    assert ends[1].cause == ""


def test_the_end_of_pdsh_is_the_end_of_all(folder: Path) -> None:
    found = emitted(folder, "echo 'pdsh: no such rcmd module \"ssh\"' >&2; exit 1", 2)
    cause = 'pdsh ended with exit code 1: pdsh: no such rcmd module "ssh"'
    assert found == [SessionEnded(0, cause), SessionEnded(1, cause)]


def test_hosts_whose_sshd_refuses_for_the_moment_are_tried_again(folder: Path) -> None:
    refused = "n2: kex_exchange_identification: Connection closed by remote host"
    text = f"""
        if [ -e {folder}/tried ]; then echo 'n2: {auth.announcement("n2", "T")}'; exit 0; fi
        touch {folder}/tried
        echo '{refused}' >&2
        echo 'pdsh@login: n2: ssh exited with exit code 255' >&2"""
    found = emitted(folder, text, 2)
    assert set(found) == {SessionEnded(0, ""), TokenAnnounced("n2", "T"), SessionEnded(1, "")}


def test_a_pdsh_that_cannot_be_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    (folder / "pdsh").write_text("#!/no/such/shell\n")
    (folder / "pdsh").chmod(0o755)
    backend = backends.load("pdsh", BackendSettings(sys.executable, "/"))
    cause = "pdsh: no such file or directory"
    ends: list[object] = []
    backend.start(NODES, Loop(), ends.append, None)
    assert ends == [SessionEnded(0, cause), SessionEnded(1, cause)]
