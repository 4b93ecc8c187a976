"""A seed as a world: hosts, options, a program, and faults with their times."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ANCHORS = ("start", "connected", "running", "again", "stopping", "ending", "serving", "resting")
"""What times of faults count from: the start; the first node launcher; the first worker, and the
first one of a second round; the first signal that a worker gets; the end of the last worker of a
host; of a hold, that its nodes can be used, and that the first jobs on it are over."""


EVERY = -1
"""All ranks do it."""


class HostSpec(NamedTuple):
    """A host of the job.

    Attributes:
        workers: how many run there.
        delay: seconds that its network adds.
        start: what its sshd does: `ok`, `slow`, `chatty`, `refused`, `killed`.
        code: what is other there than on most hosts: `` (nothing), `script`, `files`.
        sick: whether the health command fails there.
    """

    name: str
    workers: int
    delay: float = 0.0
    start: str = "ok"
    code: str = ""
    sick: bool = False


class Deed(NamedTuple):
    """What a worker does in place of a step.

    Attributes:
        rank: whose deed it is, or `EVERY`.
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
        halves: whether rank 0 prints lines in two parts, and a failing worker an unfinished line.
        child: a process that each starts and leaves: ``, `tied` (ends with it), `stays`, `daemon`;
            `hops` and `bomb` begin to fork when the worker ends.
        deeds: what some workers do otherwise.
        shards: how many shards of data there are, which the workers take first; 0 for none.
        meets: whether they meet at MASTER_PORT, and wait for each other in each step.
        serves: whether they stay after their last step, as a server does.
    """

    steps: int = 5
    pause: float = 0.5
    length: int = 20
    term: str = "die"
    child: str = ""
    halves: bool = False
    deeds: tuple[Deed, ...] = ()
    shards: int = 0
    meets: bool = False
    serves: bool = False


class Look(NamedTuple):
    """A command that asks the running job.

    Attributes:
        after: seconds from the start of the job.
        what: one of `looks.REQUESTS`.
    """

    after: float
    what: str


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
    """How far the job may shrink, grow and fail; see `ElasticPolicy`; `most` 0 is all hosts.

    `torch` is ``, or whose rounds torch's agent is in: `rounds` (the runner's), `rendezvous`.
    """

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
    torch: str = ""


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


class HeldJob(NamedTuple):
    """A job on held nodes.

    Attributes:
        slots: (host, first, end): the slots that it has, of each of its hosts.
        relay: whether its client gets its events, as a program does.
        elastic: whether it is, as the world says.
        deeds: whether its workers do the deeds of the world.
        stop: seconds after which its client is interrupted, 0 for never.
    """

    slots: tuple[tuple[str, int, int], ...]
    relay: bool = False
    elastic: bool = False
    deeds: bool = False
    stop: float = 0.0

    @property
    def ranks(self) -> int:
        """The number of workers."""
        return sum(end - first for _, first, end in self.slots)


class HeldCommand(NamedTuple):
    """A command on a held node.

    Attributes:
        host: where it runs.
        after: seconds from when the nodes can be used.
        what: `print`, `flood`, `absent`, `sleep`, `stubborn`, `read`.
        stop: seconds after which its client ends it, 0 for never.
    """

    host: str
    after: float
    what: str
    stop: float = 0.0


class HoldSpec(NamedTuple):
    """What happens on held nodes.

    Attributes:
        groups: jobs that are begun together, one group after another.
        rest: seconds before each group, and before the release.
        commands: beside them.
    """

    groups: tuple[tuple[HeldJob, ...], ...]
    rest: float = 3.0
    commands: tuple[HeldCommand, ...] = ()

    @property
    def jobs(self) -> tuple[HeldJob, ...]:
        """All jobs, in the order of their numbers."""
        return tuple(one for group in self.groups for one in group)


class RolePart(NamedTuple):
    """One role of a job of several.

    Attributes:
        slots: (host, first, end): the slots that it has, of each of its hosts.
        ends: how its clean end counts: `job`, `wait` or `never`; one of these last serves on.
        after: the roles that must be ready before it starts.
        line: whether it is ready with its first line, and not with its start.
        restarts: how often it is started again after a failure; -1 if a failure ends the job.
        deeds: whether its workers do the deeds of the world.
        elastic: whether it goes on with one of its hosts.
    """

    name: str
    slots: tuple[tuple[str, int, int], ...]
    ends: str
    after: tuple[str, ...] = ()
    line: bool = False
    restarts: int = -1
    deeds: bool = False
    elastic: bool = False

    @property
    def ranks(self) -> int:
        """The number of workers."""
        return sum(end - first for _, first, end in self.slots)


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
        hold: what is held; None for a plain job.
        streams: the runner's own.
        clean: whether ranks that end with 0 after a stop signal are a success.
        spares: hosts that are not in the job at its start.
        changes: in the order of their times.
        least: the fewest nodes with which a static job starts, 0 for all.
        checked: whether the quick check compares the nodes.
        health: whether there is a health command.
        start_timeout: seconds.
        hang: seconds without progress after which the job hangs, 0 for never.
        looks: at the job, while it runs.
        crowd: how many processes of others each host has.
        roles: of a job of several; none for one program.
        engine: whether an engine starts the node launchers, which ends when one of them fails
            (`strict`) or goes on (`tolerant`); `` for ssh.
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
    hold: HoldSpec | None = None
    streams: StreamSpec = StreamSpec()
    clean: bool = False
    spares: tuple[HostSpec, ...] = ()
    changes: tuple[Change, ...] = ()
    least: int = 0
    checked: bool = False
    health: bool = False
    start_timeout: float = 60.0
    hang: float = 0.0
    looks: tuple[Look, ...] = ()
    crowd: int = 1
    roles: tuple[RolePart, ...] = ()
    engine: str = ""

    @property
    def stops_hang(self) -> bool:
        """Whether a hang ends the job: a worker hangs, and nothing else goes wrong."""
        others = [fault for fault in self.faults if fault.after != HANGS]
        return not others and any(one.what == "hang" for one in self.program.deeds)

    @property
    def ranks(self) -> int:
        """The number of workers."""
        return sum(host.workers for host in self.hosts)


LOOKS = ("status", "status", "usage", "stacks", "logs", "signal", "stop", "stop now", "nonsense")

QUIT, USER_TOO = 3, 12

CROWD = 150
"""Processes of others on a host that has many: to look at all of them takes a while."""

HANGS = 120.0
"""When a person interrupts a job that hangs."""

INTERRUPT, TERMINATE, HANG_UP, KILL, USER = 2, 15, 1, 9, 10

FAULTS = (
    *("kill worker", "kill launcher", "kill guard", "kill both", "kill runner", "kill logs"),
    *("freeze worker", "freeze launcher", "freeze guard", "freeze runner", "freeze host"),
    *("stick launcher", "stick launcher", "freeze launcher"),  # twice: few of them have effects
    *("signal runner", "signal guard", "signal session", "interrupt twice", "suspend runner"),
    *("signal session twice", "signal launcher", "busy runner"),
    *("cut", "cut in", "cut out", "cut and reset", "half open", "reset", "stall", "delay", "power"),
    *("freeze disk", "fill disk", "jump clock"),
    *("garbage", "close output", "stall output"),
)


HELD = 0.15
"""The share of worlds whose nodes are held."""

WITH_ROLES = 1_000_000
"""Seeds from here on are jobs of several roles."""

WITH_ELASTIC_ROLES = 1_100_000
"""And from here on some of these roles are elastic."""

WITH_ENGINES = 1_200_000
"""And from here on an engine starts the node launchers of a job of one program."""

WITH_COINCIDENCES = 1_300_000
"""And from here on two things happen at about the same moment."""


def scenario(seed: int) -> Scenario:
    """Return the world of a seed."""
    if seed >= WITH_COINCIDENCES:
        return _coinciding(Random(f"coinciding {seed}"), seed)
    if seed >= WITH_ENGINES:
        return _by_engine(Random(f"engine {seed}"), _of_one_program(seed))
    if seed >= WITH_ROLES:
        return _with_roles(Random(f"roles {seed}"), _plain(seed))
    one = _of_one_program(seed)
    chance = Random(f"hold {seed}")
    if chance.random() >= HELD or len(one.hosts) > 5:
        return one
    return _held(chance, one)


def _of_one_program(seed: int) -> Scenario:
    one = _wider(Random(f"wider {seed}"), _plain(seed))
    one = _by_torch(Random(f"torch {seed}"), one)
    one = _in_haste(Random(f"haste {seed}"), one)
    return _at_the_same_time(Random(f"same {seed}"), one)


def _by_engine(chance: Random, one: Scenario) -> Scenario:
    """Let an engine start the node launchers; it may be killed."""
    if chance.random() < 0.25:
        anchor = chance.choice(("start", "connected", *("running",) * 3, "stopping", "ending"))
        after = chance.choice((0.0, 0.01, 1.0, 5.0)) * chance.random()
        one = one._replace(faults=(*one.faults, Fault(anchor, after, "kill engine", "login")))
    return one._replace(engine="tolerant" if one.elastic is not None else "strict")


def _coinciding(chance: Random, seed: int) -> Scenario:
    """Return a world in which two things happen at about the same moment.

    The work outlasts the lease. With the longest lease a node is given up before it is silent.
    """
    count, delays = chance.choice((2, 2, 3, 4)), (0.0, 0.01, 0.2)
    hosts = tuple(
        HostSpec(f"n{n}", chance.choice((1, 2, 3)), chance.choice(delays)) for n in range(count)
    )
    wait, cool = chance.choice((0.0, 5.0, 30.0)), chance.choice((0.0, 20.0))
    elastic = ElasticSpec(chance.randint(1, count), 3, wait, cool)
    lease = chance.choice((4.0, 15.0, 60.0, 60.0))
    steps, pause, length = chance.choice(
        ((12, lease / 4, 20), (12, lease / 4, 20), (6, 0.0, 30_000))
    )
    program = ProgramSpec(steps, pause, length, chance.choice(("die", "slow", "ignore")))
    one = Scenario(seed, hosts, program, (), elastic, chance.choice((0.0, 1.0, 5.0)), lease)
    kinds = (*(_silent_end,) * 5, _removed_at_end, *(_lost_at_start,) * 3, _engine_at_end)
    return chance.choice(kinds)(chance, one)


def _silent_end(chance: Random, one: Scenario) -> Scenario:
    """Let a host be silent or get lost a moment before, or after, a round ends."""
    silent, other = chance.sample(one.hosts, 2)
    at = chance.choice((0.001, 0.1, 2.0)) * chance.random()
    ends = chance.choice(("kill worker", "kill worker", "kill guard", "kill launcher", "reset"))
    faults = [Fault("running", at, ends, other.name)]
    anchor = chance.choice(("running", "running", "again"))
    if anchor == "running":
        at = max(0.0, at + chance.choice((-0.01, 1e-4, 0.01, 0.5)) * chance.random())
    kinds = ("cut", "cut in", *("cut out",) * 3, "half open", *("stick launcher",) * 2, "reset")
    kind = chance.choice((*kinds, "kill guard", "kill launcher", "freeze host", "power"))
    heals = chance.choice((1.5, 4.0)) * one.lease
    heals = 0.0 if kind.startswith(("half", "kill", "reset", "power")) else heals
    faults.append(Fault(anchor, at, kind, silent.name, heals))
    if chance.random() < 0.4:
        after = chance.choice((0.0, 1e-4, 0.01)) * chance.random()
        kind = chance.choice(("kill guard", "kill launcher", "reset"))
        faults.append(Fault(chance.choice(("stopping", "ending")), after, kind, silent.name))
    return one._replace(faults=tuple(faults))


def _removed_at_end(chance: Random, one: Scenario) -> Scenario:
    """Let hosts be removed while a round ends."""
    assert one.elastic is not None
    failing = chance.choice(one.hosts).name
    at = chance.uniform(1.0, 4.0)
    stays = [host.name for host in one.hosts if host.name != chance.choice((failing, ""))]
    hosts = tuple(chance.sample(stays, chance.randint(1, len(stays))))
    program = one.program._replace(term=chance.choice(("slow", "ignore")))
    return one._replace(
        program=program,
        grace=5.0,
        elastic=one.elastic._replace(least=1),
        faults=(Fault("running", at, "kill worker", failing),),
        changes=(Change(at + chance.uniform(0.0, 2.0), tuple(sorted(hosts))),),
    )


def _lost_at_start(chance: Random, one: Scenario) -> Scenario:
    """Let the first host be lost while it is told to start, or get a signal while it does so."""
    assert one.elastic is not None
    first, *others = one.hosts
    hosts = (first._replace(workers=3, delay=0.2), *others)
    value = chance.choice((INTERRUPT, TERMINATE, HANG_UP, USER))
    if chance.random() < 0.5:
        after = chance.choice((1e-5, 1e-4, 1e-3)) * chance.random()
        fault = Fault("running", after, "signal session", chance.choice(hosts).name, value=value)
        elastic = chance.choice((one.elastic, None))
    else:
        kind = chance.choice(("kill launcher", "kill guard", "power", "reset"))
        fault = Fault("connected", chance.uniform(0.0, 2.0), kind, first.name)
        elastic = one.elastic._replace(least=1)
    return one._replace(hosts=hosts, faults=(fault,), elastic=elastic)


def _engine_at_end(chance: Random, one: Scenario) -> Scenario:
    """Let an engine be killed, perhaps when something else ends the job."""
    at = chance.choice((0.1, 2.0)) * chance.random()
    faults = [Fault("running", at, "kill engine", "login")]
    if chance.random() < 0.5:
        kind = chance.choice(("kill worker", "kill guard", "signal session", "kill launcher"))
        after = max(0.0, at + chance.choice((-0.1, 1e-3, 0.1)) * chance.random())
        faults.append(Fault("running", after, kind, one.hosts[0].name, value=TERMINATE))
    elastic = chance.choice((one.elastic, None))
    engine = "strict" if elastic is None else "tolerant"
    return one._replace(faults=tuple(faults), elastic=elastic, engine=engine)


def _plain(seed: int) -> Scenario:
    chance = Random(seed)
    hosts = tuple(_hosts(chance))
    elastic = _elastic(chance, len(hosts))
    logs = chance.random() < 0.3
    program = _program(chance, sum(host.workers for host in hosts), elastic is not None)
    grace, lease = chance.choice((0.0, 1.0, 5.0, 30.0)), chance.choice((4.0, 4.0, 15.0, 60.0))
    faults = tuple(_faults(chance, hosts, program, lease, logs=logs))
    background = elastic is None and chance.random() < 0.1
    streams = _streams(chance, elastic is not None, faults)
    clean = chance.random() < 0.1
    one = Scenario(seed, hosts, program, faults, elastic, grace, lease, logs, background)
    one = one._replace(streams=streams, clean=clean)
    if elastic is None:
        few = chance.random() < 0.2
        return one._replace(least=chance.randint(1, len(hosts)) if few else 0)
    return _changing(chance, one._replace(elastic=_more_elastic(chance, elastic, len(hosts))))


def _wider(chance: Random, one: Scenario) -> Scenario:
    """Return this world with what it has beside hosts, steps and faults."""
    program = one.program._replace(meets=chance.random() < 0.3)
    if chance.random() < 0.1:
        program = program._replace(child=chance.choice(("hops", "bomb")))
        one = one._replace(crowd=CROWD if len(one.hosts) < 6 else 1)
    one = one._replace(program=program, checked=chance.random() < 0.4)
    if chance.random() < 0.15:
        one = one._replace(start_timeout=chance.choice((5.0, 15.0)))
    if chance.random() < 0.2:
        whats = [chance.choice(LOOKS) for _ in range(chance.choice((1, 2, 3)))]
        one = one._replace(looks=tuple(Look(chance.uniform(0.0, 8.0), what) for what in whats))
    if chance.random() < 0.1:
        one = one._replace(health=True, hosts=_spoiled(chance, one.hosts, "sick"))
    if chance.random() < 0.15:
        one = one._replace(hang=chance.choice((20.0, 40.0)))
    if chance.random() < 0.08:
        one = one._replace(faults=(*one.faults, _early(chance, one.hosts)))
    if one.elastic is not None and chance.random() < 0.25:
        one = _noticed(chance, one, one.elastic)
    if one.checked and chance.random() < 0.2:
        one = one._replace(hosts=_spoiled(chance, one.hosts, "code"))
    unfit = any(host.sick or host.code for host in one.hosts)
    if unfit and one.elastic is None and chance.random() < 0.7:
        one = one._replace(least=max(1, len(one.hosts) - 1))
    return one


def _by_torch(chance: Random, one: Scenario) -> Scenario:
    """Let torch's agent start the workers of some elastic jobs; it may be hit as well."""
    if one.elastic is None or chance.random() >= 0.15:
        return one
    alone = chance.random() < 0.25
    elastic = one.elastic._replace(torch="rendezvous" if alone else "rounds")
    one = one._replace(elastic=elastic, program=one.program._replace(meets=False, shards=0))
    if chance.random() < 0.5:
        after, host = chance.uniform(0.0, 2.0), chance.choice(one.hosts)
        fault = Fault("running", after, "kill agent", host.name)
        one = one._replace(faults=(*one.faults, fault))
        if chance.random() < 0.4:  # its workers need longer than others wait for them
            program = one.program._replace(term=chance.choice(("slow", "ignore")))
            one = one._replace(program=program, grace=30.0, lease=4.0)
    return _only_one(one, elastic) if alone else one


