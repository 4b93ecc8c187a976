"""The policies of a job: how its workers are started, bound, watched and stopped.

Each is a part of `JobSpec` and of the JOB message. `Option.fills` names the fields that options
fill without changing the value; planning makes the others.
"""

from __future__ import annotations

from ..common.records import NamedTuple

STREAM_NUMBERS = {0: set[int](), 1: {1}, 2: {2}, 3: {1, 2}}
"""torchrun's numbers for streams, as in --redirects 3."""

PREFIX_FIELDS = {"host": "", "rank": 0, "local_rank": 0, "node_rank": 0, "job": "", "role": ""}
"""Fields of `OutputPolicy.prefix`, each with an example of its type."""

EXPECT = "--expect"
"""The name of the rule that the command line defines."""

ALERT_ACTIONS = ("report", "stop", "restart")
"""Reactions to a hang or a broken rule: a line, the end of the job, another round."""

SAMPLE, SLOW_SAMPLE, LEAST_SAMPLE = 2.0, 1.0, 0.2
"""Seconds between samples of workers' activity: usually, to find slow ranks, and at least."""


class WorkerPolicy(NamedTuple):
    """The start of workers, apart from program, folder and variables.

    Attributes:
        venv_script: a shell file to source before the workers, as an absolute path, or "".
        role: the workers' ROLE_NAME.
        run_id: the workers' TORCHELASTIC_RUN_ID; "" for the job's id.
        one_device: whether each worker sees one device only, as LOCAL_RANK 0.
        shard_queue: whether workers can take shards of data from the runner.
        preload: modules that one process on each node imports, from which the workers are forked.
        warm: whether such a fork waits for the next round, for each worker of an elastic job.
        expects_devices: whether accelerators are expected; a line tells the user if they are
            missing.
        needs_devices: the option that requires accelerators, or "".
        ends: the last arguments of workers on node 0, and on other nodes, with placeholders to fill
            in; () to leave all words unchanged.
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
    ends: tuple[tuple[str, ...], ...] = ()


class BindingPolicy(NamedTuple):
    """The binding of a node's workers.

    Attributes:
        bind_to: the cores that a worker gets: `none`, `core`, `numa`, `socket`, `exclusive` or
            `core-complex`.
        core_list: the only cpus to use, as in `1,3-5`; "" for all allowed ones.
        smt: whether all hardware threads of a core are used, not only the first.
        memory: the memory policy: `auto`, `bind`, `preferred`, `interleave` or `none`.
        nics: whether variables name the nearest network cards for each worker.
        report: whether the bindings of the workers are reported once they run.
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
    """The supervision and the stop of a job.

    Attributes:
        connect_timeout: seconds for a host to answer.
        start_timeout: seconds for all nodes to be ready.
        heartbeat_timeout: seconds without a heartbeat after which a node, or the runner, is lost.
        grace: seconds between the stop signal and SIGKILL.
        graceful_term_ok: whether dsrun exits with 0 if all ranks exit with 0 after a stop signal.
        allow_background: whether processes that the job leaves behind after a clean end may live
            on.
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
    """Return whether this prefix can name several ranks, with a text such as 0-3 for {rank}."""
    several = dict.fromkeys(PREFIX_FIELDS, "")
    try:
        return prefix.format(**several) != prefix.format(**{**several, "rank": "0-3"})
    except (ValueError, AttributeError, TypeError):
        return False  # a format for numbers, such as {rank:03d}


class Streams(NamedTuple):
    """Streams of the workers in torchrun's numbers: 0 none, 1 stdout, 2 stderr, 3 both.

    Attributes:
        default: the streams of every worker that `by_rank` does not name.
        by_rank: (local rank, streams) of the other workers.
    """

    default: int = 0
    by_rank: tuple[tuple[int, int], ...] = ()

    def of(self, local_rank: int) -> set[int]:
        """Return the streams of one worker, as file descriptors."""
        return STREAM_NUMBERS[dict(self.by_rank).get(local_rank, self.default)]

    def __str__(self) -> str:
        return ",".join([str(self.default), *(f"{rank}:{one}" for rank, one in self.by_rank)])


class OutputPolicy(NamedTuple):
    """The destinations of a job's output, and its printed form.

    Attributes:
        prefix: the text before every line, with fields such as {rank}.
        redirects: streams that go to log files only.
        tee: streams that go to the console and to log files.
        console_ranks: only the output of these ranks is printed; empty for all.
        local_ranks: only the output of these local ranks is printed; empty for all.
        log_dir: the folder of the log files on each node, or "".
        log_private: whether each node writes its log files to a new temporary folder.
        log_layout: the naming of log files: `dsrun` or `torchrun`.
        log_part: the subfolder of these log files in the job's folder; "" for that folder itself.
        logs_specs: torch's entry point that names the log files, and its arguments; empty if dsrun
            names them.
        fold: whether equal lines of several ranks are printed once: `auto` (on a terminal, if the
            prefix can name several ranks), `always` or `never`.
        color: when lines are coloured: `auto`, `always` or `never`.
        level: the lowest level of dsrun's own lines that is printed.
        stdin: whether rank 0 reads the standard input of dsrun.
        report_file: the file to write the job's result to, or None.
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
    """Checks before workers start on a node.

    Attributes:
        quick: whether the facts of all nodes are compared before the start.
        strict: whether findings that would only be warnings end the start.
        health_command: a shell command that must succeed on a node, or "".
        health_timeout: seconds that this command may take.
        least: the smallest number of nodes to start with, without those that fail or cannot be
            reached; None if all are needed, or if only an elastic job's own limit counts.
        setup: a shell command that is run once before the job on each node, or for all nodes that
            share its folder, or "".
        setup_if: files whose contents decide whether it is run again.
    """

    quick: bool = True
    strict: bool = False
    health_command: str = ""
    health_timeout: float = 60.0
    least: int | None = None
    setup: str = ""
    setup_if: tuple[str, ...] = ()


