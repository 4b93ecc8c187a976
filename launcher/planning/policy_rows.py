"""The policies of a job in words, one row each, for the table of `--dry_run`. Pure."""

from __future__ import annotations

import shlex

from ..backends import BACKENDS
from ..common.wording import counted, either
from ..resources.ranges import show_slots
from ..specs.environment import JAX
from ..specs.policies import WatchPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..specs.backend import BackendSettings
    from ..specs.job import JobSpec
    from ..specs.policies import (
        CheckPolicy,
        DebugPolicy,
        ElasticPolicy,
        HookPolicy,
        OutputPolicy,
        Streams,
        SupervisionPolicy,
    )
    from ..specs.rendezvous import Rendezvous
    from ..specs.sync import SyncSpec

FOLDS = {"always": "identical lines of several ranks once", "never": "every line of every rank"}

STREAMS = {1: "stdout", 2: "stderr", 3: "stdout and stderr"}

SHOWN = 5
"""Most world sizes, and most hosts with their own core lists, in a row."""


def rows(spec: JobSpec) -> list[tuple[str, str]]:
    """Return (name, text) of every policy that applies."""
    every = (
        ("reach", _reach(spec.backend)),
        ("setup", _setup(spec)),
        ("binding", _binding(spec)),
        ("batches", _batches(spec)),
        ("elastic", _elastic(spec.elastic) if spec.elastic else _torch(spec.plan.rendezvous)),
        ("sync", _sync(spec.sync)),
        ("updates", _updates(spec)),
        ("control", _control(spec)),
        ("checks", _checks(spec.checks)),
        ("watch", _watch(spec.watch)),
        ("timeouts", _timeouts(spec.supervision)),
        ("stop", _stop(spec.supervision)),
        ("requeue", _requeue(spec.supervision)),
        ("output", _output(spec.output)),
        ("logs", _logs(spec.output)),
        ("hooks", _hooks(spec.hooks)),
        ("debug", _debug(spec.debug)),
        ("report", (spec.output.report_file,) if spec.output.report_file else ()),
    )
    texts = [(name, "; ".join(filter(None, parts))) for name, parts in every]
    return [(name, text) for name, text in texts if text]


def _reach(settings: BackendSettings) -> Iterator[str]:
    yield "this machine is reached through the launcher, too" if settings.force_multi else ""
    new = settings.accept_new_host_keys
    yield "new host keys are accepted" if new else ""
    yield "one node launcher per rank" if settings.rank_per_task else ""


def _setup(spec: JobSpec) -> Iterator[str]:
    workers = spec.workers
    yield f"venv script {workers.venv_script}" if workers.venv_script else ""
    yield f"role {workers.role}" if workers.role != "default" else ""
    yield f"run id {workers.run_id}" if workers.run_id else ""
    yield from _words(workers.ends)
    yield "each worker has the variables of jax" if JAX in spec.travel.values else ""
    yield "each rank sees only its own device" if workers.one_device else ""
    yield "shard queues" if workers.shard_queue else ""
    imports = ", ".join(workers.preload)
    yield f"workers are forked from a process that has imported {imports}" if imports else ""
    yield "forks wait for the next round" if workers.warm else ""


def _words(ends: Sequence[tuple[str, ...]]) -> Iterator[str]:
    if ends:
        yield "placeholders are filled in"
        places = zip(ends, ("on node 0", "on the other nodes"), strict=True)
        yield from (f"{where}: {shlex.join(words)}" for words, where in places if words)


def _binding(spec: JobSpec) -> Iterator[str]:
    policy = spec.binding
    if policy.bind_to != "none":
        yield f"to {policy.bind_to}"
        yield f"memory {policy.memory}"
        yield f"cpus {policy.core_list}" if policy.core_list else ""
        more = ", ..." if len(spec.core_lists) > SHOWN else ""
        lists = ", ".join(f"{host}: {cpus}" for host, cpus in spec.core_lists[:SHOWN])
        yield f"cpus of {lists}{more}" if lists else ""
        yield "" if policy.smt else "the first hardware thread of each core"
    yield "near NICs" if policy.nics else ""
    yield "reported" if policy.report else ""


def _batches(spec: JobSpec) -> Iterator[str]:
    if spec.batches is not None:
        valid = spec.batches.valid
        sizes = ", ".join(map(str, valid[:SHOWN])) + (", ..." if len(valid) > SHOWN else "")
        yield f"one batch of {spec.batches.batch} for {counted(len(valid), 'world size')}: {sizes}"


def _elastic(policy: ElasticPolicy) -> Iterator[str]:
    unbounded = policy.most >= 1 << 30
    most = "or more" if unbounded else f"to {policy.most}"
    least = str(policy.least) if policy.least == policy.most else f"{policy.least} {most}"
    yield f"{least} node{'' if least == '1' else 's'}"
    window = f" within {policy.window:g} s" if policy.window else ""
    yield f"{counted(policy.restarts, 'restart')}{window}"
    yield f"no restart after a round shorter than {policy.uptime:g} s" if policy.uptime else ""
    codes = either([str(code) for code in sorted(policy.final)]) if policy.final else ""
    yield f"no restart after exit code {codes}" if codes else ""
    classes = ", ".join(sorted(policy.restart_on))
    yield f"restarts only after failures of class {classes}" if classes else ""
    yield f"waits {policy.wait:g} s for enough nodes" if policy.wait else ""
    cool = f"a node is excluded for {policy.cool:g} s after 3 consecutive failures"
    yield cool if policy.cool else ""
    gain = f"new nodes wait for output from a worker, for at most {policy.gain_delay:g} s"
    yield gain if policy.gain_delay else ""
    notice = f"{policy.notice_by} {policy.notice:g} s before a change"
    yield notice if policy.notice_by else ""
    yield f"{policy.agent}'s agent on each node"