def _only_one(one: Scenario, elastic: ElasticSpec) -> Scenario:
    """Return this world with one host alone: of a rendezvous the runner knows no other."""
    host = one.hosts[0]
    faults = tuple(fault for fault in one.faults if fault.target in {host.name, "login"})
    plain = ElasticSpec(1, elastic.restarts, torch=elastic.torch)
    return one._replace(hosts=(host,), faults=faults, elastic=plain, changes=(), spares=())


def _in_haste(chance: Random, one: Scenario) -> Scenario:
    """Let what ends a round of an elastic job happen while something else does."""
    elastic = one.elastic
    if elastic is None or elastic.torch == "rendezvous":
        return one
    if chance.random() < 0.5 and one.changes:
        again = [_soon_after(chance, one, change) for change in one.changes[:2]]
        changes = sorted((*one.changes, *again), key=lambda change: change.after)
        one = one._replace(changes=tuple(changes))
    if chance.random() < 0.15 and len(one.hosts) > 1:
        ends = (fault for fault in one.faults if fault.after == HANGS)
        faults = (*_unheard_failure(chance, one), *ends)
        one = one._replace(faults=faults, lease=chance.choice((15.0, 60.0)))
        if chance.random() < 0.5:  # the job cannot go on without the silent one
            wait, least = chance.choice((5.0, 30.0)), len(one.hosts)
            one = one._replace(elastic=elastic._replace(least=least, most=0, wait=wait))
    return one


