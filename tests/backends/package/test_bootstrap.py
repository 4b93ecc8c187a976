"""A node finds dsrun where it is, or asks the runner for it; nothing else is believed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.backends.base import package_root
from dsrun.launcher.backends.package import ask, bootstrap, contents
from dsrun.launcher.backends.package.command import node_command
from dsrun.launcher.backends.stdio import SessionStream
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.connection import Connection
from dsrun.launcher.specs.program import Program

from ...support.limits import HANG, NEVER, wait_for
from ...support.listeners import Runner, runner
from ...support.local_control import NOBODY, needs_root
from .copies import DIGEST, placed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["runner"]

BARE = str(Path(sys.base_prefix, "bin", "python3"))
ROOT = package_root()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of a node."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return tmp_path / "home"


class Session:
    """A node launcher's command as sshd runs it, and the runner's end of its streams."""

    def __init__(self, python: str, root: str, digest: str, environ: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        argv = [*node_command(python, root, digest), "--stdio"]
        self.process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environ)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        read, write = self.process.stdout.fileno(), self.process.stdin.fileno()
        self.line = SessionStream(os.dup(read), os.dup(write))
        self.process.stdin.close()
        self.process.stdin = None

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.line.close()

    def hello(self) -> messages.Hello:
        """Send JOB at once, as a runner does, and return the answer."""
        kinds = self.run(send=True)
        assert kinds, self.process.communicate(timeout=HANG)[1].decode()
        return messages.unpack(messages.Hello, kinds[0])

    def run(self, *, send: bool) -> list[bytes]:
        """Serve the line until HELLO arrives, or its end; return HELLO's body."""
        loop, said = Loop(), list[bytes]()

        def on_hello(body: bytes) -> None:
            said.append(body)
            loop.stop()

        handlers = {frames.HELLO: on_hello, frames.BEAT: lambda _: None}
        connection = Connection(loop, self.line, handlers, lambda _: loop.stop())
        program = Program("train.py", (), module=False, python=sys.executable)
        task = messages.NodeJob(__version__, "j", "n1", program, "/", {}, (0,), 0, lease=NEVER)
        if send:
            connection.send(messages.pack(frames.JOB, task))
        loop.call_later(HANG, loop.stop)
        loop.run()
        connection.close()
        return said

    def errors(self) -> str:
        """What it prints before it ends."""
        assert self.run(send=False) == []
        return self.process.communicate(timeout=HANG)[1].decode()

    @property
    def has_asked(self) -> bool:
        return self.line._questions == 0


@pytest.fixture
def sessions(home: Path) -> Iterator[Sessions]:
    with closing(Sessions(home)) as sessions:
        yield sessions


class Sessions:
    """Starts sessions, and ends them."""

    def __init__(self, home: Path) -> None:
        self._all: list[Session] = []
        self._environ = {**os.environ, "XDG_CACHE_HOME": str(home)}

    def __call__(
        self, python: str = BARE, root: str = "/nowhere", digest: str = "", **environ: str
    ) -> Session:
        digest = digest or contents.digest(ROOT)
        self._all.append(Session(python, root, digest, {**self._environ, **environ}))
        return self._all[-1]

    def close(self) -> None:
        for one in self._all:
            one.close()


def test_a_session_without_dsrun_gets_it_once(home: Path, sessions: Sessions) -> None:
    first = sessions()
    assert first.hello().dsrun == __version__
    assert first.has_asked
    assert first.line.noise == b""
    (copy,) = (home / "dsrun/package").iterdir()
    assert copy.name == contents.digest(ROOT)
    again = sessions()
    assert again.hello().dsrun == __version__
    assert not again.has_asked


def test_the_runners_own_folder_is_used_where_it_is(home: Path, sessions: Sessions) -> None:
    assert sessions(root=ROOT).hello().dsrun == __version__
    assert not home.exists()


def test_another_version_in_the_runners_folder_is_not_used(
    sessions: Sessions, tmp_path: Path
) -> None:
    (tmp_path / "old/launcher").mkdir(parents=True)
    (tmp_path / "old/launcher/__init__.py").write_text('__version__ = "0.0.9"\n')
    session = sessions(root=str(tmp_path / "old"))
    assert session.hello().dsrun == __version__
    assert session.has_asked


