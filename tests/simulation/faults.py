"""What goes wrong in a world, when, and how it heals."""

from __future__ import annotations

import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from dsrun.launcher.control import frames, messages, round_messages
from dsrun.launcher.head.fleet.fleet import FROM_NODES

from .kernel.network import LinkEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from .history import Event
    from .kernel import Host, Process
    from .scenario import Fault
    from .world import World


class Faults:
    """The faults of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: set[str] = set()
        self._over = False
        self._told: dict[Fault, object] = {}

    def begin(self) -> None:
        """Let the first ones come."""
        self._reach("start")

    def end(self) -> None:
        """Let no other fault come; those that are there still heal."""
        self._over = True

    def on_event(self, event: Event) -> None:
        """Look whether faults count from this event."""
        if event.kind == "spawned" and event["role"] == "launcher":
            self._reach("connected")
        elif event.kind == "worker":
            self._reach("running")
            if event.fields["round"] > 1:
                self._reach("again")
        elif event.kind in {"serving", "resting"}:
            self._reach(event.kind)
        elif event.kind == "signalled" and event["by"] and "running" in self._seen:
            self._reach("stopping")
        elif event.kind == "ended" and "running" in self._seen:
            self._reach("ending")

    def _reach(self, anchor: str) -> None:
        if anchor in self._seen:
            return
        self._seen.add(anchor)
        for fault in self._world.scenario.faults:
            if fault.anchor == anchor:
                self._world.kernel.at(fault.after, partial(self._happen, fault))

    # -- one fault ---------------------------------------------------------------------------

    def _happen(self, fault: Fault) -> None:
        if self._over:
            return
        host = self._world.kernel.hosts[fault.target]
        heal = _KINDS[fault.kind](self, fault, host)
        if heal is None:
            return
        if fault.heals:
            self._world.kernel.at(fault.heals, partial(self._heal, fault, heal))

    def _heal(self, fault: Fault, heal: Callable[[], None]) -> None:
        heal()
        named = self._told.get(fault, fault.target)
        self._world.record(
            fault.target, "healed", fault=word(fault.kind), target=named, what=fault.kind
        )

    def _tell(self, fault: Fault, hit: Process | str = "") -> None:
        """Record a fault just before it has an effect: a process or a role is hit, or the host."""
        process = hit if not isinstance(hit, str) else None
        named = _name(process) if process is not None else hit or fault.target
        self._told[fault] = named
        number = {"number": fault.value} if "signal" in fault.kind else {}
        if isinstance(named, int) and process is not None:
            number |= self._world.job_of(process.environ)
        self._world.record(
            fault.target, "fault", fault=word(fault.kind), target=named, what=fault.kind, **number
        )

    def _living(self, host: Host, role: str) -> list[Process]:
        return [one for one in host.processes.values() if one.role == role and one.alive]

    def _chosen(self, fault: Fault, host: Host) -> Process | None:
        """Return the process that a fault is about, if it lives."""
        role = fault.kind.split()[1]
        if role in {"worker", "lane"}:
            workers = sorted(self._living(host, role), key=lambda one: one.pid)
            return workers[fault.value % len(workers)] if workers else None
        found = self._living(host, role)
        return found[-1] if found else None

    # -- kinds -------------------------------------------------------------------------------

    def kill(self, fault: Fault, host: Host) -> None:
        """Kill one process."""
        process = self._chosen(fault, host)
        if process is not None:
            self._tell(fault, process)
            host.kill(process.pid)

    def kill_both(self, fault: Fault, host: Host) -> None:
        """Kill guard and node launcher at once."""
        for process in [*self._living(host, "launcher"), *self._living(host, "guard")]:
            self._tell(fault, process)
            host.kill(process.pid)

    def freeze(self, fault: Fault, host: Host) -> Callable[[], None] | None:
        """Stop one process, or all of the job on a host."""
        if fault.kind == "freeze host":
            every = [one for one in host.processes.values() if one.role != "stranger"]
            found = [one for one in every if one.alive]
        else:
            one = self._chosen(fault, host)
            found = [one] if one is not None else []
        if not found:
            return None
        self._tell(fault, "" if fault.kind == "freeze host" else found[0])
        for process in found:
            host.signal(process.pid, signal.SIGSTOP)

        def thaw() -> None:
            for process in found:
                if process.alive:
                    host.signal(process.pid, signal.SIGCONT)

        return thaw

    def busy(self, fault: Fault, host: Host) -> Callable[[], None] | None:
        """Let the runner stand still while it handles something, and not while it waits."""
        found = self._living(host, "runner")
        if not found:
            return None
        process, calls = found[0], [fault.value % CALLS]
        self._tell(fault, process)

        def stop() -> None:
            calls[0] -= 1
            if calls[0] < 0:
                process.trap = None
                host.signal(process.pid, signal.SIGSTOP)
                self._world.kernel.pause()

        def go_on() -> None:
            process.trap = None
            if process.alive:
                host.signal(process.pid, signal.SIGCONT)

        process.trap = stop
        return go_on

    def stick(self, fault: Fault, host: Host) -> Callable[[], None] | None:
        """Let one process wait in the kernel, where not even SIGKILL ends it."""
        process = self._chosen(fault, host)
        if process is None:
            return None
        self._tell(fault, process)
        return host.stick(process)

    def signal(self, fault: Fault, host: Host) -> None:
        """Send a signal, as a person or a scheduler does."""
        roles = {"session": ("guard", "launcher", "lane", "worker", "child")}
        kind = fault.kind.split()[1]
        targets = [one for role in roles.get(kind, (kind,)) for one in self._living(host, role)]
        for process in targets:
            if process.role != "child":
                self._tell(fault, process)
        for process in targets:
            host.signal(process.pid, fault.value)

    def signal_twice(self, fault: Fault, host: Host) -> None:
        """Send a signal to all of a job on a host, and SIGTERM a moment later, as schedulers do."""
        one = fault._replace(kind="signal session")
        self.signal(one, host)
        again = partial(self.signal, one._replace(value=signal.SIGTERM), host)
        self._world.kernel.at(fault.value % 7 / 10, again)

    def interrupt_twice(self, fault: Fault, host: Host) -> None:
        """Type Ctrl-C, and again a moment later."""
        for after in (0.0, 0.5):
            self._world.kernel.at(after, partial(self._interrupt, fault, host))

    def _interrupt(self, fault: Fault, host: Host) -> None:
        for process in self._living(host, "runner"):
            self._tell(fault._replace(kind="signal runner", value=signal.SIGINT), process)
            host.signal(process.pid, signal.SIGINT)

    def suspend(self, fault: Fault, host: Host) -> Callable[[], None] | None:
        """Type Ctrl-Z; the shell has `fg` only once the runner has stopped."""
        found = self._living(host, "runner")
        if not found:
            return None
        self._tell(fault, "runner")
        host.signal(found[0].pid, signal.SIGTSTP)
        return partial(self._continue, host, found[0])

    def _continue(self, host: Host, process: Process) -> None:
        if process.stopped:
            host.signal(process.pid, signal.SIGCONT)
        elif process.alive:
            self._world.kernel.at(1.0, partial(self._continue, host, process))

    def cut(self, fault: Fault, host: Host) -> Callable[[], None]:
        """Cut the cable of a host, in one direction or both."""
        network = self._world.kernel.network
        direction = {"cut in": "in", "cut out": "out"}.get(fault.kind, "both")
        connections = "reset" if fault.kind == "cut and reset" else "live"
        self._tell(fault)
        network.cut(host, direction)
        return partial(network.mend, host, connections)

    def half_open(self, fault: Fault, host: Host) -> None:
        """Lose the connections of a host without a word."""
        network = self._world.kernel.network
        self._tell(fault)
        network.cut(host)
        network.mend(host, "silent")

    def stall(self, fault: Fault, host: Host) -> Callable[[], None] | None:
        """Let what a host sends wait."""
        end = self._line(host)
        if end is None:
            return None
        network = self._world.kernel.network
        self._tell(fault)
        network.stall(end)
        return lambda: network.stall(end, stalled=False)

    def _line(self, host: Host) -> LinkEnd | None:
        """Return the end of the line of a node launcher."""
        found = (
            slot.description
            for one in self._living(host, "launcher")
            for slot in one.slots.values()
            if isinstance(slot.description, LinkEnd) and slot.description.incoming is not None
        )
        return next(found, None)

    def delay(self, fault: Fault, host: Host) -> Callable[[], None]:
        """Make the network of a host slow."""
        delays = self._world.kernel.network.delays
        before = delays.get(host.name, 0.0)
        self._tell(fault)
        delays[host.name] = 1.0

        def heal() -> None:
            delays[host.name] = before

        return heal

    def power(self, fault: Fault, host: Host) -> Callable[[], None] | None:
        """Take the power of a host; it may come back."""
        if not host.on:
            return None
        self._tell(fault)
        gone = [one for one in host.processes.values() if one.alive and one.pid != 1]
        self._world.remote.loses_power(host)
        host.power_off()
        for process in gone:
            self._world.record(host.name, "ended", pid=process.pid, status=int(signal.SIGKILL))
        return host.power_on

    def freeze_disk(self, fault: Fault, host: Host) -> Callable[[], None]:
        """Let the disk of the logs give no answer."""
        disk = host.files.get("/logs")
        assert disk is not None
        self._tell(fault)
        disk.system.freeze()
        return disk.system.thaw

    def fill_disk(self, fault: Fault, host: Host) -> Callable[[], None]:
        """Let the disk of the logs be full."""
        disk = host.files.get("/logs")
        assert disk is not None
        self._tell(fault)
        disk.system.full = True

        def heal() -> None:
            disk.system.full = False

        return heal

    def reset(self, fault: Fault, host: Host) -> None:
        """Let the line of a node launcher fail: both ends hear of it."""
        end = self._line(host)
        if end is not None:
            self._tell(fault)
            self._world.kernel.network.reset(end)

    def garbage(self, fault: Fault, host: Host) -> None:
        """Let something on a host write to the line of its node launcher."""
        end = self._line(host)
        if end is not None:
            self._tell(fault)
            kind, body = NODE_KINDS[fault.value % len(NODE_KINDS)], BODIES[fault.value % 7]
            data = frames.pack(kind, body) if fault.value % 3 else body * 40
            with suppress(BrokenPipeError):  # nobody reads the line any more
                end.try_write(LIES[fault.value % len(LIES)] if fault.value % 5 == 4 else data)

    def close_output(self, fault: Fault, host: Host) -> None:
        """End what reads the runner's output."""
        for process in self._living(host, "reader"):
            self._tell(fault, "output")
            host.kill(process.pid)

    def stall_output(self, fault: Fault, host: Host) -> Callable[[], None] | None:
        """Stop what reads the runner's output."""
        found = self._living(host, "reader")
        if not found:
            return None
        self._tell(fault, "output")
        host.signal(found[0].pid, signal.SIGSTOP)
        return partial(host.signal, found[0].pid, signal.SIGCONT)

    def jump(self, fault: Fault, host: Host) -> None:
        """Set the time of day."""
        self._tell(fault)
        host.jump(3600.0)