def _soon_after(chance: Random, one: Scenario, change: Change) -> Change:
    assert one.elastic is not None
    names = [host.name for host in (*one.hosts, *one.spares)]
    count = chance.randint(one.elastic.least, len(names))
    hosts = tuple(sorted(chance.sample(names, count)))
    return Change(change.after + chance.choice((0.05, 0.5, 2.0)) * chance.random(), hosts)


def _unheard_failure(chance: Random, one: Scenario) -> Iterator[Fault]:
    """Let a host be silent just before, or just after, a worker of another one fails."""
    silent, failing = chance.sample(one.hosts, 2)
    kinds = ("cut", "cut in", "cut out", "half open", "stick launcher", "freeze host", "reset")
    kind, at = chance.choice(kinds), chance.uniform(0.0, 3.0)
    heals = 0.0 if kind in {"half open", "reset"} else chance.choice((10.0, 30.0, 90.0))
    yield Fault("running", at, kind, silent.name, heals)
    after = max(0.0, at + chance.choice((-0.1, 0.01, 1.0)) * chance.random())
    yield Fault("running", after, "kill worker", failing.name)


def _at_the_same_time(chance: Random, one: Scenario) -> Scenario:
    """Let something happen just when something else does: a start, a change, a long silence."""
    more: list[Fault] = []
    if chance.random() < 0.08:
        more.append(_while_starting(chance, one))
    if chance.random() < 0.06:
        heals = one.lease * chance.uniform(0.93, 1.0)
        busy = Fault("running", chance.random(), "busy runner", "login", heals, chance.randrange(8))
        if all(fault.kind != "suspend runner" for fault in one.faults):  # `fg` would end both
            more.append(busy)
    if one.changes and chance.random() < 0.3:
        more.append(_beside_change(chance, one))
    return one._replace(faults=(*one.faults, *more)) if more else one


