"""Commands over an `ssh` that runs everything on this machine."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.backends.ssh import config_reader
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.features.exec import runner_ssh_hosts as ssh_hosts
from dsrun.launcher.features.exec.runner_events import (
    HostCommand,
    HostEnded,
    HostFailed,
    HostNote,
    HostOutput,
)
from dsrun.launcher.features.exec.runner_shell_session import ShellSession
from dsrun.launcher.features.exec.runner_ssh_hosts import NOT_READY, STOPPED, SshHosts, allow_files
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host

from ...support.fake_hosts import fake_ssh
from ...support.leaks import open_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsrun.launcher.features.exec.runner_events import HostEvent


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file in which the `ssh` here writes its arguments, a line for each call."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(config_reader, "files", lambda _: ())
    config_reader.reader.cache_clear()
    return fake_ssh(tmp_path)


@pytest.fixture(autouse=True)
def _limit() -> Iterator[None]:
    """Restore the limit of open files, which is raised for every list of hosts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Ran:
    """A command on these hosts."""

    def __init__(self, *names: str) -> None:
        self.loop = Loop()
        self.hosts = SshHosts(self.loop, [Host(name) for name in names], BackendSettings())
        self.hosts.on_event = self._on_event
        self.events: list[HostEvent] = []
        self.on_output: Callable[[], None] = lambda: None

    def _on_event(self, event: HostEvent) -> None:
        self.events.append(event)
        if isinstance(event, HostOutput):
            self.on_output()
        if len(self.ends) == len(self.hosts.hosts):
            self.loop.stop()

    @property
    def ends(self) -> dict[str, HostEnded | HostFailed]:
        return {one.host: one for one in self.events if isinstance(one, HostEnded | HostFailed)}

    def output(self, host: str, stream: int = 1) -> bytes:
        outputs = [one for one in self.events if isinstance(one, HostOutput)]
        return b"".join(one.data for one in outputs if (one.host, one.stream) == (host, stream))

    def run(self, *argv: str, readers: frozenset[str] = frozenset()) -> Ran:
        self.hosts.start(HostCommand(argv, "", readers))
        return self.wait()

    def wait(self) -> Ran:
        late = self.loop.call_later(30.0, lambda: pytest.fail(f"it does not end: {self.events}"))
        self.loop.run()
        late.cancel()
        return self


def test_each_host_has_its_output_and_its_end() -> None:
    before = open_files()
    ran = Ran("n1", "n2", "localhost").run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert ran.ends == {name: HostEnded(name, 3) for name in ("n1", "n2", "localhost")}
    for name in ran.hosts.hosts:
        assert (ran.output(name), ran.output(name, 2)) == (b"out\n", b"err\n")
    ran.loop._epoll.close()
    assert open_files() <= before


def test_hosts_that_are_not_reached_say_why() -> None:
    ran = Ran("down", "n1").run("true")
    assert ran.ends["n1"] == HostEnded("n1", 0)
    end = ran.ends["down"]
    assert isinstance(end, HostFailed)
    assert end.cause.startswith("connection refused")
    assert not end.began


def test_a_lost_connection_is_not_the_commands_end() -> None:
    ran = Ran("cut", "n1").run("sh", "-c", "exit 255")
    assert ran.ends["n1"] == HostEnded("n1", 255), "a command may have this exit code, too"
    assert ran.ends["cut"] == HostFailed(
        "cut", "the connection was lost: client_loop: send disconnect: Broken pipe", began=True
    )


def test_a_refusal_of_the_moment_is_tried_again(log: Path) -> None:
    assert Ran("busy").run("true").ends == {"busy": HostEnded("busy", 0)}
    assert len(log.read_text().splitlines()) == 2


def test_an_older_ssh_works_as_well(log: Path) -> None:
    assert Ran("old").run("true").ends == {"old": HostEnded("old", 0)}
    first, second = log.read_text().splitlines()
    assert "Kex" in first
    assert "Kex" not in second


def test_what_a_login_prints_is_no_output_and_a_new_key_is_a_note() -> None:
    ran = Ran("noisy", "new").run("echo", "hello")
    assert ran.output("noisy") == ran.output("new") == b"hello\n"
    assert ran.output("noisy", 2) == ran.output("new", 2) == b""
    notes = [event for event in ran.events if isinstance(event, HostNote)]
    assert notes == [HostNote("new", "new: accepted its new ED25519 host key")]


def test_only_some_read_the_input_and_all_of_them_from_its_beginning() -> None:
    ran = Ran("n1", "busy", "n3")
    readers = frozenset({"n1", "busy"})
    sent: list[bool] = []

    def on_room() -> None:
        if ran.hosts.backlog() < NOT_READY and not sent:
            sent.append(True)
            ran.hosts.send(b"one line\n")
            ran.hosts.send(b"")

    ran.hosts.on_room = on_room
    ran.run("cat", readers=readers)
    assert [ran.output(name) for name in ("n1", "busy", "n3")] == [b"one line\n"] * 2 + [b""]


def test_few_sessions_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_hosts, "FAN_OUT", 2)
    names = [f"n{number}" for number in range(5)]
    ran = Ran(*names).run("true")
    assert ran.ends.keys() == set(names)


def test_a_machine_that_is_full_runs_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    real, at_once = ShellSession, set[object]()

    def session(*arguments: Any) -> ShellSession:
        if len(ran.hosts._sessions) >= 2:
            raise OSError(errno.EMFILE, "too many open files")
        at_once.add(len(ran.hosts._sessions))
        return real(*arguments)

    monkeypatch.setattr(ssh_hosts, "ShellSession", session)
    ran = Ran("n1", "n2", "n3", "n4", "n5")
    ran.run("true")
    assert set(ran.ends.values()) == {HostEnded(f"n{number}", 0) for number in range(1, 6)}
    assert at_once == {0, 1}


def test_as_many_files_as_allowed_may_be_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard, 100), hard))
    allow_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard


def test_stopping_ends_every_command_and_starts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_hosts, "FAN_OUT", 1)
    ran = Ran("n1", "n2")
    ran.on_output = ran.hosts.stop
    ran.run("sh", "-c", "echo $$; exec sleep 600")
    pid = int(ran.output("n1"))
    assert ran.ends["n2"] == HostFailed("n2", STOPPED, began=False)
    assert isinstance(ran.ends["n1"], HostEnded)
    assert not Path(f"/proc/{pid}").exists()


def test_closing_ends_the_clients() -> None:
    ran = Ran("n1")
    ran.on_output = ran.hosts.close
    ran.run("sh", "-c", "echo up; exec sleep 600")
    assert isinstance(ran.ends["n1"], HostEnded)
