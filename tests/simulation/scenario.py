"""A seed as a world: hosts, options, a program, and faults with their times."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ANCHORS = ("start", "connected", "running", "stopping", "ending")
"""What times of faults count from: the start; the first node launcher; the first worker; the first
signal that a worker gets; the end of the last worker of a host."""


class HostSpec(NamedTuple):
    """A host of the job.

    Attributes:
        workers: how many run there.
        delay: seconds that its network adds.
        start: what its sshd does: `ok`, `slow`, `chatty`, `refused`, `killed`.
    """

    name: str
    workers: int
    delay: float = 0.0
    start: str = "ok"


class Deed(NamedTuple):
    """What a worker does in place of a step.

    Attributes:
        rank: whose deed it is.
        life: the how-manieth worker of that rank, from 0.
        step: in place of which step.
        what: `exit`, `raise`, `kill`, `hang`, `early` (an early end with 0).
        value: an exit code or a signal's number.
    """

    rank: int
    life: int
    step: int
    what: str
    value: int = 1


class ProgramSpec(NamedTuple):
    """What all workers do.

    Attributes:
        steps: lines that each prints.
        pause: seconds between two of them.
        length: characters of a line.
        term: what SIGTERM does: `die`, `slow` (a second's work, then an end), `ignore`.
        child: a process that each starts and leaves: ``, `tied` (ends with it), `stays`, `daemon`.
        deeds: what some workers do otherwise.
        shards: how many shards of data there are, which the workers take first; 0 for none.
    """

    steps: int = 5
    pause: float = 0.5
    length: int = 20
    term: str = "die"
    child: str = ""
    deeds: tuple[Deed, ...] = ()
    shards: int = 0


class Fault(NamedTuple):
    """Something that happens to the world.

    Attributes:
        anchor: what its time counts from, one of `ANCHORS`.
        after: seconds from then.
        kind: one of `FAULTS`.
        target: a host, or `login` for the runner's.
        heals: seconds until it is undone, 0 for never.
        value: which worker (a local rank), a signal's number, or a direction.
    """

    anchor: str
    after: float
    kind: str
    target: str
    heals: float = 0.0
    value: int = 0


class ElasticSpec(NamedTuple):
    """How far the job may shrink, grow and fail; see `ElasticPolicy`; `most` 0 is all hosts."""

    least: int
    restarts: int
    wait: float = 0.0
    cool: float = 0.0
    most: int = 0
    window: float = 0.0
    uptime: float = 0.0
    final: tuple[int, ...] = ()
    notice: float = 0.0
    notice_by: str = ""
    gain_delay: float = 0.0


class Change(NamedTuple):
    """What a person asks of an elastic job.

    Attributes:
        after: seconds from its start.
        hosts: the list of hosts from then on.
        nodes: the most nodes of a round from then on, 0 for no such wish.
    """

    after: float
    hosts: tuple[str, ...] = ()
    nodes: int = 0


class StreamSpec(NamedTuple):
    """The runner's standard input and output.

    Attributes:
        lines: of standard input, which rank 0 reads first; 0 for no `--stdin rank0`.
        length: characters of such a line.
        pause: seconds before each, if a process writes them.
        fed: whether standard input is a pipe, and not a file.
        piped: whether standard output is a pipe, and not a file.
    """

    lines: int = 0
    length: int = 20
    pause: float = 0.1
    fed: bool = False
    piped: bool = False


class Scenario(NamedTuple):
    """One world.

    Attributes:
        seed: of all chance in it.
        hosts: in the order of their ranks.
        program: what the workers do.
        faults: in no order.
        elastic: None for a static job.
        grace, lease: seconds, as of --grace_period and --heartbeat_timeout.
        logs: whether the job has a log folder.
        background: whether what the job leaves may stay.
        streams: the runner's own.
        clean: whether ranks that end with 0 after a stop signal are a success.
        spares: hosts that are not in the job at its start.
        changes: in the order of their times.
        least: the fewest nodes with which a static job starts, 0 for all.
    """

    seed: int
    hosts: tuple[HostSpec, ...]
    program: ProgramSpec = ProgramSpec()
    faults: tuple[Fault, ...] = ()
    elastic: ElasticSpec | None = None
    grace: float = 5.0
    lease: float = 15.0
    logs: bool = False
    background: bool = False
    streams: StreamSpec = StreamSpec()
    clean: bool = False
    spares: tuple[HostSpec, ...] = ()
    changes: tuple[Change, ...] = ()
    least: int = 0

    @property
    def ranks(self) -> int:
        """The number of workers."""
        return sum(host.workers for host in self.hosts)


QUIT, USER_TOO = 3, 12

HANGS = 120.0
"""When a person interrupts a job that hangs."""

INTERRUPT, TERMINATE, HANG_UP, KILL, USER = 2, 15, 1, 9, 10

FAULTS = (
    *("kill worker", "kill launcher", "kill guard", "kill both", "kill runner", "kill logs"),
    *("freeze worker", "freeze launcher", "freeze guard", "freeze runner", "freeze host"),
    *("signal runner", "signal guard", "signal session", "interrupt twice", "suspend runner"),
    *("cut", "cut in", "cut out", "cut and reset", "half open", "reset", "stall", "delay", "power"),
    *("freeze disk", "fill disk", "jump clock"),
    *("garbage", "close output", "stall output"),
)


def scenario(seed: int) -> Scenario:
    """Return the world of a seed."""
    chance = Random(seed)
    hosts = tuple(_hosts(chance))
    elastic = _elastic(chance, len(hosts))
    logs = chance.random() < 0.3
    program = _program(chance, sum(host.workers for host in hosts), elastic is not None)
    grace, lease = chance.choice((0.0, 1.0, 5.0, 30.0)), chance.choice((4.0, 15.0, 60.0))
    found = _faults(chance, hosts, program, lease, logs=logs)
    faults = tuple(one for one in found if one.kind != "reset" or elastic is None)
    background = elastic is None and chance.random() < 0.1
    streams = _streams(chance, elastic is not None, faults)
    clean = chance.random() < 0.1
    one = Scenario(
        *(seed, hosts, program, faults, elastic, grace, lease, logs, background, streams, clean)
    )
    if elastic is None:
        few = chance.random() < 0.2
        return one._replace(least=chance.randint(1, len(hosts)) if few else 0)
    return _changing(chance, one._replace(elastic=_more_elastic(chance, elastic, len(hosts))))


def _more_elastic(chance: Random, one: ElasticSpec, hosts: int) -> ElasticSpec:
    if chance.random() < 0.6:
        return one
    return one._replace(
        most=chance.choice((0, 0, hosts + 2, max(one.least, hosts - 1))),
        window=chance.choice((0.0, 0.0, 5.0)),
        uptime=chance.choice((0.0, 0.0, 1.0)),
        final=chance.choice(((), (), (3,), (139,))),
        notice=chance.choice((0.0, 1.0)),
        notice_by=chance.choice(("", "SIGUSR1", "/logs/notice")),
        gain_delay=chance.choice((0.0, 0.0, 5.0)),
    )


def _changing(chance: Random, one: Scenario) -> Scenario:
    if one.elastic is None or chance.random() < 0.6:
        return one
    spares = tuple(HostSpec(f"s{n}", chance.choice((1, 2))) for n in range(chance.randint(0, 2)))
    names = [host.name for host in (*one.hosts, *spares)]
    changes = []
    for after in sorted(chance.uniform(0.0, 10.0) for _ in range(chance.randint(1, 3))):
        if chance.random() < 0.3:
            most = one.elastic.most or len(one.hosts)
            changes.append(Change(after, nodes=chance.randint(one.elastic.least, most)))
        else:
            count = chance.randint(one.elastic.least, len(names))
            changes.append(Change(after, tuple(sorted(chance.sample(names, count)))))
    return one._replace(spares=spares, changes=tuple(changes))


def _streams(chance: Random, elastic: bool, faults: Sequence[Fault]) -> StreamSpec:
    piped = any("output" in one.kind for one in faults) or chance.random() < 0.1
    if elastic or chance.random() < 0.8:
        return StreamSpec(piped=piped)
    lines, length = chance.choice(((1, 20), (10, 20), (20, 30_000)))
    return StreamSpec(lines, length, chance.choice((0.0, 0.1)), chance.random() < 0.5, piped)


def _hosts(chance: Random) -> Iterator[HostSpec]:
    many = chance.random() < 0.05
    count = chance.randint(32, 40) if many else chance.choice((1, 2, 2, 3, 3, 3, 4, 5))
    for number in range(1, count + 1):
        delay = chance.choice((0.0, 0.0, 0.0, 0.01, 0.2))
        start = "ok"
        if chance.random() < 0.06:
            start = chance.choice(("slow", "chatty", "refused", "killed"))
        yield HostSpec(f"n{number}", 1 if many else chance.choice((1, 1, 2, 2, 3)), delay, start)


def _elastic(chance: Random, hosts: int) -> ElasticSpec | None:
    if chance.random() < 0.5:
        return None
    least = chance.randint(1, max(1, hosts - chance.choice((0, 1, 1))))
    wait, cool = chance.choice((0.0, 0.0, 5.0)), chance.choice((0.0, 0.0, 20.0))
    return ElasticSpec(least, chance.choice((0, 1, 3)), wait, cool)


def _program(chance: Random, ranks: int, elastic: bool) -> ProgramSpec:
    length = chance.choice((20, 20, 200, 30_000))
    steps = chance.randint(1, 6) if length > 1000 else chance.randint(0, 20)
    deeds = tuple(_deed(chance, ranks, steps, elastic) for _ in range(chance.choice((0, 0, 1, 2))))
    return ProgramSpec(
        steps,
        chance.choice((0.0, 0.1, 1.0)),
        length,
        chance.choice(("die", "die", "slow", "ignore")),
        chance.choice(("", "", "", "tied", "stays", "daemon")),
        deeds,
        chance.choice((0,) * 8 + (1, 20)),
    )


def _deed(chance: Random, ranks: int, steps: int, elastic: bool) -> Deed:
    what, value = chance.choice(
        (("exit", 3), ("raise", 1), ("kill", 11), ("kill", 9), ("hang", 0), ("early", 0))
    )
    life = chance.choice((0, 0, 1)) if elastic else 0
    return Deed(chance.randrange(ranks), life, chance.randint(0, max(0, steps)), what, value)


def _faults(
    chance: Random, hosts: Sequence[HostSpec], program: ProgramSpec, lease: float, *, logs: bool
) -> Iterator[Fault]:
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2))):
        yield _fault(chance, hosts, lease, logs=logs)
    if any(one.what == "hang" for one in program.deeds):
        yield Fault("start", HANGS, "signal runner", "login", value=INTERRUPT)


def _fault(chance: Random, hosts: Sequence[HostSpec], lease: float, *, logs: bool) -> Fault:
    anchor = chance.choice(("start", "connected", *("running",) * 4, "stopping", "ending"))
    after = chance.choice((0.0, 0.001, 0.01, 0.1, 1.0, 5.0)) * chance.random()
    kinds = [one for one in FAULTS if logs or one not in {"kill logs", "freeze disk", "fill disk"}]
    kind = chance.choice(kinds)
    host = chance.choice(hosts)
    runner = kind.endswith((" runner", " output")) or kind == "interrupt twice"
    heals = 0.0
    if kind.startswith(("freeze", "suspend", "cut", "stall", "fill", "delay")):
        heals = chance.choice((0.1, 1.0, 0.5 * lease, 1.5 * lease, 4 * lease))
    elif kind == "power":
        heals = chance.choice((0.0, 10.0))
    numbers = [INTERRUPT, TERMINATE, HANG_UP, USER, *((QUIT, USER_TOO) if runner else ())]
    value = chance.choice(numbers) if "signal" in kind else chance.randrange(1 << 16)
    if kind.endswith("worker"):
        value = chance.randrange(host.workers)
    return Fault(anchor, after, kind, "login" if runner else host.name, heals, value)


def simpler(one: Scenario) -> Iterator[Scenario]:
    """Yield worlds that are a little simpler than this one: without a fault, a deed, a host ..."""
    yield from filter(_can_end, _simpler(one))


def _can_end(one: Scenario) -> bool:
    """Return whether a world is one whose job can start, and ends."""
    least = max(one.elastic.least if one.elastic else 0, one.least)
    enough = least <= len(one.hosts)
    hangs = any(deed.what == "hang" for deed in one.program.deeds)
    return enough and (not hangs or any(fault.after == HANGS for fault in one.faults))


def _simpler(one: Scenario) -> Iterator[Scenario]:
    for at in range(len(one.faults)):
        yield one._replace(faults=one.faults[:at] + one.faults[at + 1 :])
    for at in range(len(one.changes)):
        yield one._replace(changes=one.changes[:at] + one.changes[at + 1 :])
    deeds = one.program.deeds
    for at in range(len(deeds)):
        fewer = deeds[:at] + deeds[at + 1 :]
        yield one._replace(program=one.program._replace(deeds=fewer))
    used = {fault.target for fault in one.faults} | {h for c in one.changes for h in c.hosts}
    for host in one.hosts if len(one.hosts) > 1 else ():
        if host.name not in used:
            yield one._replace(hosts=tuple(other for other in one.hosts if other != host))
    for at, host in enumerate(one.hosts):
        plain = HostSpec(host.name, 1)
        if host != plain:
            yield one._replace(hosts=(*one.hosts[:at], plain, *one.hosts[at + 1 :]))
    yield from _plainer_options(one)


def _plainer_options(one: Scenario) -> Iterator[Scenario]:
    plain = Scenario(one.seed, one.hosts)
    if one.elastic is not None:
        yield one._replace(elastic=ElasticSpec(*one.elastic[:2]))
    names = ("logs", "background", "grace", "lease", "streams", "clean", "least")
    for name in names if one.changes else ("elastic", *names):
        if getattr(one, name) != getattr(plain, name):
            yield one._replace(**{name: getattr(plain, name)})
    for name in ("steps", "pause", "length", "term", "child", "shards"):
        value = getattr(plain.program, name)
        if getattr(one.program, name) != value:
            yield one._replace(program=one.program._replace(**{name: value}))