def _while_starting(chance: Random, one: Scenario) -> Fault:
    """Let a signal reach a node while workers are started there, in the first round or another."""
    kind = chance.choice(
        ("signal session", "signal session twice", "signal guard", "signal launcher")
    )
    anchor = "again" if one.elastic is not None and chance.random() < 0.5 else "running"
    after = chance.choice((0.0, 1e-5, 1e-4, 1e-3, 0.01)) * chance.random()
    value = chance.choice((INTERRUPT, TERMINATE, HANG_UP, USER, QUIT))
    return Fault(anchor, after, kind, chance.choice(one.hosts).name, value=value)


def _beside_change(chance: Random, one: Scenario) -> Fault:
    """Let a node be lost about when the nodes change."""
    change, host = chance.choice(one.changes), chance.choice(one.hosts)
    kind = chance.choice(("kill launcher", "kill guard", "reset", *("kill worker",) * 3, "power"))
    after = max(0.0, change.after + chance.choice((-2.0, -0.5, 0.01, 0.5, 2.0)) * chance.random())
    return Fault("start", after, kind, host.name)


def _early(chance: Random, hosts: Sequence[HostSpec]) -> Fault:
    """Let something hit a node launcher, or its guard, that has just begun."""
    kinds = ("freeze launcher", "stick launcher", "kill launcher", "kill guard", "signal guard")
    kind, host = chance.choice(kinds), chance.choice(hosts[:2])
    after = chance.choice((0.0, 0.0, 0.001, 0.01)) * chance.random()
    value = TERMINATE if kind == "signal guard" else 0
    heals = chance.choice((0.0, 30.0)) if kind == "freeze launcher" else 0.0
    heals = 60.0 if kind == "stick launcher" else heals
    return Fault("connected", after, kind, host.name, heals, value)


