"""The table of options: names, types, defaults and valid values of every option of dsrun.

The fields of `Options` are the table: the name of a field is the name of the option, its default
the option's default, and `option(...)` gives the rest. `parser` reads the table, and `help/`
describes every option of it.
"""

from __future__ import annotations

from ..specs.host import MAX_SLOTS
from .option import PORTS, Option, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Options:
    """The value of every option, given or default; immutable.

    Not a dataclass: the module of that name takes longer to import than this whole package.
    """

    def __init__(self, **given: Any) -> None:
        for name, spec in all_options().items():
            object.__setattr__(self, name, given.pop(name, spec.default))
        if given:
            raise TypeError(f"unknown options: {', '.join(given)}")

    def changed(self, **given: Any) -> Options:
        """Return a copy with these options changed."""
        return Options(**{**vars(self), **given})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"options are immutable ({name})")

    hostfile: str | None = option(None, "str", "FILE", also=("-H",), none="")
    host: str | None = option(None, "str", "LIST", separator=",")
    on: str | None = option(None, "str", "NAME")
    on_busy: str = option("wait", "str", "WHAT", choices=("wait", "refuse"))
    watch_hostfile: bool = option(False, "bool")
    host_discovery_script: str | None = option(None, "str", "COMMAND")
    include: str = option("", "str", "SPEC", also=("-i",), separator="@")
    exclude: str = option("", "str", "SPEC", also=("-e",), separator="@")
    num_nodes: int | None = option(
        None, "int", "N", none="-1", valid="1 to the number of hosts (default: all)"
    )
    nnodes: str | None = option(None, "str", "N|MIN:MAX")
    num_gpus: int | None = option(
        None,
        "int",
        "N",
        also=("num_accelerators",),
        none="-1",
        positive=True,
        most=MAX_SLOTS,
        valid=f"1 to {MAX_SLOTS} (default: all slots)",
    )
    nproc_per_node: str | None = option(None, "str", "N")
    standalone: bool = option(False, "bool")
    elastic_config: str | None = option(None, "str", "FILE")

    module: bool = option(False, "bool", also=("-m",))
    no_python: bool = option(False, "bool")
    run_path: bool = option(False, "bool")
    python: str | None = option(None, "str", "PATH")
    workdir: str | None = option(None, "str", "DIR")
    sync: str | None = option(None, "str", "DIR")
    sync_limit: str = option("1GB", "str", "SIZE")
    local_rank: bool = option(False, "bool")
    no_local_rank: bool = option(False, "bool", also=("use_env",))
    start_method: str = option("", "str", "NAME", choices=("spawn", "fork", "forkserver"))
    venv_script: str = option("", "str", "FILE")
    preload: str | None = option(None, "str", "LIST", separator=",")
    role: str = option("default", "str", "NAME")
    shard_queue: bool = option(False, "bool")
    virtual_local_rank: bool = option(False, "bool")

    launcher: str = option("auto", "str", "NAME")
    launcher_args: str = option("", "str", "ARGS", separator=" ")
    launcher_path: str = option("", "str", "PATH")
    rank_per_task: bool = option(False, "bool")
    ssh_port: int | None = option(
        None, "int", "PORT", positive=True, most=PORTS, valid=f"1 to {PORTS}"
    )
    accept_new_host_keys: bool = option(False, "bool")
    force_multi: bool = option(False, "bool")
    no_ssh: bool = option(False, "bool")
    node_rank: int | None = option(None, "int", "N", none="-1", valid="0 to N-1 for N nodes")
    no_ssh_check: bool = option(False, "bool")
    master_addr: str | None = option(None, "str", "ADDR", none="")
    master_port: int | None = option(
        None, "int", "PORT", most=PORTS, valid=f"1 to {PORTS} (0 or not given: a free port)"
    )
    control_port: int | None = option(
        None, "int", "PORT", positive=True, most=PORTS, valid=f"1 to {PORTS}"
    )
    token_file: str | None = option(None, "str", "FILE")
    rdzv_backend: str = option("static", "str", "NAME")
    rdzv_endpoint: str = option("", "str", "HOST:PORT")
    rdzv_id: str = option("none", "str", "ID")
    rdzv_conf: str = option("", "str", "CONF", separator=",")
    local_addr: str | None = option(None, "str", "ADDR", none="")
    connect_timeout: float = option(10.0, "seconds", "DURATION", positive=True)
    start_timeout: float = option(300.0, "seconds", "DURATION", positive=True)
    strict: bool = option(False, "bool")
    no_check: bool = option(False, "bool")
    health_command: str = option("", "str", "COMMAND")
    health_timeout: float = option(60.0, "seconds", "DURATION", positive=True)
    exclude_unhealthy: bool = option(False, "bool")
    dry_run: bool = option(False, "bool")
    json: bool = option(False, "bool")

    export: tuple[str, ...] = option((), "list", "NAME[=VALUE]")
    env_file: tuple[str, ...] = option((), "list", "FILE")

    log_dir: str = option("", "str", "DIR", also=("enable_each_rank_log",), none="None")
    redirects: str = option("0", "str", "STREAMS", also=("-r",))
    tee: str = option("0", "str", "STREAMS", also=("-t",))
    log_layout: str = option("", "str", "NAME", choices=("dsrun", "torchrun"))
    logs_specs: str = option("default", "str", "NAME")
    console_ranks: str = option("", "str", "RANKS", separator=",")
    local_ranks_filter: str = option("", "str", "RANKS", separator=",")
    prefix: str = option("{host}:{rank}| ", "str", "FORMAT")
    fold: bool = option(False, "bool")
    no_fold: bool = option(False, "bool")
    color: str = option("auto", "str", "WHEN", choices=("auto", "always", "never"))
    stdin: str = option("none", "str", "WHO", choices=("none", "rank0"))
    event_log_handler: str = option("", "str", "NAME")
    report_file: str | None = option(None, "str", "FILE")
    log_level: str = option(
        "info", "str", "LEVEL", choices=("debug", "info", "warning", "error", "critical")
    )
    quiet: bool = option(False, "bool", also=("-q",))

    debug: str = option("", "str", "RANKS", separator=",")
    no_debug_wait: bool = option(False, "bool")
    debug_file: str = option("", "str", "FILE")
    hang_timeout: float = option(300.0, "seconds", "DURATION")
    on_hang: str = option("report", "str", "WHAT", choices=("report", "stop", "restart"))
    expect: str = option("", "str", "REGEX")
    within: float = option(0.0, "seconds", "DURATION")
    every: float = option(0.0, "seconds", "DURATION")
    on_missing: str = option("report", "str", "WHAT", choices=("report", "stop", "restart"))
    rules: str | None = option(None, "str", "FILE")
    warn_slow: bool = option(False, "bool")
    no_worker_hook: bool = option(False, "bool")
    metrics_file: str | None = option(None, "str", "FILE")
    on_event: str = option("", "str", "COMMAND")

    grace: float = option(30.0, "seconds", "DURATION", also=("shutdown_timeout",))
    heartbeat_timeout: float = option(15.0, "seconds", "DURATION", positive=True)
    graceful_term_ok: bool = option(False, "bool")
    requeue_on: str = option("", "str", "CODES", separator=",")
    no_requeue_code: int | None = option(
        None, "int", "N", positive=True, most=255, valid="1 to 255"
    )
    signals_to_handle: str = option("SIGTERM,SIGINT,SIGHUP", "str", "LIST", separator=",")
    monitor_interval: float = option(0.1, "seconds", "DURATION", positive=True)
    elastic_training: bool = option(False, "bool")
    min_elastic_nodes: int | None = option(None, "int", "N", none="-1", positive=True)
    max_elastic_nodes: int | None = option(None, "int", "N", none="-1", positive=True)
    max_restarts: int | None = option(None, "int", "N")
    elastic_agent: str | None = option(None, "str", "NAME", choices=("dsrun", "torch"))
    restart_window: float = option(0.0, "seconds", "DURATION")
    min_uptime: float = option(0.0, "seconds", "DURATION")
    no_restart_codes: str = option("", "str", "CODES", separator=",")
    restart_on: str = option("", "str", "LIST", separator=",")
    stop_without_progress: int = option(0, "int", "N")
    checkpoints: str = option("", "str", "GLOB")
    min_wait: float = option(0.0, "seconds", "DURATION")
    cool_down: float = option(300.0, "seconds", "DURATION")
    gain_delay: float = option(60.0, "seconds", "DURATION")
    change_notice: str = option("", "str", "HOW")
    change_delay: float = option(30.0, "seconds", "DURATION")
    warm_workers: bool = option(False, "bool")
    warm_modules: str = option("torch,torch._dynamo", "str", "LIST", separator=",")
    allow_background: bool = option(False, "bool")

    accelerator: str | None = option(None, "str", "NAME", none="")
    bind_cores_to_rank: bool = option(False, "bool")
    bind_core_list: str = option("", "str", "LIST", none="None", separator=",")
    bind_to: str | None = option(None, "str", "WHAT", choices=("none", "core", "numa", "socket"))
    numa_binding: str | None = option(
        None, "str", "WHAT", choices=("node", "socket", "exclusive", "core-complex")
    )
    bind_smt: str = option("yes", "str", "WHICH", choices=("yes", "no"))
    bind_memory: str = option(
        "auto", "str", "POLICY", choices=("auto", "bind", "preferred", "interleave", "none")
    )
    bind_nic: bool = option(False, "bool")
    report_bindings: bool = option(False, "bool")


def all_options() -> dict[str, Option]:
    """Return every option by the name of its field, in the order of the table."""
    return {name: spec for name, spec in vars(Options).items() if isinstance(spec, Option)}


def table() -> dict[str, tuple[str, Option]]:
    """Return {name as typed, with underscores: (field, option)}."""
    return {
        typed: (name, spec) for name, spec in all_options().items() for typed in (name, *spec.also)
    }
