"""Read torchrun's rendezvous options: dsrun brings the nodes together, or torch's rendezvous does.

`--rdzv_backend static` means dsrun itself. With any other backend, one command runs on every node,
each dsrun starts the workers of its machine, and torch's agent there meets the agents on the other
nodes, which may be torchrun's (torch 2.13, `torch/distributed/run.py`).
"""

from __future__ import annotations

from ..backends import BACKENDS, LOCAL
from ..common.errors import UsageError, conflict
from ..specs.rendezvous import Rendezvous
from .launcher import is_auto
from .shape import bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..cli.options import Options
    from ..cli.parser import Command

OWN = "static"

_TIMEOUT = "timeout"
_TORCHS_TIMEOUT = "900"
"""torchrun's default for `timeout` in seconds (launcher/api.py)."""

_NODES = "this command runs on every node, and torch's rendezvous finds the nodes"
_ROUNDS = "torch's rendezvous forms the rounds; it accepts only --nnodes MIN:MAX and --max_restarts"
_RANKS = "torch's rendezvous assigns the ranks and decides how many there are"
_QUEUES = "every node runs its own dsrun, with its own queues"
_CONTRADICTIONS = {
    "shard_queue": _QUEUES,
    **dict.fromkeys(("hostfile", "host", "include", "exclude", "num_nodes"), _NODES),
    **dict.fromkeys(("force_multi", "no_ssh", "rank_per_task"), _NODES),
    **dict.fromkeys(("rank_order", "segment"), _RANKS),
    **dict.fromkeys(("elastic_training", "min_elastic_nodes", "max_elastic_nodes"), _ROUNDS),
    "exclude_unhealthy": _ROUNDS,
    **dict.fromkeys(("restart_window", "min_uptime", "no_restart_codes"), _ROUNDS),
    **dict.fromkeys(("min_wait", "cool_down", "gain_delay", "change_notice"), _ROUNDS),
    **dict.fromkeys(("watch_hostfile", "host_discovery_script"), _NODES),
    **dict.fromkeys(("elastic_config", "stdin"), _RANKS),
}
"""Options that cannot be used with torch's rendezvous, and why."""


def apply(command: Command) -> Command:
    """Return the command with the rendezvous options applied.

    Raises:
        UsageError: a rendezvous option is invalid, or conflicts with another option.
    """
    options = command.options
    if options.standalone:
        return command
    conf = _settings(options.rdzv_conf)
    if not options.rdzv_backend:
        raise UsageError(
            "--rdzv_backend '': expected static, c10d, etcd, etcd-v2 or a plugin's name"
        )
    if options.rdzv_backend == OWN:
        waits = {} if "start_timeout" in command.given else _start_timeout(conf)
        return command._replace(options=options.changed(**waits, **_master(options)))
    from ..features.elastic import plan_rendezvous_backend as rendezvous_backend

    rendezvous_backend.check(command)
    _check(options)
    _check_endpoint(options)
    return command._replace(
        options=_of_one_machine(options),
        rendezvous=_rendezvous(options, conf),
        joined=f"this machine, others: --rdzv_backend {options.rdzv_backend}",
    )


def _settings(text: str) -> dict[str, str]:
    """Return the settings of --rdzv_conf, `NAME=VALUE,...`."""
    settings = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, _, value = map(str.strip, item.partition("="))
        if not name or not value:
            raise UsageError(f"--rdzv_conf {item!r}: expected NAME=VALUE, joined by commas")
        settings[name] = value
    return settings


def _start_timeout(conf: Mapping[str, str]) -> dict[str, float]:
    """Return --start_timeout from torchrun's `timeout`, the only setting of `static`."""
    if _TIMEOUT not in conf:
        return {}
    if not conf[_TIMEOUT].isdecimal():
        raise UsageError(f"--rdzv_conf timeout={conf[_TIMEOUT]}: expected a number of seconds")
    return {"start_timeout": float(conf[_TIMEOUT])}


def _master(options: Options) -> dict[str, str | int]:
    """Return the master's address and port from --rdzv_endpoint."""
    from ..resources.cluster_environment import endpoint

    master: dict[str, str | int] = {}
    address, port = endpoint("--rdzv_endpoint", options.rdzv_endpoint)
    for name, value in (("master_addr", address), ("master_port", port)):
        given = getattr(options, name)
        if value is None:
            continue
        if given not in {None, value}:
            raise conflict(f"--rdzv_endpoint {options.rdzv_endpoint}", f"--{name} {given}")
        master[name] = value
    return master


def _check(options: Options) -> None:
    from ..cli.options import all_options
    from ..features.elastic.plan import elastic_agent

    elastic_agent(options, options.rdzv_backend)
    for name, why in _CONTRADICTIONS.items():
        if getattr(options, name) != all_options()[name].default:
            raise UsageError(f"--{name} and --rdzv_backend {options.rdzv_backend}: {why}")
    named = BACKENDS.get(options.launcher.lower())
    if not is_auto(options) and not (named and named.this_machine):
        raise UsageError(
            f"--launcher {options.launcher} and --rdzv_backend {options.rdzv_backend}: {_NODES}"
        )


def _check_endpoint(options: Options) -> None:
    """Check that several nodes can find each other."""
    if bounds(options.nnodes or "1")[1] == 1:
        return
    if options.rdzv_backend == "c10d" and not options.rdzv_endpoint:
        raise UsageError(
            f"--rdzv_backend c10d --nnodes {options.nnodes}: expected --rdzv_endpoint HOST:PORT,"
            " one of the nodes and the same on all of them, such as n1:29400; without it each node"
            " waits for the others at its own address"
        )
    if options.rdzv_endpoint.endswith(":0"):
        raise UsageError(
            f"--rdzv_endpoint {options.rdzv_endpoint}: port 0 works for one node only, as other"
            " nodes cannot know which port is chosen; give a port"
        )


def _of_one_machine(options: Options) -> Options:
    """Return the options for this machine's part, without those that go to torch's rendezvous.

    torchrun, too, ignores --node_rank and --master_* if the backend decides on them.
    """
    return options.changed(
        launcher=LOCAL,
        nnodes=None,
        node_rank=None,
        master_addr=None,
        master_port=None,
        local_addr=None,
        max_restarts=None,
    )


def _rendezvous(options: Options, conf: dict[str, str]) -> Rendezvous:
    least, most = bounds(options.nnodes or "1")
    return Rendezvous(
        backend=options.rdzv_backend,
        endpoint=options.rdzv_endpoint,
        run_id=options.rdzv_id,
        least=least,
        most=most,
        conf={_TIMEOUT: _TORCHS_TIMEOUT, **conf},
        local_addr=options.local_addr or "",
        restarts=options.max_restarts or 0,
        interval=options.monitor_interval,
    )