def _noticed(chance: Random, one: Scenario, elastic: ElasticSpec) -> Scenario:
    """Let workers be told of changes, of which there are some."""
    told = elastic._replace(
        notice=1.0,
        notice_by=chance.choice(("SIGUSR1", "/logs/notice")),
        gain_delay=chance.choice((0.0, 5.0)),
    )
    one = one._replace(elastic=told)
    return one if one.changes else one._replace(changes=tuple(_changes(chance, one, told)))


def _spoiled(chance: Random, hosts: tuple[HostSpec, ...], name: str) -> tuple[HostSpec, ...]:
    """Let something be wrong with one host, or with none."""
    values: dict[str, tuple[Any, ...]] = {"sick": (True, False), "code": ("script", "files")}
    at = chance.randrange(len(hosts))
    spoiled = hosts[at]._replace(**{name: chance.choice(values[name])})
    return (*hosts[:at], spoiled, *hosts[at + 1 :])


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
    changes = _changes(chance, one._replace(spares=spares), one.elastic)
    return one._replace(spares=spares, changes=tuple(changes))


def _changes(chance: Random, one: Scenario, elastic: ElasticSpec) -> Iterator[Change]:
    names = [host.name for host in (*one.hosts, *one.spares)]
    for after in sorted(chance.uniform(0.0, 10.0) for _ in range(chance.randint(1, 3))):
        if chance.random() < 0.3:
            most = elastic.most or len(one.hosts)
            yield Change(after, nodes=chance.randint(elastic.least, most))
        else:
            count = chance.randint(elastic.least, len(names))
            yield Change(after, tuple(sorted(chance.sample(names, count))))


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
    wait, cool = chance.choice((0.0, 0.0, 5.0, 30.0)), chance.choice((0.0, 0.0, 20.0))
    return ElasticSpec(least, chance.choice((0, 1, 3)), wait, cool)


