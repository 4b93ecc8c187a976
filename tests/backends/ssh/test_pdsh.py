"""pdsh: what its output means for its hosts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import backends
from dsrun.launcher.backends.events import (
    BackendWarning,
    SessionEnded,
    SessionOutput,
    SessionsBegun,
    TokenAnnounced,
)
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import auth
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import lay_out

from ..commands import events, install, progress

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
    assert TokenAnnounced(0, "n1", "T") in found
    assert BackendWarning("n1: accepted its new ED25519 host key") in found
    ends = [event for event in found if isinstance(event, SessionEnded)]
    assert [end.rank for end in ends] == [1, 0]
    assert ends[0].cause.startswith(f"no Python at {sys.executable}")
    assert ends[1].cause == ""


def test_what_has_run_in_place_of_a_node_launcher(folder: Path) -> None:
    found = emitted(folder, f"echo 'n1: {auth.announcement('n1', 'T')}'; echo 'n2: no jobs'", 2)
    causes = {end.rank: end.cause for end in found if isinstance(end, SessionEnded)}
    assert causes[0] == ""
    assert causes[1].startswith(f"another program answered instead of {sys.executable}: it printed")


def test_from_when_hosts_are_started_and_what_they_print_before_their_tokens(folder: Path) -> None:
    install(folder, "pdsh", "echo 'n2: Welcome'; echo 'n3: nobody'; echo 'pdsh@login: no host'")
    backend = backends.load("pdsh", BackendSettings(sys.executable, "/"))
    found = progress(backend, NODES, ends=2)
    assert found == [SessionsBegun((0, 1)), SessionOutput(1, "Welcome")]


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
    assert set(found) == {SessionEnded(0, ""), TokenAnnounced(1, "n2", "T"), SessionEnded(1, "")}


def test_a_pdsh_that_cannot_be_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    (folder / "pdsh").write_text("#!/no/such/shell\n")
    (folder / "pdsh").chmod(0o755)
    backend = backends.load("pdsh", BackendSettings(sys.executable, "/"))
    cause = "pdsh: no such file or directory"
    ends: list[object] = []
    backend.start(NODES, Loop(), ends.append, None)
    assert ends == [SessionEnded(0, cause), SessionEnded(1, cause)]


def test_who_has_printed_a_token_is_known_by_the_label(folder: Path) -> None:
    said = auth.announcement("n2", "T")
    found = emitted(folder, f"echo 'n1: {said}'; echo 'n7: {said}'; echo 'n1: n2: {said}'", 2)
    assert [one for one in found if isinstance(one, TokenAnnounced)] == [
        TokenAnnounced(0, "n2", "T")
    ]


def test_labels_that_are_turned_off_are_told_of(folder: Path) -> None:
    found = emitted(folder, f"echo '{auth.announcement('n1', 'T')}'", 2)
    assert found[0] == BackendWarning(
        "pdsh does not label each line of output with its node; remove output options from"
        " --launcher_args"
    )


@pytest.mark.parametrize(
    ("hosts", "labels"),
    [
        (("n1.a.org", "n2.a.org"), ("n1", "n2")),
        (("n1.a.org", "n1.b.org"), ("n1.a.org", "n1.b.org")),
        (("10.0.0.1", "n1.b.org"), ("10.0.0.1", "n1.b.org")),
    ],
)
def test_hosts_whose_domain_pdsh_cuts_off(
    folder: Path, hosts: tuple[str, str], labels: tuple[str, str]
) -> None:
    lines = [
        *(f"echo '{labels[0]}: {auth.announcement(hosts[0], 'T')}'",),
        *(f"echo '{labels[1]}: sh: /no/python: not found' >&2",),
        *(f"echo 'pdsh@login: {labels[1]}: ssh exited with exit code 127' >&2",),
    ]
    install(folder, "pdsh", "\n".join(lines))
    backend = backends.load("pdsh", BackendSettings(sys.executable, "/"))
    found = [*events(backend, lay_out([Host(name, (0,)) for name in hosts]), ends=2)]
    assert TokenAnnounced(0, hosts[0], "T") in found
    (end,) = [one for one in found if isinstance(one, SessionEnded) and one.rank == 1]
    assert end.cause.startswith(f"no Python at {sys.executable}")


def test_hosts_that_pdsh_would_call_the_same_have_one_each(folder: Path) -> None:
    """It would print `n1: ` for both."""
    said = ((name, auth.announcement(name, "T")) for name in ("n1", "n1.b.org", "n2.b.org"))
    tokens = (f"case ,$3, in *,{name},*) echo '{name[:2]}: {line}';; esac" for name, line in said)
    install(
        folder, "pdsh", "\n".join(["while [ $1 != -w ]; do shift; done; set - x x $2", *tokens])
    )
    backend = backends.load("pdsh", BackendSettings(sys.executable, "/"))
    nodes = lay_out([Host(name, (0,)) for name in ("n1", "n1.b.org", "n2.b.org")])
    found = [*events(backend, nodes, ends=3)]
    assert {one for one in found if isinstance(one, TokenAnnounced)} == {
        TokenAnnounced(rank, node.host.name, "T") for rank, node in enumerate(nodes)
    }
    lists = {argv[argv.index("-w") + 1] for argv, *_ in backend.commands(nodes, None)}
    assert lists == {"n1,n2.b.org", "n1.b.org"}


@pytest.mark.parametrize("first", [".", ""])
def test_its_ssh_is_not_searched_in_the_current_folder(
    first: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's folder may have an ssh."""
    monkeypatch.setenv("PATH", f"{first}:{folder}:/usr/bin:/bin")
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    install(folder / "here", "ssh", "touch taken")
    install(folder, "ssh", "touch found")
    emitted(folder, "ssh", ends=2)
    assert (folder / "here/found").exists()
    assert not (folder / "here/taken").exists()