@pytest.mark.parametrize(
    ("version", "metadata", "asks"),
    [(__version__, True, False), ("0.0.9", True, True), (__version__, False, True)],
)
def test_only_the_same_version_is_used_as_installed(
    sessions: Sessions, tmp_path: Path, version: str, *, metadata: bool, asks: bool
) -> None:
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    (packages,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    installed = packages / "dsrun"
    others_write_it = shutil.ignore_patterns("__pycache__")
    shutil.copytree(f"{ROOT}/launcher", installed / "launcher", ignore=others_write_it)
    (installed / "launcher/__init__.py").write_text(f'__version__ = "{version}"\n')
    (installed / "accelerator").symlink_to(f"{ROOT}/accelerator")
    if metadata:
        (packages / f"dsrun-{__version__}.dist-info").mkdir()
    session = sessions(python=f"{tmp_path}/venv/bin/python3")
    assert session.hello().dsrun == __version__
    assert session.has_asked == asks


def test_a_cut_copy_is_not_used_but_replaced(home: Path, sessions: Sessions) -> None:
    sessions().hello()
    run = home / "dsrun/package" / contents.digest(ROOT) / "launcher/node/run/run.py"
    whole = run.read_bytes()
    run.write_bytes(whole[:100])
    session = sessions()
    session.hello()
    assert session.has_asked
    assert run.read_bytes() == whole


def test_without_a_home_the_copy_is_below_the_folder_for_temporary_files(
    sessions: Sessions, tmp_path: Path
) -> None:
    (tmp_path / "temporary").mkdir()
    session = sessions(XDG_CACHE_HOME="/proc/none", TMPDIR=str(tmp_path / "temporary"))
    session.hello()
    assert (tmp_path / f"temporary/dsrun-{os.geteuid()}/package").is_dir()


def test_what_has_another_hash_is_not_used(home: Path, sessions: Sessions) -> None:
    session = sessions(digest="0" * 64)
    assert session.errors() == (
        "dsrun: cannot get dsrun from the runner: the runner's files have changed since it"
        " started; start the job again\n"
    )
    assert not home.exists()


def test_a_session_that_ends_before_the_answer_ends_the_node_launcher(sessions: Sessions) -> None:
    session = sessions()
    session.line.close()
    errors = session.process.communicate(timeout=HANG)[1]
    assert errors == b"dsrun: cannot get dsrun from the runner: it closed the connection\n"


# -- which copies count -------------------------------------------------------------------------


def test_a_copy_of_another_user_does_not_count(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("root can give files away")
    folder = placed(tmp_path)
    assert bootstrap.intact(str(tmp_path), DIGEST) == folder
    for one in (folder, Path(folder).parent, tmp_path):
        os.chown(one, 12345, -1)
        assert bootstrap.intact(str(tmp_path), DIGEST) == ""
        os.chown(one, 0, -1)


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707, 0o1777])
def test_a_copy_that_others_could_change_does_not_count(tmp_path: Path, mode: int) -> None:
    folder = placed(tmp_path)
    for one in (folder, Path(folder).parent, tmp_path):
        Path(one).chmod(mode)
        assert bootstrap.intact(str(tmp_path), DIGEST) == ""
        Path(one).chmod(0o700)


def test_a_linked_folder_does_not_count(tmp_path: Path) -> None:
    package = Path(placed(tmp_path)).parent
    package.rename(tmp_path / "elsewhere")
    package.symlink_to(tmp_path / "elsewhere")
    assert bootstrap.intact(str(tmp_path), DIGEST) == ""


@pytest.mark.parametrize("manifest", ["", "[]", "{", '{"launcher/none.py": [1, 2]}', "\xff", "7"])
def test_a_copy_with_another_manifest_does_not_count(tmp_path: Path, manifest: str) -> None:
    folder = placed(tmp_path)
    Path(folder, "manifest").write_text(manifest, encoding="latin-1")
    assert bootstrap.intact(str(tmp_path), DIGEST) == ""


def test_a_file_that_was_written_again_does_not_count(tmp_path: Path) -> None:
    folder = placed(tmp_path)
    file = Path(folder, "launcher/node/run/run.py")
    before, text = file.stat().st_mtime_ns, file.read_text().upper()

    def has_another_time() -> bool:
        file.write_text(text)
        return file.stat().st_mtime_ns != before

    wait_for(has_another_time, "the next tick of the kernel's clock")
    assert bootstrap.intact(str(tmp_path), DIGEST) == ""


def test_a_copy_in_use_is_marked_once_a_day(tmp_path: Path) -> None:
    folder = Path(placed(tmp_path))
    for age, marked in ((3600, False), (90000, True)):
        then = folder.stat().st_mtime - age
        os.utime(folder, (then, then))
        bootstrap.intact(str(tmp_path), DIGEST)
        assert (folder.stat().st_mtime > then + 1) == marked


def test_a_cache_in_a_folder_that_everybody_can_change_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own, temporary = f"{tmp_path}/dsrun", f"/tmp/dsrun-{os.geteuid()}"
    monkeypatch.delenv("TMPDIR", raising=False)
    assert bootstrap.caches() == [own, temporary]
    tmp_path.chmod(0o777)
    assert bootstrap.caches() == [temporary]
    tmp_path.chmod(0o1777)
    assert bootstrap.caches() == [own, temporary]
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert bootstrap.caches() == [temporary]


@needs_root
@pytest.mark.parametrize("mode", [0o755, 0o700, 0o1777])
def test_a_cache_in_a_folder_of_another_user_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """Its owner can replace what is in it, also with the sticky bit."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert len(bootstrap.caches()) == 2
    tmp_path.chmod(mode)
    os.chown(tmp_path, NOBODY, NOBODY)
    assert bootstrap.caches() == []


# -- over TLS -----------------------------------------------------------------------------------


def test_it_is_got_from_the_port_whose_certificate_is_known(runner: Runner) -> None:
    target = f"127.0.0.1:{runner.listener.port}"
    got = ask.from_port(target, runner.pin, contents.digest(ROOT))
    assert got == contents.archive(ROOT)
    assert runner.told == []


def test_another_certificate_is_not_believed(runner: Runner) -> None:
    target = f"127.0.0.1:{runner.listener.port}"
    with pytest.raises(SystemExit) as ended:
        ask.from_port(target, hashlib.sha256(b"").hexdigest(), contents.digest(ROOT))
    assert str(ended.value) == (
        f"dsrun: cannot get dsrun from the runner: {target}: another program answers there"
    )


def test_a_port_where_nobody_listens_is_named() -> None:
    with pytest.raises(SystemExit) as ended:
        ask.from_port("127.0.0.1,::1:1", "00", contents.digest(ROOT))
    assert "127.0.0.1:1: [Errno 111] Connection refused; ::1:1: " in str(ended.value)
