"""The processes that reach hosts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsrun.launcher.backends.ssh import config_reader
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.exec.runner_events import HostCommand
from dsrun.launcher.features.exec.runner_remote_shell import BOOT, remote_line
from dsrun.launcher.features.exec.runner_ssh_hosts import Clients
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host

from ...support.fake_hosts import fake_ssh

HERE, THERE = Host("localhost"), Host("n1", user="me", port=2222)


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let there be an `ssh`, and a configuration file of the user that the test may write."""
    fake_ssh(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    config = tmp_path / "config"
    monkeypatch.setattr(config_reader, "files", lambda _: (str(config), str(config)))
    config_reader.reader.cache_clear()
    return config


def test_this_machine_needs_no_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    clients = Clients([HERE], BackendSettings())
    assert clients.argv(HERE) == ["sh", "-c", BOOT]
    assert clients.placed(HERE, HostCommand(("pwd",))).workdir == str(Path("~").expanduser())
    assert clients.placed(HERE, HostCommand(("pwd",), "/x")).workdir == "/x"
    with pytest.raises(UsageError, match="no `ssh` on PATH"):
        Clients([HERE, THERE], BackendSettings())
    with pytest.raises(UsageError, match="no `ssh` on PATH"):
        Clients([HERE], BackendSettings(force_multi=True))


def test_a_login_is_quick_and_never_asks() -> None:
    clients = Clients([THERE], BackendSettings(args=("-v",)))
    argv = clients.argv(THERE)
    assert argv[:2] == ["ssh", "-v"]
    assert argv[-3:] == ["--", "n1", remote_line()]
    for option in ("BatchMode=yes", "KexAlgorithms=^curve25519-sha256", "UpdateHostKeys=no"):
        assert option in argv
    assert argv[argv.index("-p") :][:4] == ["-p", "2222", "-l", "me"]
    assert clients.placed(THERE, HostCommand(("pwd",))).workdir == ""


def test_what_the_user_has_chosen_stays(no_configuration: Path) -> None:
    no_configuration.write_text("Host n1\n  KexAlgorithms sntrup761x25519-sha512\n")
    argv = Clients([THERE], BackendSettings()).argv(THERE)
    assert not [word for word in argv if "Kex" in word]
    assert "UpdateHostKeys=no" in argv


def test_a_configuration_file_that_is_given_decides_alone() -> None:
    argv = Clients([THERE], BackendSettings(args=("-F", "/dev/null"))).argv(THERE)
    assert not [word for word in argv if "Kex" in word or "Ciphers" in word]


def test_an_older_ssh_is_tried_again_without_what_it_does_not_know() -> None:
    clients = Clients([THERE], BackendSettings())
    refused = "command-line line 0: Bad SSH2 KexAlgorithms '^curve25519-sha256'."
    assert clients.try_again(refused)
    assert not [word for word in clients.argv(THERE) if "Kex" in word]
    assert not clients.try_again(refused), "once"
    assert clients.try_again("kex_exchange_identification: Connection closed by remote host")
    assert not clients.try_again("ssh: connect to host n1 port 22: Connection refused")