def _torch(rendezvous: Rendezvous | None) -> Iterator[str]:
    if rendezvous is not None:
        yield f"at most {counted(rendezvous.restarts, 'restart')}, by torch's agent"


def _sync(policy: SyncSpec | None) -> Iterator[str]:
    if policy is not None:
        yield f"{policy.source} to nodes that do not share it, at most {policy.limit} bytes"


def _updates(spec: JobSpec) -> Iterator[str]:
    if spec.updates is not None:
        what = "program" if spec.updates.script else "hostfile"
        yield f"hosts are added and removed as listed by {what} {spec.updates.name}"


def _control(spec: JobSpec) -> Iterator[str]:
    dial, backend = spec.dial_in, BACKENDS[spec.plan.launcher]
    if backend.joins:
        yield f"nodes dial {dial.first}:{dial.known_port(spec.plan.master_port)}"
        yield f"secret from {dial.token_file or 'DSRUN_TOKEN'}"
    elif dial.port:
        yield f"nodes dial in on port {dial.port}"


def _checks(policy: CheckPolicy) -> Iterator[str]:
    yield "" if policy.quick else "no quick check"
    yield "warnings are errors" if policy.strict else ""
    command, limit = policy.health_command, policy.health_timeout
    yield f"{command!r} must succeed on each node within {limit:g} s" if command else ""
    files = f", again only if {', '.join(policy.setup_if)} has changed" if policy.setup_if else ""
    yield f"{policy.setup!r} is run once before the job{files}" if policy.setup else ""
    least = policy.least
    yield f"starts without nodes that fail, if {least} or more remain" if least else ""


def _watch(policy: WatchPolicy) -> Iterator[str]:
    after, then = f"a hang of {policy.hang_timeout:g} s", policy.on_hang
    known = {"report": "is reported", "stop": "ends the job", "restart": "restarts the workers"}
    if not policy.hang_timeout:
        yield "no hang detection"
    elif (policy.hang_timeout, then) != (WatchPolicy().hang_timeout, "report"):
        yield f"{after} {known[then]}"
    for rule in policy.rules:
        yield f"{rule.name} {rule.expect!r}: if broken, it {known[rule.then]}"
    if policy.fruitless_rounds:
        yield f"{policy.fruitless_rounds} rounds without progress end the job"
        yield f"a new {policy.checkpoints} is progress" if policy.checkpoints else ""
    yield "slow ranks are reported" if policy.slow else ""
    yield "" if policy.hook else "workers run nothing before their own program"


def _hooks(policy: HookPolicy) -> Iterator[str]:
    yield f"metrics in {policy.metrics_file}" if policy.metrics_file else ""
    yield f"{policy.on_event!r} for every event" if policy.on_event else ""


def _debug(policy: DebugPolicy | None) -> Iterator[str]:
    if policy is not None:
        which = f"ranks {show_slots(sorted(policy.ranks))}" if policy.ranks else "all ranks"
        yield f"{which} {'wait for' if policy.wait else 'accept'} a debugger"
        yield f"configurations written to {policy.file}" if policy.file else ""


def _timeouts(policy: SupervisionPolicy) -> Iterator[str]:
    yield f"{policy.connect_timeout:g} s to connect"
    yield f"{policy.start_timeout:g} s to start"
    yield f"{policy.heartbeat_timeout:g} s without a heartbeat"


def _stop(policy: SupervisionPolicy) -> Iterator[str]:
    yield f"on {either([name.strip() for name in policy.end_signals])}"
    yield f"SIGKILL after {policy.grace:g} s"
    yield "exit code 0 if all ranks exit with 0" if policy.graceful_term_ok else ""
    yield "background processes are left alone" if policy.allow_background else ""


def _requeue(policy: SupervisionPolicy) -> Iterator[str]:
    if policy.requeue_codes:
        yield f"after exit code {either([str(code) for code in sorted(policy.requeue_codes)])}"
    if policy.no_requeue_code:
        yield f"exit code {policy.no_requeue_code} if the job would fail again"


def _output(policy: OutputPolicy) -> Iterator[str]:
    yield f"lines prefixed with {policy.prefix!r}" if policy.prefix else "lines without a prefix"
    for name, ranks in (("ranks", policy.console_ranks), ("local ranks", policy.local_ranks)):
        yield f"only {name} {show_slots(sorted(ranks))}" if ranks else ""
    yield FOLDS.get(policy.fold, "")
    yield _streams(policy.redirects, "to log files only")
    yield _streams(policy.tee, "to log files and the console")
    yield f"dsrun's messages from {policy.level} up" if policy.level != "info" else ""
    yield f"colours {policy.color}" if policy.color != "auto" else ""
    yield "rank 0 reads standard input" if policy.stdin else ""


def _streams(streams: Streams, what: str) -> str:
    if streams.by_rank:
        return f"{streams} (local rank: 1 stdout, 2 stderr, 3 both) {what}"
    return f"{STREAMS[streams.default]} {what}" if streams.default else ""


def _logs(policy: OutputPolicy) -> Iterator[str]:
    if policy.logs_specs:
        name, folder, *_ = policy.logs_specs
        yield f"named by {name}" + (f", in {folder}" if folder else "")
    elif policy.log_dir or policy.log_private:
        yield f"in {policy.log_dir}" if policy.log_dir else "in a temporary folder on each node"
        yield f"in the layout of {policy.log_layout}" if policy.log_layout != "dsrun" else ""