def _program(chance: Random, ranks: int, elastic: bool) -> ProgramSpec:
    length = chance.choice((20, 20, 200, 30_000))
    steps = chance.randint(1, 6) if length > 1000 else chance.randint(0, 20)
    deeds = tuple(_deed(chance, ranks, steps, elastic) for _ in range(chance.choice((0, 0, 1, 2))))
    return ProgramSpec(
        steps,
        chance.choice((0.0, 0.1, 1.0, 4.0)),
        length,
        chance.choice(("die", "die", "slow", "ignore")),
        chance.choice(("", "", "", "tied", "stays", "daemon")),
        chance.random() < 0.25,
        deeds,
        chance.choice((0,) * 8 + (1, 20)),
    )


def _deed(chance: Random, ranks: int, steps: int, elastic: bool) -> Deed:
    what, value = chance.choice(
        (("exit", 3), ("raise", 1), ("kill", 11), ("kill", 9), ("hang", 0), ("early", 0))
    )
    life = chance.choice((0, 0, 1)) if elastic else 0
    rank = EVERY if chance.random() < 0.15 else chance.randrange(ranks)
    return Deed(rank, life, chance.randint(0, max(0, steps)), what, value)


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
    if kind.startswith(("freeze", "busy", "suspend", "cut", "stall", "fill", "delay")):
        heals = chance.choice((0.1, 1.0, 0.5 * lease, 0.9 * lease, 1.5 * lease, 4 * lease))
        if kind == "freeze launcher" and chance.random() < 0.5:
            heals = 0.0  # its guard ends it
    elif kind.startswith("stick"):
        heals = chance.choice((1.0, 1.5 * lease, 4 * lease))
    elif kind == "power":
        heals = chance.choice((0.0, 10.0))
    numbers = [INTERRUPT, TERMINATE, HANG_UP, USER, *((QUIT, USER_TOO) if runner else ())]
    value = chance.choice(numbers) if "signal" in kind else chance.randrange(1 << 16)
    if kind.endswith("worker"):
        value = chance.randrange(host.workers)
    return Fault(anchor, after, kind, "login" if runner else host.name, heals, value)


# -- roles ------------------------------------------------------------------------------------


def _with_roles(chance: Random, one: Scenario) -> Scenario:
    """Return this world with a job of 1 to 5 roles."""
    hosts = tuple(
        HostSpec(host.name, max(2, host.workers), host.delay, host.start) for host in one.hosts[:5]
    )
    free = {host.name: 0 for host in hosts}
    roles: list[RolePart] = []
    for number in range(chance.choice((1, 2, 2, 3, 3, 4, 5))):
        slots = tuple(_slots(chance, hosts, free))
        if slots:
            roles.append(_role(chance, number, slots, roles))
    if one.seed >= WITH_ELASTIC_ROLES:
        roles = [_elastic_role(chance, role) for role in roles]
    program = one.program._replace(shards=0)
    faults = tuple(fault for fault in one.faults if fault.target in {"login", *free})
    streams = StreamSpec(piped=one.streams.piped)
    return Scenario(
        one.seed, hosts, program, faults, grace=one.grace, lease=one.lease, logs=one.logs
    )._replace(streams=streams, roles=tuple(roles))