NODE_KINDS = (*FROM_NODES, frames.JOB, frames.START, frames.END, frames.AUTH, 0, 255)

BODIES = (b"", b"{}", b"[]", b"null", b"\xff" * 20, b"[" * 5000, b'{"ranks": [[0, "x"]]}')
"""What is not valid, or says nothing, in most frames."""

CALLS = 8
"""System calls among which a busy runner stands still in any."""

NOBODY = 999
"""A rank that no world has."""

LIES = (
    messages.pack(frames.EXIT, messages.WorkerExit(NOBODY, 7, 0, False, 0.0)),
    messages.pack(frames.STARTED, messages.WorkersStarted((NOBODY,), (7,))),
    messages.pack(frames.NOTE, messages.Note("all is well")),
    messages.pack(frames.PROBED, messages.Probed(("", "", ""))),
    messages.pack(frames.READY, round_messages.Join(1, 0)),
    messages.pack(frames.FINISHED, round_messages.Finished(99)),
    frames.pack_output(NOBODY, 1, b"a line of nobody\n"),
    frames.pack_shard_request(NOBODY, 99, 7, b"{}\n"),
    frames.pack(frames.OUTPUT, b"")[:-1] + b"\xff" * 3,
)
"""What a node may say at no time, in frames that are valid; and one that promises more."""

