"""Nodes that a test plays: the command `dsrun` runs for real, and its node launchers are sockets.

A history is a generator that speaks for the nodes, and yields what it waits for. Everything on the
runner's side is the real thing: options, plan, job, console, report and exit code.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dsrun.launcher import backends, runner
from dsrun.launcher.backends.events import SessionEnded, SessionStarted
from dsrun.launcher.backends.spec import BackendSpec
from dsrun.launcher.control import frames, messages, round_messages
from dsrun.launcher.control.stream import FrameStream

from . import schemas
from .limits import HANG
from .tasks import unusual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pytest

    from dsrun.launcher.backends.base import DialBack, StartCommand
    from dsrun.launcher.backends.events import Emit
    from dsrun.launcher.common.loop import Loop
    from dsrun.launcher.specs.backend import BackendSettings
    from dsrun.launcher.specs.plan import Node

    History = Callable[[Sequence["FakeNode"]], Iterator[Callable[[], bool]]]

PATIENCE = HANG
"""Seconds after which a history that waits for what never comes is given up."""

NAMES = {
    value: name
    for name, value in vars(frames).items()
    if isinstance(value, int) and not name.endswith(("_LIMIT", "DIGITS"))
}
"""What each kind of frame is called."""

UNTIMED = {frames.BEAT, frames.CREDIT}
"""Frames that come as time passes, so that no two runs have the same."""

DISPOSITIONS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP),
)


class FakeNode:
    """A node launcher as its runner sees it.

    Attributes:
        received: (kind, body) of every frame that has come from the runner.
        emit: takes what the backend that has started it tells the runner.
        at_close: called when its backend is closed.
    """

    def __init__(self, node: Node, loop: Loop, emit: Emit, heard: Callable[[], None]) -> None:
        self.name = node.host.name
        self.rank = node.rank
        self.emit = emit
        self.at_close: Callable[[], None] = lambda: None
        self.received: list[tuple[int, bytes]] = []
        self._loop = loop
        self._heard = heard
        self._asked = False
        self._decoder = frames.Decoder()
        runners, self._socket = socket.socketpair()
        self._socket.settimeout(PATIENCE)
        with runners:
            stream = FrameStream(os.dup(runners.fileno()), os.dup(runners.fileno()))
            emit(SessionStarted(node.rank, stream))
        loop.add_reader(self._socket.fileno(), self.read)

    def got(self, kind: int, times: int = 1) -> Callable[[], bool]:
        """Return whether so many frames of a kind have come, to be asked again and again."""
        return lambda: sum(one == kind for one, _ in self.received) >= times

    def says(self, frame: bytes) -> None:
        """Send a frame to the runner."""
        self._socket.sendall(frame)

    def hello(self, **facts: Any) -> None:
        """Say HELLO as a node does that has two devices and nothing to complain of."""
        usual: dict[str, Any] = {
            "dsrun": "0.1.0",
            "hostname": self.name,
            "machine": f"machine-{self.rank}",
            "python": "/usr/bin/python3",
            "accelerator": "cuda",
            "devices": ("0", "1"),
            "slots": 2,
            "port": 29500 if self.rank == 0 else None,
            "addresses": ("10.0.0.1",),
            "problems": (),
            "clock": self._loop.clock(),
        }
        self.says(messages.pack(frames.HELLO, messages.Hello(**usual | facts)))

    def reaches(self, reason: str = "") -> None:
        """Say of all addresses of the master that they can be reached, or why none can."""
        asked = next(body for kind, body in self.received if kind == frames.PROBE)
        verdicts = [reason for _ in json.loads(asked)["candidates"]]
        self.says(frames.pack_json(frames.PROBED, {"verdicts": verdicts}))

    def beats(self) -> None:
        """Give a sign of life; answer START, if it has come since the last one."""
        if self._asked:
            self._asked = False
            self.says(frames.pack(frames.OPENED))
        self.says(frames.pack_beat(self._loop.clock()))

    def grants(self) -> None:
        """Answer that the runner may be silent for a while."""
        self.says(frames.pack(frames.SUSPEND, b"hold"))

    def joins(self, port: int) -> None:
        """Say that torch's agent is ready for a round, its store at this port."""
        self.says(messages.pack(frames.READY, round_messages.Join(port, port)))

    def prints(self, rank: int, text: str, stream: int = 1) -> None:
        """Send output of a worker."""
        self.says(frames.pack_output(rank, stream, text.encode()))

    def exits(self, rank: int, code: int, *, told: bool = False, **more: Any) -> None:
        """Report the end of a worker; `told`: it had been told to stop."""
        usual: dict[str, Any] = {"clock": self._loop.clock()}
        ended = messages.WorkerExit(rank, 4000 + rank, code, told, **usual | more)
        self.says(messages.pack(frames.EXIT, ended))

    def notes(self, text: str, number: int = 0) -> None:
        """Send a line for the user; with the number of a signal that the node launcher got."""
        self.says(messages.pack(frames.NOTE, messages.Note(text, number)))

    def done(self, *left: str, **more: Any) -> None:
        """Say that nothing of the job is left here."""
        usual: dict[str, Any] = {"tails": {}}
        self.says(messages.pack(frames.DONE, messages.Done(left, **usual | more)))

    def stops(self, *ranks: int) -> None:
        """Report that workers have ended as told, and that nothing is left."""
        for rank in ranks:
            self.exits(rank, -signal.SIGTERM, told=True)
        self.done()

    @property
    def open(self) -> bool:
        """Whether its line stands."""
        return self.fd >= 0

    @property
    def fd(self) -> int:
        """The descriptor of its end of the line."""
        return self._socket.fileno()

    def leaves(self) -> None:
        """Close the line without a word."""
        self._loop.remove(self._socket.fileno())
        self._socket.close()

    def stops_reading(self) -> None:
        """Read nothing more: if something comes after that, `leaves` resets the connection."""
        self._loop.remove(self._socket.fileno())

    def ends(self, cause: str, after: float) -> None:
        """Have its backend say, so many seconds from now, why its session has ended."""
        self._loop.call_later(after, lambda: self.emit(SessionEnded(self.rank, cause)))

    def frames(self) -> list[list[Any]]:
        """Return what has come, by name, without what time alone has brought."""
        return [[NAMES[k], _value(k, body)] for k, body in self.received if k not in UNTIMED]

    def read(self) -> None:
        """Take in what the runner has sent."""
        data = b""
        with suppress(OSError):
            data = self._socket.recv(1 << 20)
        new = self._decoder.feed(data)
        self._asked |= any(kind == frames.START for kind, _ in new)
        self.received += new
        if not data or self.got(frames.END)():
            self.leaves()
        self._heard()


