"""The rows: which fault, in which phase of a job, started in which way, and what dsrun promises.

Pure: a table of promises times the ways to start a job, without those that cannot be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SILENCE = 6.0
"""Seconds of `--heartbeat_timeout`."""

GRACE = 2.0
"""Seconds of `--grace`."""

HANG = 8.0
"""Seconds of `--hang_timeout`."""

OPTIONS = ("--heartbeat_timeout", f"{SILENCE:g}", "--grace", f"{GRACE:g}")
"""Of all jobs, so that silence and deaf workers end soon."""

SOON = 5.0
"""Seconds for what dsrun does at once, on a busy machine."""

SILENT = 2 * SILENCE + SOON
"""Seconds until a silent node is lost, and the others have ended."""

LOGS = "/tmp/dsrun-promised-logs"
"""A folder for log files; each host has its own `/tmp`."""

PHASES = {
    "before": ("Before the start", "The fault is there before dsrun is started."),
    "starting": (
        "During the start",
        "Node launchers run `--health_command` on all nodes; no worker has started.",
    ),
    "running": (
        "While the job runs",
        "All ranks are up, and go from step to step together.",
    ),
    "stopping": (
        "During the end",
        "dsrun has got SIGTERM; all ranks have heard it, and ignore it.",
    ),
}
"""The title of a phase, and what it is."""


FAULTS = {
    "none": "none",
    "none-watched": "none, with --hang_timeout",
    "worker-sigkill": "a rank is killed (SIGKILL)",
    "worker-sigterm": "a rank gets SIGTERM from outside",
    "worker-hangs": "a rank stops (SIGSTOP), with --hang_timeout",
    "worker-exits": "a rank exits with code 7",
    "worker-raises": "a rank raises an exception",
    "all-fail": "all ranks exit at once, with other codes",
    "children": "a rank exits with code 7; ranks have children that ignore SIGTERM",
    "two-workers-sigkill": "two ranks are killed at once",
    "dsrun-sigkill": "dsrun is killed (SIGKILL)",
    "dsrun-sigterm": "dsrun gets SIGTERM",
    "dsrun-sigint": "dsrun gets SIGINT",
    "dsrun-sigstop": "dsrun stops (SIGSTOP)",
    "launcher-sigkill": "a node launcher is killed",
    "launcher-sigterm": "a node launcher gets SIGTERM",
    "launcher-sigstop": "a node launcher stops (SIGSTOP)",
    "guard-sigkill": "a guard is killed",
    "guard-sigterm": "a guard gets SIGTERM",
    "guard-sigstop": "a guard stops (SIGSTOP)",
    "client-sigkill": "the ssh client, or engine, is killed",
    "client-sigstop": "the ssh client, or engine, stops (SIGSTOP)",
    "session-sigkill": "sshd's process for the session is killed",
    "hold-sigkill": "dsrun-hold is killed",
    "server-sigkill": "a server that may restart is killed",
    "dsrun-launcher-sigkill": "dsrun and a node launcher are killed at once",
    "dsrun-client-sigkill": "dsrun and its client, or engine, are killed at once",
    "guard-launcher-sigkill": "a guard and its node launcher are killed at once",
    "power": "a host loses its power",
    "off": "a host is off",
    "frozen": "all processes of a host stop (SIGSTOP)",
    "cut": "the cable of a host is cut",
    "cut-login": "the cable of dsrun's machine is cut",
    "cut-out": "what a host sends is lost",
    "cut-in": "what is sent to a host is lost",
    "heals": f"a cable is cut for {SILENCE / 3:g} s",
    "slow": "packets to and from a host take 0.3 s",
    "lossy": "a tenth of the packets to and from a host is lost",
    "reader-gone": "the reader of the output goes away",
    "log-disk-full": "the disk of the log files is full",
    "drain": "Slurm drains a node",
    "scancel": "the Slurm job is cancelled",
    "sshd-down": "nothing listens on a host's ssh port",
    "no-key": "a host refuses the key",
    "port-taken": "a program has the master port",
    "tmp-full": "/tmp of a host is full",
    "tmp-read-only": "/tmp of a host is read-only",
    "shm-full": "/dev/shm of a host is full",
}
"""What happens, in words."""


class Way(NamedTuple):
    """A way to start a job.

    Attributes:
        what: it, in words.
        options: of dsrun.
        programs: what it needs.
        form: the kind of job (`played.FORMS`).
    """

    what: str
    options: tuple[str, ...]
    programs: tuple[str, ...] = ()
    form: str = "plain"


def _engine(launcher: str, program: str) -> tuple[str, ...]:
    return ("--launcher", launcher, "--launcher_path", program)


_SSH = ("--launcher", "ssh")
_ELASTIC = ("--elastic_training", "--min_elastic_nodes", "1", "--max_restarts", "1")

WAYS = {
    "ssh": Way("dsrun's own ssh client", _SSH),
    "openssh": Way("OpenSSH", ("--launcher", "openssh")),
    "pdsh": Way("pdsh", ("--launcher", "pdsh"), ("pdsh",)),
    "slurm": Way(
        "srun in an allocation", ("--launcher", "slurm"), ("slurmctld", "slurmd", "munged"), "slurm"
    ),
    "openmpi": Way(
        "Open MPI's mpirun", _engine("openmpi", "mpirun.openmpi"), ("mpirun.openmpi",), "engine"
    ),
    "mpich": Way(
        "MPICH's mpiexec", _engine("mpich", "mpiexec.mpich"), ("mpiexec.mpich",), "engine"
    ),
    "container": Way(
        "podman containers over ssh",
        (*_SSH, "--container", "podman:/:O"),
        ("podman", "conmon", "runc"),
        "container",
    ),
    "elastic": Way("an elastic job over ssh", (*_SSH, *_ELASTIC), form="elastic"),
    "roles": Way("a server and a trainer as roles, over ssh", _SSH, form="roles"),
    "hold": Way("on held nodes (dsrun-hold), over ssh", _SSH, form="hold"),
    "detached": Way("detached (--detach), its terminal killed, over ssh", _SSH, form="detached"),
}


class Promise(NamedTuple):
    """What must be seen.

    Attributes:
        does: what dsrun does, in words.
        code: its exit code; None for any but 0.
        says: a line of its standard error, as a regular expression; "" for none.
        cause: of the report; "" if there is none, or it may be any.
        within: the most seconds until dsrun has ended and nothing is left on any host.
        goes_on: whether the job goes on, and the seconds count from the workers' own end.
    """

    does: str
    code: int | None
    says: str = ""
    cause: str = ""
    within: float = SOON
    goes_on: bool = False


class Row(NamedTuple):
    """One row.

    Attributes:
        fault: a name in `FAULTS`.
        phase: a name in `PHASES`.
        way: a name in `WAYS`.
        promise: what must be seen.
        options: of its job, besides those of all.
        skip: the reason why it cannot be played anywhere; "" if it can.
    """

    fault: str
    phase: str
    way: str
    promise: Promise
    options: tuple[str, ...] = ()
    skip: str = ""

    @property
    def name(self) -> str:
        """By which it is chosen and kept."""
        return f"{self.fault}/{self.phase}/{self.way}"

    @property
    def twin(self) -> str:
        """The name of the row with the same job, but without a fault."""
        watched = "-watched" if self.options == HANG_OPTIONS else ""
        return f"none{watched}/running/{self.way}"


def _stops(code: int, says: str, cause: str, within: float = SOON) -> Promise:
    return Promise("stops all ranks", code, says, cause, within)


_DONE = Promise("nothing: the job ends well", 0, cause="none", goes_on=True)
_ON = Promise("goes on", 0, cause="none", goes_on=True)
AGAIN = Promise("starts the workers again", 0, cause="none", within=SILENT, goes_on=True)
"""Of elastic jobs: the seconds until they are up again count, too."""
_LOST = _stops(75, "lost n2 ", "lost")
_LOST_ALL = _stops(75, "lost ", "lost")
_MISSED = _LOST._replace(within=SILENT)
_KILLED = _stops(137, r"rank \d+ \(n2, .*was killed by SIGKILL", "failure")
_TERMED = _stops(143, r"rank \d+ \(n2, .*was killed by SIGTERM", "failure")
_STOPPED = _stops(143, "stopped by SIGTERM", "signal")
_INTERRUPTED = _stops(130, "stopped by SIGINT", "signal")
_DEAD = Promise("the hosts stop all ranks by themselves", 137)
_STOPS_ON = Promise("goes on stopping", 143, "SIGTERM", within=GRACE + SOON)
_HUNG = _stops(77, r"rank \d+ \(n2\)", "no progress", 3 * HANG + SOON)
_REFUSED = Promise("starts no worker", 69, r"n2: ", within=15.0)
_DOWN = Promise("starts no worker", 69, r"n2", within=SILENT)

CHAIN = ("ssh", "openssh", "pdsh", "slurm", "openmpi", "mpich", "container")
KINDS = ("ssh", "pdsh", "openmpi")
"""A launcher whose session is the control line, one that is dialled back to, and an engine."""
SESSIONS = ("ssh", "openssh", "container")
FORMS = ("elastic", "roles", "hold", "detached")
HANG_OPTIONS = ("--hang_timeout", f"{HANG:g}", "--on_hang", "stop")

EXCLUDED = {
    ("client-sigkill", "ssh"): "dsrun is its own ssh client",
    ("client-sigstop", "ssh"): "dsrun is its own ssh client",
}
"""Combinations that cannot be, whatever the phase, with the reason."""

TABLE: tuple[tuple[str, str, tuple[str, ...], Promise], ...] = (
    # Nothing happens.
    ("none", "running", tuple(WAYS), _DONE),
    ("none-watched", "running", ("ssh", "openmpi", "container"), _DONE),
    # Every process of the chain, killed.
    ("worker-sigkill", "running", (*CHAIN, "roles", "hold", "detached"), _KILLED),
    ("worker-sigkill", "running", ("elastic",), AGAIN),
    ("dsrun-sigkill", "running", (*CHAIN, "elastic", "roles", "hold"), _DEAD),
    ("launcher-sigkill", "running", (*CHAIN, "roles", "hold", "detached"), _LOST),
    ("launcher-sigkill", "running", ("elastic",), AGAIN),
    ("guard-sigkill", "running", (*CHAIN, "roles", "hold"), _LOST),
    ("guard-sigkill", "running", ("elastic",), AGAIN),
    ("client-sigkill", "running", ("ssh", "openssh", "container"), _LOST),
    ("client-sigkill", "running", ("slurm", "openmpi", "mpich"), _LOST_ALL),
    ("client-sigkill", "running", ("pdsh",), _ON),
    ("session-sigkill", "running", ("ssh", "openssh"), _LOST),
    ("hold-sigkill", "running", ("hold",), _LOST_ALL._replace(says="", cause="")),
    ("server-sigkill", "running", ("roles",), _ON),
    # Asked to end.
    ("dsrun-sigterm", "running", (*CHAIN, *FORMS), _STOPPED),
    ("dsrun-sigint", "running", ("ssh", "openmpi", "slurm", "roles"), _INTERRUPTED),
    ("launcher-sigterm", "running", KINDS, _STOPPED),
    ("guard-sigterm", "running", KINDS, _STOPPED),
    ("worker-sigterm", "running", KINDS, _TERMED),
    # Stopped for good.
    ("dsrun-sigstop", "running", KINDS, _LOST_ALL._replace(within=SILENT, says="", cause="")),
    ("launcher-sigstop", "running", (*KINDS, "slurm", "container"), _MISSED),
    ("guard-sigstop", "running", KINDS, _ON),
    ("client-sigstop", "running", ("ssh", "openssh", "container"), _MISSED),
    ("client-sigstop", "running", ("pdsh",), _ON),
    ("client-sigstop", "running", ("slurm", "openmpi", "mpich"), _ON._replace(within=2 * SOON)),
    ("worker-hangs", "running", ("ssh", "openmpi", "container"), _HUNG),
    # In pairs, at one instant.
    ("dsrun-launcher-sigkill", "running", KINDS, _DEAD),
    ("dsrun-client-sigkill", "running", ("openssh", "pdsh", "openmpi"), _DEAD),
    ("guard-launcher-sigkill", "running", ("ssh", "openmpi"), _LOST),
    ("two-workers-sigkill", "running", KINDS, _KILLED._replace(says="was killed by SIGKILL")),
    # Hosts.
    ("power", "running", (*KINDS, "slurm", "roles", "hold", "detached"), _MISSED),
    ("power", "running", ("elastic",), AGAIN),
    ("frozen", "running", KINDS, _MISSED),
    ("cut", "running", (*KINDS, "container"), _MISSED),
    ("cut-login", "running", ("ssh", "pdsh"), _LOST_ALL._replace(within=SILENT)),
    ("cut-out", "running", ("ssh", "pdsh"), _MISSED),
    ("cut-in", "running", ("ssh", "pdsh"), _MISSED),
    ("heals", "running", ("ssh", "pdsh", "elastic"), _ON),
    ("slow", "running", ("ssh", "pdsh"), _ON),
    ("lossy", "running", ("ssh", "pdsh"), _ON),
    # What programs depend on.
    ("reader-gone", "running", ("ssh", "openmpi"), _stops(141, "", "broken pipe")),
    ("log-disk-full", "before", ("ssh", "pdsh"), _ON),
    ("drain", "running", ("slurm",), _ON),
    ("scancel", "running", ("slurm",), _stops(143, "SIGTERM", "signal", 15.0)),
    # Before the start.
    ("off", "before", ("ssh", "openssh", "pdsh"), _DOWN),
    ("sshd-down", "before", ("ssh", "openssh", "pdsh", "openmpi", "mpich"), _REFUSED),
    ("no-key", "before", ("ssh", "openssh", "pdsh"), _REFUSED),
    ("frozen", "before", ("ssh", "openssh"), _DOWN),
    ("port-taken", "before", KINDS, _REFUSED._replace(says="port 29500 is taken by")),
    ("tmp-full", "before", ("ssh", "pdsh", "openmpi"), _ON),
    ("tmp-read-only", "before", ("ssh", "pdsh"), _ON),
    ("shm-full", "before", ("ssh",), _REFUSED._replace(says="n2: /dev/shm")),
    # During the start.
    ("dsrun-sigkill", "starting", KINDS, _DEAD),
    ("dsrun-sigterm", "starting", KINDS, _STOPPED._replace(says="SIGTERM", cause="")),
    ("launcher-sigkill", "starting", KINDS, _REFUSED),
    ("guard-sigkill", "starting", KINDS, _REFUSED),
    ("launcher-sigstop", "starting", ("ssh",), _DOWN),
    ("client-sigkill", "starting", ("openssh",), _REFUSED),
    ("power", "starting", KINDS, _DOWN),
    ("cut", "starting", ("ssh", "pdsh"), _DOWN),
    # During the end.
    ("dsrun-sigkill", "stopping", KINDS, _DEAD._replace(within=GRACE + SOON)),
    ("worker-sigkill", "stopping", KINDS, _STOPS_ON),
    ("launcher-sigkill", "stopping", KINDS, _STOPS_ON),
    ("guard-sigkill", "stopping", KINDS, _STOPS_ON),
    ("launcher-sigstop", "stopping", ("ssh",), _STOPS_ON._replace(within=SILENT)),
    ("power", "stopping", KINDS, _STOPS_ON._replace(within=SILENT)),
    ("cut", "stopping", ("ssh", "pdsh"), _STOPS_ON._replace(within=SILENT)),
)
"""A fault, the phase, the ways, and what is promised in these."""

_NOBODY_LEFT = (
    "nobody is left to end what ranks have started in sessions of their own; the next job on the"
    " host names it"
)

KNOWN = {
    "guard-launcher-sigkill/running/ssh": _NOBODY_LEFT,
    "guard-launcher-sigkill/running/openmpi": _NOBODY_LEFT,
    "dsrun-client-sigkill/running/openmpi": "mpirun's own folder in /tmp stays: nobody removes it",
    "cut/running/openmpi": "Open MPI's daemon, but no rank, stays there until the cable is back",
}
"""Why rows do not hold, by their names."""

OF_FAULTS = {
    "none-watched": HANG_OPTIONS,
    "worker-hangs": HANG_OPTIONS,
    "port-taken": ("--master_port", "29500"),
    "log-disk-full": ("--log_dir", LOGS),
}
"""The options of jobs with a fault."""


def _all() -> Iterator[Row]:
    for fault, phase, ways, promise in TABLE:
        for way in ways:
            excluded = EXCLUDED.get((fault, way), "")
            yield Row(fault, phase, way, promise, OF_FAULTS.get(fault, ()), excluded)


ROWS = {row.name: row for row in _all()}


OTHERS = {
    "dsrun": Way(
        "dsrun",
        (*_SSH, *_ELASTIC, "--hang_timeout", f"{HANG:g}", "--on_hang", "restart"),
        form="dsrun",
    ),
    "torchrun": Way("torchrun", (), ("pdsh", "torchrun"), "torchrun"),
    "ft_launcher": Way("ft_launcher", (), ("pdsh", "ft_launcher"), "ft_launcher"),
    "mpirun": Way("mpirun", (), ("mpirun.openmpi",), "mpirun"),
    "srun": Way("srun -K", (), ("slurmctld", "slurmd", "munged"), "srun"),
}
"""dsrun and other launchers, which play the same faults: what those do then is no promise."""

COLLECTIVE = 30.0
"""Seconds until a collective of these jobs raises."""

OTHERS_FAULTS = (
    "worker-sigkill",
    "worker-exits",
    "worker-raises",
    "worker-hangs",
    "all-fail",
    "children",
    "dsrun-sigkill",
    "dsrun-sigterm",
    "dsrun-sigint",
    "reader-gone",
    "power",
    "cut",
)

_NAMED = r"(?m)^(?!n2: |pdsh@).*\bn2\b|^n2: .*exitcode|Process name: .*,3\]"
"""A line of the launcher's own that names the host (or the rank, as mpirun does), also where pdsh
says whose line it is."""

_WANTED = Promise("", None, _NAMED, within=3 * COLLECTIVE)
"""What anybody wants: the job goes on or fails, its launcher names the host, hosts are clean."""

OTHER_ROWS = {
    row.name: row
    for fault in OTHERS_FAULTS
    for way in OTHERS
    for row in [Row(fault, "running", way, _WANTED)]
}