def _slots(
    chance: Random, hosts: Sequence[HostSpec], free: dict[str, int]
) -> Iterator[tuple[str, int, int]]:
    """Yield slots that are free, and take them; the first role gets some in any case."""
    begun = any(free.values())
    for host in chance.sample(hosts, chance.randint(1, len(hosts))):
        first = free[host.name]
        end = min(host.workers, first + chance.choice((1, 1, 2)))
        if first < end and (not begun or chance.random() < 0.8):
            free[host.name] = end
            yield host.name, first, end


def _role(
    chance: Random,
    number: int,
    slots: tuple[tuple[str, int, int], ...],
    before: Sequence[RolePart],
) -> RolePart:
    ends = chance.choice(("never", "never", "job", "wait") if number else ("job", "wait"))
    after = tuple(one.name for one in before if number and chance.random() < 0.4)
    if ends == "never":
        after = tuple(name for name in after if name != before[0].name)
    restarts = chance.choice((-1, -1, -1, 0, 1, 3))
    line, deeds = chance.random() < 0.4, chance.random() < 0.4
    return RolePart(f"r{number}", slots, ends, after, line, restarts, deeds)


def _elastic_role(chance: Random, role: RolePart) -> RolePart:
    """Return a role that may be elastic; a service is none."""
    several = len(role.slots) > 1 and role.ends != "never"
    return role._replace(elastic=several and chance.random() < 0.6)


# -- held nodes -------------------------------------------------------------------------------


def _held(chance: Random, one: Scenario) -> Scenario:
    """Return this world with held nodes."""
    hosts = tuple(
        HostSpec(host.name, max(2, host.workers), host.delay, host.start) for host in one.hosts
    )
    groups = tuple(tuple(_group(chance, one, hosts)) for _ in range(chance.choice((1, 2, 2, 3))))
    rest = chance.choice((0.0, 0.5, 3.0, 3.0, 20.0))
    commands = tuple(_command(chance, hosts) for _ in range(chance.choice((0, 0, 1, 2))))
    faults = tuple(_at_rest(chance, fault) for fault in one.faults)
    held = HoldSpec(groups, rest, commands)
    plain = Scenario(one.seed, hosts)
    for name in (
        "streams",
        "clean",
        "spares",
        "changes",
        "least",
        "background",
        "looks",
        "health",
        "hang",
    ):
        one = one._replace(**{name: getattr(plain, name)})
    if one.elastic is not None and one.elastic.torch:
        one = one._replace(elastic=one.elastic._replace(torch="rounds"))
    return one._replace(hosts=hosts, faults=faults, hold=held, start_timeout=60.0)


def _group(chance: Random, one: Scenario, hosts: Sequence[HostSpec]) -> Iterator[HeldJob]:
    """Yield jobs that are begun together: mostly one; two share nodes, or wait for each other."""
    shares = chance.choice(((0.0, 1.0), (0.0, 1.0), (0.0, 0.5, 1.0), (0.0, 0.5, 1.0), (0, 1, 1)))
    deeds = one.program.deeds
    for first, end in pairwise(shares):
        used = [host for host in hosts if chance.random() < 0.7] or hosts[:1]
        slots = [(h.name, int(first * h.workers), int(end * h.workers)) for h in used]
        if first == end:  # as the one before: it waits
            slots = [(host.name, 0, 1) for host in used]
        does = chance.random() < 0.5
        hangs = does and any(deed.what == "hang" for deed in deeds)
        stop = 60.0 if hangs else chance.choice((0.0, 0.0, 0.0, 0.0, 0.3, 2.0))
        elastic = one.elastic is not None and chance.random() < 0.5
        yield HeldJob(tuple(slots), chance.random() < 0.5, elastic, does, stop)


def _command(chance: Random, hosts: Sequence[HostSpec]) -> HeldCommand:
    what = chance.choice(("print", "flood", "absent", "sleep", "stubborn", "read"))
    stop = chance.choice((0.0, 1.0)) if what in {"print", "flood", "absent"} else 1.0
    return HeldCommand(chance.choice(hosts).name, chance.choice((0.0, 0.5, 4.0)), what, stop)


