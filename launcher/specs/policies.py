"""The policies of a job: how its workers are started, bound, watched and stopped.

Each is a part of `JobSpec` and of the JOB message. `Option.fills` names the fields that options
fill as they are; planning makes the others.
"""

from __future__ import annotations

from ..common.values import NamedTuple

STREAM_NUMBERS = {0: set[int](), 1: {1}, 2: {2}, 3: {1, 2}}
"""torchrun's numbers for streams, as in --redirects 3."""

PREFIX_FIELDS = {"host": "", "rank": 0, "local_rank": 0, "node_rank": 0, "job": "", "role": ""}
"""Fields of `OutputPolicy.prefix`, each with an example of its type."""

EXPECT = "--expect"
"""The name of the rule of the command line."""

ALERT_ACTIONS = ("report", "stop", "restart")
"""What can follow from a hang or a broken rule: a line, the end of the job, another round."""

SAMPLE, SLOW_SAMPLE, LEAST_SAMPLE = 2.0, 1.0, 0.2
"""Seconds between two looks at what workers do: as a rule, to find slow ranks, and at least."""


class WorkerPolicy(NamedTuple):
    """How workers are started, apart from program, folder and variables.

    Attributes:
        venv_script: a shell file to source before the workers, as an absolute path; "" for none.
        role: their ROLE_NAME.
        run_id: their TORCHELASTIC_RUN_ID; "" for the job's id.
        one_device: each worker sees one device only, as LOCAL_RANK 0.
        shard_queue: workers can take shards of data from the runner.
        preload: modules that one process on each node imports, from which the workers are forked.
        warm: for each worker of an elastic job such a fork waits for the next round.
        expects_devices: accelerators are expected; a line is printed if there are none.
        needs_devices: the option that requires accelerators; "" for none.
    """

    venv_script: str = ""
    role: str = "default"
    run_id: str = ""
    one_device: bool = False
    shard_queue: bool = False
    preload: tuple[str, ...] = ()
    warm: bool = False
    expects_devices: bool = False
    needs_devices: str = ""


class BindingPolicy(NamedTuple):
    """How to bind the workers of a node.

    Attributes:
        bind_to: which cores a worker gets: `none`, `core`, `numa`, `socket`, `exclusive` or
            `core-complex`.
        core_list: the only cpus to use, as in `1,3-5`; "" for all allowed ones.
        smt: all hardware threads of a core are used, not only the first.
        memory: the memory policy: `auto`, `bind`, `preferred`, `interleave` or `none`.
        nics: variables name the nearest network cards for each worker.
        report: what the workers are bound to is reported once they run.
    """

    bind_to: str = "none"
    core_list: str = ""
    smt: bool = True
    memory: str = "auto"
    nics: bool = False
    report: bool = False


START_TIMEOUT = 300.0
"""Seconds for all nodes to be ready, if --start_timeout is not given."""


class SupervisionPolicy(NamedTuple):
    """How a job is watched and stopped.

    Attributes:
        connect_timeout: seconds for a host to answer.
        start_timeout: seconds for all nodes to be ready.
        heartbeat_timeout: seconds without a heartbeat after which a node, or the runner, is lost.
        grace: seconds between the stop signal and SIGKILL.
        graceful_term_ok: dsrun exits with 0 if all ranks exit with 0 after a stop signal.
        allow_background: processes that the job leaves behind after a clean end are not stopped.
        end_signals: names of the signals that end the job.
        requeue_codes: exit codes after which a Slurm job is requeued.
        no_requeue_code: the exit code of a job that would fail again if it were retried; 0 for the
            usual one.
        sign_timeout: seconds for the first sign of a node launcher whose session runs.
    """

    connect_timeout: float = 10.0
    start_timeout: float = START_TIMEOUT
    heartbeat_timeout: float = 15.0
    grace: float = 30.0
    graceful_term_ok: bool = False
    allow_background: bool = False
    end_signals: tuple[str, ...] = ("SIGTERM", "SIGINT", "SIGHUP")
    requeue_codes: frozenset[int] = frozenset()
    no_requeue_code: int = 0
    sign_timeout: float = 60.0