WORDS = {
    "interrupt": "signal",
    "half": "cut",
    "fill": "disk",
    "jump": "clock",
    "stick": "freeze",
    "busy": "freeze",
}


def word(kind: str) -> str:
    """Return what a history calls a kind of fault."""
    if kind == "freeze disk":
        return "disk"
    first = kind.split(maxsplit=1)[0]
    return WORDS.get(first, first)


def _name(process: Process) -> object:
    """Return what a history calls a process: the rank of a worker, or its role."""
    if process.role == "worker":
        return int(process.name.split()[1])
    return process.role


_KINDS: dict[str, Callable[[Faults, Fault, Host], Callable[[], None] | None]] = {
    **dict.fromkeys(
        ("kill worker", "kill launcher", "kill guard", "kill runner", "kill logs", "kill lane"),
        Faults.kill,
    ),
    "kill agent": Faults.kill,
    "kill engine": Faults.kill,
    "kill both": Faults.kill_both,
    **dict.fromkeys(
        ("freeze worker", "freeze launcher", "freeze guard", "freeze runner", "freeze host"),
        Faults.freeze,
    ),
    "freeze lane": Faults.freeze,
    "stick launcher": Faults.stick,
    "busy runner": Faults.busy,
    **dict.fromkeys(
        ("signal runner", "signal guard", "signal launcher", "signal session"), Faults.signal
    ),
    "signal session twice": Faults.signal_twice,
    "interrupt twice": Faults.interrupt_twice,
    "suspend runner": Faults.suspend,
    **dict.fromkeys(("cut", "cut in", "cut out", "cut and reset"), Faults.cut),
    "half open": Faults.half_open,
    "reset": Faults.reset,
    "stall": Faults.stall,
    "delay": Faults.delay,
    "power": Faults.power,
    "freeze disk": Faults.freeze_disk,
    "fill disk": Faults.fill_disk,
    "jump clock": Faults.jump,
    "garbage": Faults.garbage,
    "close output": Faults.close_output,
    "stall output": Faults.stall_output,
}