def _at_rest(chance: Random, fault: Fault) -> Fault:
    """Let some faults strike while the nodes are at rest, and some a lane."""
    if fault.kind in {"kill launcher", "freeze launcher"} and chance.random() < 0.3:
        fault = fault._replace(kind=fault.kind.replace("launcher", "lane"))
    if chance.random() < 0.4:
        fault = fault._replace(anchor=chance.choice(("serving", "resting")))
    return fault


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
    if one.hold is not None:
        yield from _simpler_hold(one, one.hold)
    yield from _simpler_roles(one)
    for at in range(len(one.faults)):
        yield one._replace(faults=one.faults[:at] + one.faults[at + 1 :])
    for at in range(len(one.looks)):
        yield one._replace(looks=one.looks[:at] + one.looks[at + 1 :])
    for at in range(len(one.changes)):
        yield one._replace(changes=one.changes[:at] + one.changes[at + 1 :])
    deeds = one.program.deeds
    for at in range(len(deeds)):
        fewer = deeds[:at] + deeds[at + 1 :]
        yield one._replace(program=one.program._replace(deeds=fewer))
    used = {fault.target for fault in one.faults} | {h for c in one.changes for h in c.hosts}
    if one.hold is not None:
        used |= {name for job in one.hold.jobs for name, _, _ in job.slots}
        used |= {command.host for command in one.hold.commands}
    used |= {name for role in one.roles for name, _, _ in role.slots}
    for host in one.hosts if len(one.hosts) > 1 else ():
        if host.name not in used:
            yield one._replace(hosts=tuple(other for other in one.hosts if other != host))
    for at, host in enumerate(one.hosts):
        several = one.hold is not None or one.roles
        plain = HostSpec(host.name, host.workers if several else 1)
        if host != plain:
            yield one._replace(hosts=(*one.hosts[:at], plain, *one.hosts[at + 1 :]))
    yield from _plainer_options(one)


def _simpler_roles(one: Scenario) -> Iterator[Scenario]:
    """Yield worlds with fewer or plainer roles."""
    roles = one.roles
    needed = {name for role in roles for name in role.after}
    for at, role in enumerate(roles):
        rest = roles[:at], roles[at + 1 :]
        clean = any(other.ends != "never" for part in rest for other in part)
        if role.name not in needed and clean:
            yield one._replace(roles=(*rest[0], *rest[1]))
        plainer = [role._replace(after=()), role._replace(line=False), role._replace(deeds=False)]
        plainer += [role._replace(restarts=-1), role._replace(slots=role.slots[:1])]
        for other in plainer:
            if other != role:
                yield one._replace(roles=(*rest[0], other, *rest[1]))


def _simpler_hold(one: Scenario, hold: HoldSpec) -> Iterator[Scenario]:
    """Yield worlds with less on the held nodes."""
    groups = hold.groups
    fewer = [
        *(groups[:at] + groups[at + 1 :] for at in range(len(groups))),
        *(
            (*groups[:at], group[:place] + group[place + 1 :], *groups[at + 1 :])
            for at, group in enumerate(groups)
            for place in range(len(group) if len(group) > 1 else 0)
        ),
        *(
            (*groups[:at], (*group[:place], plain, *group[place + 1 :]), *groups[at + 1 :])
            for at, group in enumerate(groups)
            for place, job in enumerate(group)
            for plain in _plainer_jobs(job)
        ),
    ]
    yield from (one._replace(hold=hold._replace(groups=some)) for some in fewer)
    for at in range(len(hold.commands)):
        commands = hold.commands[:at] + hold.commands[at + 1 :]
        yield one._replace(hold=hold._replace(commands=commands))


def _plainer_jobs(job: HeldJob) -> Iterator[HeldJob]:
    for at in range(len(job.slots) if len(job.slots) > 1 else 0):
        yield job._replace(slots=job.slots[:at] + job.slots[at + 1 :])
    for name in ("relay", "elastic", "deeds", "stop"):
        if getattr(job, name):
            yield job._replace(**{name: type(getattr(job, name))()})


def _plainer_options(one: Scenario) -> Iterator[Scenario]:
    plain = Scenario(one.seed, one.hosts)
    if one.elastic is not None and one.elastic[2:] != ElasticSpec(0, 0)[2:]:
        yield one._replace(elastic=ElasticSpec(*one.elastic[:2]))
    names: tuple[str, ...] = ("logs", "background", "grace", "lease", "streams", "clean", "least")
    names += ("checked", "health", "start_timeout", "looks", "hang", "crowd")
    for name in names if one.changes else ("elastic", *names):
        if getattr(one, name) != getattr(plain, name):
            yield one._replace(**{name: getattr(plain, name)})
    for name in ("steps", "pause", "length", "term", "child", "halves", "shards", "meets"):
        value = getattr(plain.program, name)
        if getattr(one.program, name) != value:
            yield one._replace(program=one.program._replace(**{name: value}))