def can_fold(prefix: str) -> bool:
    """Return whether this prefix can name several ranks: as `{rank}`, which is 0-3 then."""
    several = dict.fromkeys(PREFIX_FIELDS, "")
    try:
        return prefix.format(**several) != prefix.format(**{**several, "rank": "0-3"})
    except (ValueError, AttributeError, TypeError):
        return False  # a format for numbers, such as {rank:03d}


class Streams(NamedTuple):
    """Streams of the workers in torchrun's numbers: 0 none, 1 stdout, 2 stderr, 3 both.

    Attributes:
        default: the streams of every worker that `by_rank` does not name.
        by_rank: (local rank, streams) of the others.
    """

    default: int = 0
    by_rank: tuple[tuple[int, int], ...] = ()

    def of(self, local_rank: int) -> set[int]:
        """Return the streams of one worker, as file descriptors."""
        return STREAM_NUMBERS[dict(self.by_rank).get(local_rank, self.default)]

    def __str__(self) -> str:
        return ",".join([str(self.default), *(f"{rank}:{one}" for rank, one in self.by_rank)])


class OutputPolicy(NamedTuple):
    """Where the output of a job goes, and how it is printed.

    Attributes:
        prefix: the text before every line, with fields such as {rank}.
        redirects: streams that go to log files only.
        tee: streams that go to the console and to log files.
        console_ranks: only the output of these ranks is printed; empty for all.
        local_ranks: only the output of these local ranks is printed; empty for all.
        log_dir: the folder of the log files on each node; "" for none.
        log_private: each node writes its log files to a new temporary folder.
        log_layout: how log files are named: `dsrun` or `torchrun`.
        log_part: the folder of these log files in that of the job; "" for that itself.
        logs_specs: torch's entry point that names the log files, and its arguments; empty if
            dsrun names them.
        fold: whether the same line of several ranks is printed once: `auto` (on a terminal, if the
            prefix can name several ranks), `always` or `never`.
        color: when lines are coloured: `auto`, `always` or `never`.
        level: the lowest level of dsrun's own lines that is printed.
        stdin: rank 0 reads the standard input of dsrun.
        report_file: the file to write the job's result to; None for none.
    """

    prefix: str = "{host}:{rank}| "
    redirects: Streams = Streams()
    tee: Streams = Streams()
    console_ranks: frozenset[int] = frozenset()
    local_ranks: frozenset[int] = frozenset()
    log_dir: str = ""
    log_private: bool = False
    log_layout: str = "dsrun"
    log_part: str = ""
    logs_specs: tuple[str, ...] = ()
    fold: str = "auto"
    color: str = "auto"
    level: str = "info"
    stdin: bool = False
    report_file: str | None = None


class CheckPolicy(NamedTuple):
    """What is checked before workers start on a node.

    Attributes:
        quick: the facts of all nodes are compared before the start.
        strict: what would be a warning ends the start.
        health_command: a shell command that must succeed on a node; "" for none.
        health_timeout: seconds that this command may take.
        least: the fewest nodes to start with, without those that fail or cannot be reached; None if
            all are needed, or an elastic job's own limit counts alone.
    """

    quick: bool = True
    strict: bool = False
    health_command: str = ""
    health_timeout: float = 60.0
    least: int | None = None


class Rule(NamedTuple):
    """Lines that have to appear, numbers in them, and what follows otherwise.

    Attributes:
        name: what messages call it.
        expect: the regular expression of such a line, as Python writes it.
        within: seconds from the start of the workers to the first such line; 0 for as `every`.
        every: seconds from one such line to the next; 0 for any time.
        finite: the name or number of a group, a number that must be finite; "" for none.
        falls: the name or number of a group, a number that must fall; "" for none.
        over: the number of such lines of one rank after which it must have reached a new low.
        ranks: the ranks whose lines count; empty for all.
        then: what follows if it is broken, one of `ALERT_ACTIONS`.
    """

    name: str
    expect: str
    within: float = 0.0
    every: float = 0.0
    finite: str = ""
    falls: str = ""
    over: int = 0
    ranks: frozenset[int] = frozenset()
    then: str = "report"