class FakeNodes:
    """A backend, the nodes it has started, and the history that speaks for them.

    Attributes:
        dial: where it was told that node launchers dial.
    """

    transport: Literal["stdio", "dial"] = "stdio"

    def __init__(self, history: History) -> None:
        self.nodes: list[FakeNode] = []
        self.dial: DialBack | None = None
        self._history = history
        self._steps: Iterator[Callable[[], bool]] = iter(())
        self._holds: Callable[[], bool] = lambda: False

    def __call__(self, _settings: BackendSettings) -> FakeNodes:
        """Be made, as the table of backends does it."""
        return self

    def problem(self, nodes: Sequence[Node]) -> str:
        """Nothing can be wrong."""
        return ""

    def commands(self, nodes: Sequence[Node], dial: DialBack | None) -> list[StartCommand]:
        """No command."""
        return []

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Nothing to prepare."""

    def start(self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: DialBack | None) -> None:
        """Begin the history."""
        self.dial = dial
        loop.call_later(PATIENCE, _give_up)
        self.nodes += [FakeNode(node, loop, emit, self._go_on) for node in nodes]
        self._steps = self._history(self.nodes)
        self._holds = lambda: True
        self._go_on()

    def close(self) -> None:
        """Close what the history has left open."""
        for node in self.nodes:
            node.leaves()
            node.at_close()

    def _go_on(self) -> None:
        while self._holds():
            self._holds = next(self._steps, lambda: False)


class Told(NamedTuple):
    """What has come of a history.

    Attributes:
        report: of --report_file.
        nodes: as they are at the end.
    """

    code: int
    out: str
    err: str
    report: dict[str, Any]
    nodes: list[FakeNode]


def play(
    history: History,
    words: Sequence[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Told:
    """Run `dsrun` in a folder with nodes that say what a history has them say."""
    fake = FakeNodes(history)
    module = f"{backends.__name__}.fake"
    monkeypatch.setitem(sys.modules, module, fake)
    monkeypatch.setattr(fake, "Fake", fake, raising=False)
    monkeypatch.setitem(backends.BACKENDS, "fake", BackendSpec(".fake:Fake"))
    monkeypatch.chdir(folder)
    report = folder / "report.json"
    with dispositions():
        code = runner.main(["--launcher", "fake", "--report_file", str(report), *words])
    output = capfd.readouterr()
    ended = json.loads(report.read_text()) if report.exists() else {}
    assert not ended or schemas.faults("report", ended) == []
    return Told(code, output.out, output.err, ended, fake.nodes)


@contextmanager
def dispositions() -> Iterator[None]:
    """Have signals mean afterwards what they mean now."""
    before = {number: signal.getsignal(number) for number in DISPOSITIONS}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _value(kind: int, body: bytes) -> Any:
    """Return a frame's body as JSON, or as text; of a task only what is not usual."""
    try:
        if kind == frames.JOB:
            return json.loads(frames.json_line(unusual(messages.unpack(messages.NodeJob, body))))
        return json.loads(body)
    except ValueError:
        return repr(body)


def _give_up() -> None:
    raise TimeoutError("the history waits for what never comes")