class Rule(NamedTuple):
    """A rule on the workers' output: lines that must appear, numbers in them, and a reaction.

    Attributes:
        name: the name of the rule in messages.
        expect: a Python regular expression for such a line.
        within: seconds from the start of the workers to the first such line; 0 to use `every`.
        every: seconds from one such line to the next; 0 for any time.
        finite: the name or number of a group, a number that must be finite, or "".
        falls: the name or number of a group, a number that must fall, or "".
        over: the number of such lines of one rank within which the number must reach a new low.
        ranks: the ranks whose lines count; empty for all.
        then: the reaction if the rule is broken, one of `ALERT_ACTIONS`.
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
    """The watches on a running job, and their reactions.

    Attributes:
        hang_timeout: seconds without any work on the odd rank after which a job hangs; 0 for never.
        on_hang: the reaction to a hang, one of `ALERT_ACTIONS`.
        rules: rules on the workers' output.
        fruitless_rounds: the number of consecutive rounds without progress that end the job; 0 for
            no such end.
        checkpoints: a pattern of files as seen by the runner; a new file is progress, or "".
        slow: whether to warn of ranks and links that slow down the others.
        hook: whether workers that run Python prepare to report where they are in their code.
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
        """Seconds between reports of the nodes on their workers' activity; 0.0 for no reports."""
        wanted = [min(SAMPLE, self.hang_timeout / 10)] if self.hang_timeout else []
        wanted += [SLOW_SAMPLE] if self.slow else []
        return max(LEAST_SAMPLE, min(wanted)) if wanted else 0.0


class HookPolicy(NamedTuple):
    """Reports on a running job to other programs.

    Attributes:
        metrics_file: the file that metrics are written to, as an absolute path, or None.
        on_event: a shell command that is run for every event of the job, or "".
        folder: the folder that the shell command runs in, as an absolute path; / if there is no
            command.
    """

    metrics_file: str | None = None
    on_event: str = ""
    folder: str = "/"


class DebugPolicy(NamedTuple):
    """The workers that start under a debugger.

    Attributes:
        ranks: the ranks of these workers; empty for all.
        wait: whether they wait for an editor before the first line of their program.
        file: the launch.json that gets a configuration for each of them, or "".
    """

    ranks: frozenset[int] = frozenset()
    wait: bool = True
    file: str = ""

    def has(self, rank: int) -> bool:
        """Return whether this rank starts under a debugger."""
        return not self.ranks or rank in self.ranks


class ElasticPolicy(NamedTuple):
    """The limits within which an elastic job may shrink, grow and fail; times in seconds.

    Attributes:
        least: the smallest number of nodes in a round.
        most: the largest number of nodes in a round; 1073741824 if only the hosts limit it.
        restarts: the maximum number of restarts after failures.
        window: seconds within which `restarts` are counted; 0 for the whole job.
        uptime: seconds that a round must have run for its failure to be followed by a restart.
        final: exit codes of a worker after which there is no restart; 128 + N for signal N.
        wait: seconds to wait for more nodes when there are too few.
        cool: seconds for which a node is excluded after consecutive failures began there; 0 for
            never.
        notice: seconds between the notice of a change that can wait and the change.
        patience: seconds for the nodes of a broken round to be ready again.
        gain_delay: seconds after the start of a round for which nodes that could join wait, unless
            one of its workers prints something earlier; 0 for no wait.
        notice_by: how the workers are notified of a change: a signal's name, or a file's path; ""
            for no notice.
        agent: the agent that starts and stops the workers on each node: `dsrun` (the node launcher)
            or `torch` (torch's elastic agent).
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
"""All policies, and the records in them."""
