"""Node launchers simulated by one process: they send what real ones would, and run no workers.

The runner's half is real: listener, TLS, tokens, handshake, START, the end. A benchmark that uses
this module is started a second time by it, as `SCRIPT --simulate COUNT TARGET`, to act as the
nodes. Both processes share this machine's cores, so half of the cost is not the runner's.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from dsrun.launcher.backends.base import DialBack, Part, StartCommand
from dsrun.launcher.backends.dial_command import DialCommand
from dsrun.launcher.backends.events import TokenAnnounced
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import auth, frames, messages, tls
from dsrun.launcher.features.join.runner import announced
from dsrun.launcher.head.fleet.fleet import NodeFleet
from dsrun.launcher.head.job.job import RunnerJob
from dsrun.launcher.head.job.launch import serve
from dsrun.launcher.head.job.one_program import OneProgram
from dsrun.launcher.head.output.console import Console
from dsrun.launcher.resources.hostfile import Host
from dsrun.launcher.specs import environment
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Node, Plan, lay_out
from dsrun.launcher.specs.policies import ElasticPolicy, SupervisionPolicy
from dsrun.launcher.specs.program import Program

if TYPE_CHECKING:
    from dsrun.launcher.backends.events import Emit

Answer = Callable[[int, bytes], Iterable[bytes]]
"""The answer of a node to a frame, given its rank and the frame's body."""

AT_ONCE = 200
SLOTS = 8
LABEL = r"\[([0-9]+)\] "

SILENT = 600.0
"""Seconds for which nodes may be silent, since these send no heartbeats."""


class Used(NamedTuple):
    """Processor seconds of the runner, and of the process that simulates the nodes."""

    runner: float
    nodes: float


class Simulated:
    """A backend whose node launchers all live in one child of this process."""

    transport: Literal["dial"] = "dial"

    def __init__(self, script: str, heard: Callable[[str], None]) -> None:
        self._script = script
        self._heard = heard
        self._emit: Emit = lambda _event: None
        self.pid = 0

    def problem(self, nodes: Sequence[Node]) -> str:
        """Find no problems."""
        return ""

    def commands(self, nodes: Sequence[Node], dial: DialBack | None) -> list[StartCommand]:
        """Return no command."""
        return []

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Prepare nothing."""

    def start(self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: DialBack | None) -> None:
        """Start the child; pass on its tokens to the job, and other lines to the benchmark."""
        assert dial is not None
        self._emit = emit
        argv = [sys.executable, self._script, "--simulate", str(len(nodes)), dial.target]
        self.pid = DialCommand(argv, os.environ, loop, self, LABEL).child.pid

    def close(self) -> None:
        """Stop nothing."""

    def on_token(self, speaker: str, node: str, token: str) -> None:
        """Pass a token on to the job."""
        self._emit(TokenAnnounced(int(speaker), node, token))

    def on_line(self, speaker: str, text: str) -> None:
        """Pass any other line on to the benchmark."""
        self._heard(text)

    def on_unlabelled(self) -> None:
        """Never called: all tokens have labels."""

    def on_end(self, code: int, errors: str) -> None:
        """Show the error."""
        sys.stderr.write(errors)


def run(
    script: str, count: int, heard: Callable[[str], None], limits: ElasticPolicy | None = None
) -> Used:
    """Run a job of this many simulated nodes to its end; with limits, it is elastic.

    The job's own loop calls `heard` with each line that the nodes' process prints.
    """
    hosts = [Host(f"n{rank}", tuple(range(SLOTS))) for rank in range(count)]
    plan = Plan(lay_out(hosts), Program("train.py"), "mpich", "10.0.0.1", None)
    loop = Loop()
    console = Console(loop, level="error")
    backend = Simulated(script, heard)
    before = time.process_time()
    watched = SupervisionPolicy(600.0, 600.0, SILENT)
    sent = environment.travel(os.environ, {})
    spec = JobSpec("job", plan, "/", sent, supervision=watched, elastic=limits)
    part = Part(backend, plan.nodes)
    fleet = NodeFleet(plan.nodes, loop, console.log, SILENT, lambda _node: part)
    job = RunnerJob(spec, console, loop, lambda _ending: None)
    job.attach(OneProgram(spec, fleet, console))
    with announced(fleet, [part], spec, console) as dial:
        serve(job, fleet, [part], dial)
    spent = time.process_time() - before
    console.close()
    _, _, used = os.wait4(backend.pid, 0)
    return Used(spent, used.ru_utime + used.ru_stime)


def simulate(words: Sequence[str], answers: Mapping[int, Answer]) -> None:
    """Act as the nodes that `COUNT TARGET` describes, until the job is over.

    The answers to JOB and PROBE are those of a node with enough of everything.
    """
    count, target = words
    asyncio.run(_be_nodes(int(count), target, {**_WELL, **answers}))


def beat() -> bytes:
    """Return the frames of a node that begins to start, and a sign of life."""
    return frames.pack(frames.OPENED) + frames.pack_beat(time.monotonic())


def done() -> bytes:
    """Return the frame which reports that all workers have exited with 0."""
    return messages.pack(frames.DONE, messages.Done((), {}))


async def _be_nodes(count: int, target: str, answers: Mapping[int, Answer]) -> None:
    addresses, _, port = target.rpartition(":")
    host = addresses.split(",")[0]
    context = tls.client_context()
    gate = asyncio.Semaphore(AT_ONCE)
    tokens = [auth.new_token() for _ in range(count)]
    for rank, token in enumerate(tokens):
        print(f"[{rank}] {auth.announcement(f'n{rank}', token)}")
    sys.stdout.flush()

    async def connect(rank: int, token: str) -> None:
        async with gate:
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        writer.write(messages.pack(frames.AUTH, auth.Credentials(f"n{rank}", token)))
        await _be_node(rank, reader, writer, answers)

    await asyncio.gather(*(connect(rank, token) for rank, token in enumerate(tokens)))


async def _be_node(
    rank: int,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    answers: Mapping[int, Answer],
) -> None:
    decoder = frames.Decoder()
    over = False
    while not over and (data := await reader.read(65536)):
        for kind, body in decoder.feed(data):
            over = over or kind == frames.END
            for answer in answers[kind](rank, body) if kind in answers else ():
                writer.write(answer)
    writer.close()


def _hello(rank: int, _body: bytes) -> list[bytes]:
    said = messages.Hello(
        dsrun="",
        hostname=f"n{rank}",
        machine=f"machine-{rank}",
        python="3",
        accelerator="cuda",
        devices=tuple(map(str, range(SLOTS))),
        slots=SLOTS,
        port=29500 if rank == 0 else None,
        addresses=("10.0.0.1",) if rank == 0 else (),
        problems=(),
        clock=time.monotonic(),
    )
    return [messages.pack(frames.HELLO, said)]


def _probed(_rank: int, body: bytes) -> list[bytes]:
    candidates = messages.unpack(messages.Probe, body).candidates
    return [messages.pack(frames.PROBED, messages.Probed(("",) * len(candidates)))]


_WELL: dict[int, Answer] = {frames.JOB: _hello, frames.PROBE: _probed}
