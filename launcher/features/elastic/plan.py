"""Make the elastic policy from the options. Pure."""

from __future__ import annotations

from ...cli.options import all_options
from ...common import signals
from ...common.errors import UsageError, conflict
from ...common.exit_codes import exit_codes
from ...common.wording import counted
from ...planning.hosts import host_filter
from ...planning.inventory import watched
from ...planning.shape import grows, has_own_logs, is_elastic, nodes_range
from ...specs.host_updates import HostUpdates
from ...specs.policies import ElasticPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.options import Options
    from ...specs.job import JobSpec

DEEPSPEED_RESTARTS = 100
"""Default of --max_restarts with `--elastic_training`, as in DeepSpeed (0.19, launch.py)."""

MARGIN = 10.0
"""Seconds beyond the grace for a node to stop its workers; other nodes do not wait longer for
processes that SIGKILL does not end."""


def elastic_agent(options: Options, backend: str = "") -> str:
    """Return the agent that starts the workers on each node, `dsrun` or `torch`.

    Args:
        options: the options of the command line.
        backend: the --rdzv_backend if torch's rendezvous forms the rounds.

    Raises:
        UsageError: dsrun's agent is requested with an option that needs torch's.
    """
    needs = {
        f"--rdzv_backend {backend}": bool(backend),
        f"--logs_specs {options.logs_specs}": not has_own_logs(options),
    }
    flag = next((name for name, needed in needs.items() if needed), "")
    if flag and options.elastic_agent == "dsrun":
        raise UsageError(
            f"--elastic_agent dsrun: {flag} needs torch's agent; leave out one of the two"
        )
    return options.elastic_agent or ("torch" if flag else "dsrun")


def plan(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job that may change as the options say, unless torch's rendezvous decides that.

    Raises:
        UsageError: see `elastic_policy`.
    """
    spec = spec._replace(updates=host_updates(options))
    if spec.plan.rendezvous is not None:
        return spec
    return spec._replace(elastic=elastic_policy(options, len(spec.plan.nodes)))


def host_updates(options: Options) -> HostUpdates | None:
    """Return the list in which an elastic job looks for hosts; None without such a list."""
    if not grows(options):
        return None
    script = options.host_discovery_script or ""
    hostfile = "" if script else watched(options)
    return HostUpdates(script, hostfile, host_filter(options, 0))


def elastic_policy(options: Options, nodes: int) -> ElasticPolicy | None:
    """Return the limits for shrinking, growing and failing on `nodes` nodes; None for a static job.

    Raises:
        UsageError: options conflict, or there are fewer nodes than the minimum.
    """
    if not is_elastic(options):
        _check_static(options)
        return None
    if options.rank_per_task:
        raise UsageError("--rank_per_task: not in an elastic job, as MPI cannot restart ranks")
    if options.stdin != "none":
        raise UsageError(
            f"--stdin {options.stdin}: not in an elastic job, as a restarted rank 0 would miss the"
            " input that was already read"
        )
    least, most = node_limits(options, nodes)
    if (options.max_restarts or 0) < 0:
        raise UsageError(f"--max_restarts: expected 0 or more, not {options.max_restarts}")
    restarts = DEEPSPEED_RESTARTS if options.elastic_training else 0
    notice_by = _notice_by(options)
    return ElasticPolicy(
        least=least,
        most=most,
        restarts=restarts if options.max_restarts is None else options.max_restarts,
        **options.policy("elastic"),
        restart_on=_classes(options.restart_on),
        final=frozenset(exit_codes("--no_restart_codes", options.no_restart_codes)),
        notice=options.change_delay if notice_by else 0.0,
        patience=options.grace + MARGIN,
        notice_by=notice_by,
        agent=elastic_agent(options),
    )


def _classes(text: str) -> frozenset[str]:
    """Return the classes of failures that --restart_on names.

    Raises:
        UsageError: a class is unknown.
    """
    if not text:
        return frozenset()
    from ...specs.verdict import FailureClass

    names = [name.strip() for name in text.lower().split(",")]
    known = [one.value for one in FailureClass]
    for name in names:
        if name not in known:
            raise UsageError(f"--restart_on: expected classes {', '.join(known)}, not {name!r}")
    return frozenset(names)


def _notice_by(options: Options) -> str:
    """Return the notice of a change for the workers: a signal's name, a file's path, or "".

    Raises:
        UsageError: the signal is unknown.
    """
    notice = options.change_notice
    if notice.upper().startswith("SIG") and "/" not in notice:
        return signals.parse("--change_notice", notice).name
    return notice


def _check_static(options: Options) -> None:
    rows = all_options().items()
    names = [name for name, row in rows if row.elastic and getattr(options, name)]
    if names:
        raise UsageError(
            f"--{names[0]}: only in an elastic job; add --elastic_training, --max_restarts N or"
            " --nnodes MIN:MAX"
        )


def node_limits(options: Options, nodes: int) -> tuple[int, int]:
    """Return the smallest and the largest number of nodes in a round, of `nodes`.

    Raises:
        UsageError: there are fewer nodes than the smallest number, or the largest is less than it.
    """
    least, most = _limits(options)
    unbounded = 1 << 30 if grows(options) else nodes
    most = unbounded if most is None else most
    least = (1 if options.elastic_training else min(nodes, most)) if least is None else least
    own = options.min_elastic_nodes
    flag = f"--nnodes {options.nnodes}" if own is None else f"--min_elastic_nodes {own}"
    if least > nodes:
        raise UsageError(
            f"{flag}: the job has only {counted(nodes, 'node')}; add hosts, or lower it"
        )
    if least > most:
        raise UsageError(f"{flag}: is more than --max_elastic_nodes {most}")
    return least, most


def _limits(options: Options) -> tuple[int | None, int | None]:
    deepspeeds = options.min_elastic_nodes, options.max_elastic_nodes
    torchruns = nodes_range(options)
    if torchruns and deepspeeds not in {(None, None), torchruns}:
        least, most = deepspeeds
        flags = [] if least is None else [f"--min_elastic_nodes {least}"]
        flags += [] if most is None else [f"--max_elastic_nodes {most}"]
        raise conflict(f"--nnodes {options.nnodes}", *flags)
    return torchruns or deepspeeds
