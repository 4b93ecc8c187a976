"""How one runner copes with many nodes: simulated node launchers on its control port.

    python benchmarks/control.py                 500, 1,000 and 2,000 nodes
    python benchmarks/control.py 4000            others

The runner's half is the real one (door, TLS, tokens, gathering, START, the end). The nodes are
simulated by one other process that speaks the protocol of a node launcher over one TLS connection
a node, and runs no workers. Both share this machine's cores, so half of the cost is not the
runner's: the processor time of each is printed beside the time on the clock.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import time

from dsrun.launcher import environment
from dsrun.launcher.backends.base import Dial, Part, Reports
from dsrun.launcher.backends.child import Child
from dsrun.launcher.control import auth, frames, messages, tls
from dsrun.launcher.head.console import Console
from dsrun.launcher.head.dialled import run_announced
from dsrun.launcher.head.job import Job
from dsrun.launcher.head.view import rules
from dsrun.launcher.loop import READ, Loop
from dsrun.launcher.options import Options
from dsrun.launcher.plan import Node, Plan, lay_out
from dsrun.launcher.program import Program
from dsrun.launcher.resources.hostfile import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

AT_ONCE = 200
SLOTS = 8


class Simulated:
    """A backend whose node launchers all live in one child of this process."""

    transport: Literal["dial"] = "dial"

    def __init__(self) -> None:
        self.started_all = 0.0
        self.pid = 0

    def problem(self, nodes: Sequence[Node]) -> str:
        """Nothing can be wrong."""
        return ""

    def commands(self, nodes: Sequence[Node], dial: Dial | None) -> list[tuple[str, list[str]]]:
        """No command."""
        return []

    def start(self, nodes: Sequence[Node], loop: Loop, reports: Reports, dial: Dial | None) -> None:
        """Start the child, and pass on the tokens that it prints."""
        assert dial is not None
        argv = [sys.executable, __file__, "--simulate", str(len(nodes)), dial.target]
        child = Child(argv, loop, _complain, os.environ)
        self.pid = child.pid
        rest = b""

        def read() -> None:
            nonlocal rest
            data = os.read(child.stdout, 1 << 20)
            if not data:
                loop.unwatch(child.stdout)
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(line.decode(), reports)

        loop.watch(child.stdout, READ, read)

    def close(self) -> None:
        """Nothing to end."""

    def _take(self, line: str, reports: Reports) -> None:
        found = auth.announced(line)
        if found:
            reports.token(*found)
        elif line.startswith("all"):
            self.started_all = time.monotonic()


def _complain(_code: int, errors: str) -> None:
    sys.stderr.write(errors)


async def simulate(count: int, target: str) -> None:
    """Be `count` node launchers."""
    host, _, port = target.rpartition(":")
    context = tls.client_context()
    gate = asyncio.Semaphore(AT_ONCE)
    tokens = [auth.new_token() for _ in range(count)]
    for rank, token in enumerate(tokens):
        print(auth.announce(f"n{rank}", token))
    sys.stdout.flush()
    waiting = [count]
    address = host.split(",")[0]
    nodes = (
        be_node(r, t, address, int(port), context, gate, waiting) for r, t in enumerate(tokens)
    )
    await asyncio.gather(*nodes)


async def be_node(
    rank: int,
    token: str,
    host: str,
    port: int,
    context: ssl.SSLContext,
    gate: asyncio.Semaphore,
    waiting: list[int],
) -> None:
    """Speak one node launcher's part."""
    async with gate:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.write(messages.pack(frames.AUTH, auth.Claim(f"n{rank}", token)))
    decoder = frames.Decoder()
    while data := await reader.read(65536):
        for kind, _body in decoder.feed(data):
            if kind == frames.START:
                waiting[0] -= 1
                if not waiting[0]:
                    print("all", flush=True)
            if kind == frames.END:
                writer.close()
                return
            for answer in ANSWERS[kind](rank) if kind in ANSWERS else ():
                writer.write(answer)
    writer.close()


def hello(rank: int) -> list[bytes]:
    """Answer JOB as a node with enough of everything would."""
    port = 29500 if rank == 0 else None
    said = messages.Hello(
        dsrun="",
        hostname=f"n{rank}",
        machine=f"machine-{rank}",
        python="3",
        accelerator="cuda",
        devices=tuple(map(str, range(SLOTS))),
        slots=SLOTS,
        port=port,
        addresses=("10.0.0.1",) if rank == 0 else (),
        problems=(),
        clock=time.monotonic(),
    )
    return [messages.pack(frames.HELLO, said)]


def probed(_rank: int) -> list[bytes]:
    """Reach every address of the master."""
    return [frames.pack_json(frames.PROBED, {"verdicts": ["", "", ""]})]


def done(_rank: int) -> list[bytes]:
    """Have all workers end at once, and well."""
    return [messages.pack(frames.DONE, messages.Done((), {}))]


ANSWERS = {frames.JOB: hello, frames.PROBE: probed, frames.START: done}


def measure(count: int) -> tuple[float, float, float]:
    """Return (seconds to START on all nodes, runner's processor time, the simulation's)."""
    options = Options(start_timeout=600.0, connect_timeout=600.0, quiet=True)
    hosts = [Host(f"n{rank}", tuple(range(SLOTS))) for rank in range(count)]
    plan = Plan(lay_out(hosts), Program("train.py"), "simulated", "10.0.0.1", None)
    sent = environment.travel(os.environ, {}).values
    base = messages.Task("", "job", "", plan.program, "/", sent, None, None)
    loop = Loop()
    console = Console(loop, level="error")
    backend = Simulated()
    cpu, began = time.process_time(), time.monotonic()
    job = Job(
        "job", plan, loop, console, rules(options, "job"), lambda n: base._replace(host=n.host.name)
    )
    run_announced(job, [Part(backend, plan.nodes)], plan.nodes, loop, options)
    spent = time.process_time() - cpu
    console.close()
    _, _, used = os.wait4(backend.pid, 0)
    return backend.started_all - began, spent, used.ru_utime + used.ru_stime


def main() -> int:
    """Measure each number of nodes, and say what 10,000 would take."""
    if sys.argv[1:2] == ["--simulate"]:
        asyncio.run(simulate(int(sys.argv[2]), sys.argv[3]))
        return 0
    print("  nodes   to START   a node   runner's cpu   simulation's cpu")
    for count in [int(word) for word in sys.argv[1:]] or [500, 1000, 2000]:
        seconds, runner, others = measure(count)
        each = 1000 * seconds / count
        print(f"{count:7,} {seconds:8.2f} s {each:6.2f} ms {runner:12.2f} s {others:16.2f} s")
    print(f"at that rate 10,000 nodes take {10 * each:.0f} s to START on this machine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