class WatchPolicy(NamedTuple):
    """What is watched while a job runs, and what follows.

    Attributes:
        hang_timeout: seconds without any work on the odd rank after which a job hangs; 0 for never.
        on_hang: what follows from a hang, one of `ALERT_ACTIONS`.
        rules: rules on what the workers print.
        fruitless_rounds: how many rounds without progress in a row end the job; 0 for none.
        checkpoints: a pattern of files as seen by the runner, a new one of which is progress; ""
            for none.
        slow: whether to warn of ranks and links for which the others wait.
        hook: whether workers that run Python get ready to say where they are in their code.
    """

    hang_timeout: float = 300.0
    on_hang: str = "report"
    rules: tuple[Rule, ...] = ()
    fruitless_rounds: int = 0
    checkpoints: str = ""
    slow: bool = False
    hook: bool = True

    @property
    def sample(self) -> float:
        """Seconds after which nodes report again what their workers do; 0.0 for never."""
        wanted = [min(SAMPLE, self.hang_timeout / 10)] if self.hang_timeout else []
        wanted += [SLOW_SAMPLE] if self.slow else []
        return max(LEAST_SAMPLE, min(wanted)) if wanted else 0.0


class HookPolicy(NamedTuple):
    """What is told about a running job to other programs.

    Attributes:
        metrics_file: the file that metrics are written to, as an absolute path; None for none.
        on_event: a shell command that is run for every event of the job; "" for none.
        folder: where the shell command runs, as an absolute path; / without one.
    """

    metrics_file: str | None = None
    on_event: str = ""
    folder: str = "/"


class DebugPolicy(NamedTuple):
    """Which workers start under a debugger.

    Attributes:
        ranks: their ranks; empty for all.
        wait: whether they wait for an editor before the first line of their program.
        file: the launch.json that gets a configuration for each of them, "" for none.
    """

    ranks: frozenset[int] = frozenset()
    wait: bool = True
    file: str = ""

    def has(self, rank: int) -> bool:
        """Return whether this rank is one of them."""
        return not self.ranks or rank in self.ranks


class ElasticPolicy(NamedTuple):
    """How far an elastic job may shrink, grow and fail; times in seconds.

    Attributes:
        least: the smallest number of nodes in a round.
        most: the largest number of nodes in a round; 1073741824 if only the hosts limit it.
        restarts: how often workers may be restarted after a failure.
        window: seconds within which `restarts` are counted; 0 for the whole job.
        uptime: seconds that a round must have run for its failure to be followed by a restart.
        final: exit codes of a worker after which there is no restart; 128 + N for signal N.
        wait: seconds to wait for more nodes when there are too few.
        cool: seconds for which a node is excluded after consecutive failures began there; 0 for
            never.
        notice: seconds between the notice of a change that can wait and the change.
        patience: seconds for the nodes of a broken round to be ready again.
        gain_delay: seconds after the start of a round for which nodes that could join wait, unless
            one of its workers prints something before; 0 for not at all.
        notice_by: how the workers are notified of a change: a signal's name, or a file's path; ""
            for not at all.
        agent: what starts and stops the workers on each node: `dsrun` (the node launcher) or
            `torch` (torch's elastic agent).
        restart_on: classes of failures (`FailureClass`) that lead to a restart; empty for all.
    """

    least: int
    most: int
    restarts: int
    window: float = 0.0
    uptime: float = 0.0
    final: frozenset[int] = frozenset()
    wait: float = 0.0
    cool: float = 0.0
    notice: float = 0.0
    patience: float = 60.0
    notice_by: str = ""
    gain_delay: float = 0.0
    agent: str = "dsrun"
    restart_on: frozenset[str] = frozenset()


POLICIES = (
    *(WorkerPolicy, BindingPolicy, SupervisionPolicy, OutputPolicy, CheckPolicy, WatchPolicy),
    *(HookPolicy, DebugPolicy, ElasticPolicy, Streams, Rule),
)
"""All of them, and what they are made of."""
