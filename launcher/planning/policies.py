"""Make the policies of a job from the options. Pure, except for the checks of `--requeue_on`."""

from __future__ import annotations

import os

from ..common import executable, output_file, signals
from ..common.errors import UsageError, conflict
from ..resources.ranges import parse_ranks
from ..specs.backend import DialIn
from ..specs.host import PRIVATE
from ..specs.policies import (
    PREFIX_FIELDS,
    STREAM_NUMBERS,
    OutputPolicy,
    Streams,
    SupervisionPolicy,
    WorkerPolicy,
    can_fold,
)
from ..specs.rendezvous import UNNAMED
from .folders import from_here
from .shape import has_own_logs, has_private_logs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..cli.options import Options
    from ..specs.plan import Plan


def supervision_policy(options: Options, environ: Mapping[str, str]) -> SupervisionPolicy:
    """Return the policy for watching and stopping a job.

    Raises:
        UsageError: a signal or an exit code is invalid, or this job cannot be requeued.
    """
    names = tuple(options.signals_to_handle.split(","))
    for name in names:
        signals.parse("--signals_to_handle", name)
    typed = options.start_timeout
    waits = {} if typed is None else {"start_timeout": typed, "sign_timeout": typed}
    return SupervisionPolicy(
        **options.policy("supervision") | waits,
        end_signals=names,
        requeue_codes=_requeue_codes(options, environ) if options.requeue_on else frozenset(),
        no_requeue_code=options.no_requeue_code or 0,
    )


def _requeue_codes(options: Options, environ: Mapping[str, str]) -> frozenset[int]:
    from ..common.exit_codes import exit_codes

    codes = exit_codes("--requeue_on", options.requeue_on)
    if "SLURM_JOB_ID" not in environ:
        raise UsageError("--requeue_on: only inside a Slurm job (SLURM_JOB_ID is not set)")
    if not executable.find("scontrol"):
        raise UsageError("--requeue_on: needs `scontrol`, which is not on PATH")
    if options.no_requeue_code in codes:
        raise conflict(
            f"--requeue_on {options.requeue_on}", f"--no_requeue_code {options.no_requeue_code}"
        )
    return frozenset(codes)


def report_file(options: Options, environ: Mapping[str, str]) -> str | None:
    """Return the path of the report; None for no report.

    A Slurm job that was requeued, by dsrun or otherwise, runs its command again: the report of
    an earlier attempt is kept. Source: sbatch(1), SLURM_RESTART_COUNT.
    """
    path, restarts = options.report_file, environ.get("SLURM_RESTART_COUNT", "0")
    requeued = restarts.isdecimal() and int(restarts) > 0
    if path is None or not requeued or not output_file.has_content(path):
        return path
    stem, ending = os.path.splitext(path)
    return f"{stem}.restart{restarts}{ending}"


def output_policy(options: Options) -> OutputPolicy:
    """Return the policy for printing and storing output.

    Raises:
        UsageError: an option about output is invalid.
    """
    report = report_file(options, os.environ)
    own_logs = has_own_logs(options)
    _check_prefix(options.prefix)
    policy = OutputPolicy(
        **{**options.policy("output"), "report_file": report},
        redirects=_streams("--redirects", options.redirects),
        tee=_streams("--tee", options.tee),
        console_ranks=parse_ranks("--console_ranks", options.console_ranks),
        local_ranks=parse_ranks("--local_ranks_filter", options.local_ranks_filter),
        log_dir=options.log_dir if own_logs else "",
        log_private=has_private_logs(options),
        log_layout=options.log_layout or "dsrun",
        fold=_fold(options),
        level="error" if options.quiet else options.log_level,
        stdin=options.stdin == "rank0",
    )
    return policy if own_logs else policy._replace(logs_specs=_logs_specs(options, policy))


def _logs_specs(options: Options, policy: OutputPolicy) -> tuple[str, ...]:
    """Return the arguments of --logs_specs: its name, and the values for the LogsSpecs."""
    ranks = ",".join(map(str, policy.local_ranks))
    return options.logs_specs, options.log_dir, options.redirects, options.tee, ranks


def _streams(where: str, text: str) -> Streams:
    """Parse torchrun's stream numbers: `3`, or `0:1,1:3` by local rank."""
    default, by_rank = 0, {}
    try:
        for item in text.split(","):
            rank, colon, number = item.rpartition(":")
            if int(number) not in STREAM_NUMBERS:
                raise ValueError
            if colon:
                by_rank[int(rank)] = int(number)
            else:
                default = int(number)
    except ValueError:
        raise UsageError(
            f"{where} {text!r}: expected 0, 1, 2 or 3, or such numbers by local rank: 0:1,1:3"
        ) from None
    return Streams(default, tuple(by_rank.items()))


def _check_prefix(form: str) -> None:
    try:
        form.format(**PREFIX_FIELDS)
    except (KeyError, ValueError, IndexError, AttributeError, TypeError):
        known = " ".join(f"{{{name}}}" for name in PREFIX_FIELDS)
        raise UsageError(f"--prefix {form!r}: expected text with any of {known}") from None


def _fold(options: Options) -> str:
    if options.fold and options.no_fold:
        raise conflict("--fold", "--no_fold")
    if options.fold and not can_fold(options.prefix):
        raise UsageError(
            f"--fold: expected {{rank}} in --prefix, without a format for numbers,"
            f" not {options.prefix!r}"
        )
    return "always" if options.fold else "never" if options.no_fold else "auto"


def worker_policy(options: Options, plan: Plan) -> WorkerPolicy:
    """Return the policy for starting workers, without program, folder and variables.

    Raises:
        UsageError: the current folder no longer exists.
    """
    named = options.nproc_per_node in {"gpu", "xpu", *PRIVATE}
    return WorkerPolicy(
        venv_script=from_here(options.venv_script) if options.venv_script else "",
        **options.policy("workers"),
        run_id="" if options.rdzv_id == UNNAMED else options.rdzv_id,
        expects_devices=_expects_devices(options, plan),
        needs_devices=f"--nproc_per_node {options.nproc_per_node}" if named else "",
    )


def _expects_devices(options: Options, plan: Plan) -> bool:
    """Return whether accelerators are requested, by a number or by default."""
    counted = any(node.slots is None for node in plan.nodes) and options.nproc_per_node != "cpu"
    wanted = options.num_gpus is not None or (counted and not plan.program.no_python)
    return wanted and options.accelerator is None


def dial_in(options: Options, plan: Plan) -> DialIn:
    """Return the settings with which node launchers that dial in reach the runner."""
    return DialIn(
        **options.policy("dial_in"),
        first=options.master_addr or plan.nodes[0].host.name,
        node_rank=options.node_rank or 0,
    )
