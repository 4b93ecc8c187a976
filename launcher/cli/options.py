"""Every option of dsrun: one table for names, types, defaults, DSRUN_* variables and help.

The fields of `Options` are the table: a field's name is the option's name (dashes serve as well as
underscores), its default is the default, and `option(...)` says the rest. `parser.py` reads it.
"""

from __future__ import annotations

from ..specs.host import MAX_SLOTS
from .option import (
    CORES,
    ENVIRONMENT,
    HOSTS,
    OUTPUT,
    PORTS,
    PROGRAM,
    START,
    STOPPING,
    Option,
    option,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _launchers() -> str:
    from ..backends import choosable
    from ..common.wording import either

    return either(["auto", *choosable()])


class Options:
    """What the user asked for, and nothing else: typed, immutable, with every default filled in.

    Not a dataclass: the module of that name takes longer to import than all of this.
    """

    def __init__(self, **given: Any) -> None:
        for name, spec in all_options().items():
            object.__setattr__(self, name, given.pop(name, spec.default))
        if given:
            raise TypeError(f"no such options: {', '.join(given)}")

    def changed(self, **given: Any) -> Options:
        """Return the same options but for those given."""
        return Options(**{**vars(self), **given})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"options do not change ({name})")

    hostfile: str | None = option(
        None, "str", HOSTS, "hosts and their slots, one a line: 'worker-0 slots=8'", "FILE",
        also=("-H",), none="",
    )  # fmt: skip
    host: str | None = option(
        None, "str", HOSTS, "hosts in place of a hostfile: h1:4,h2:0-3 (count, or slots)", "LIST"
    )
    watch_hostfile: bool = option(
        False, "bool", HOSTS, "an elastic job: take in hosts that are added, let go of the others"
    )
    host_discovery_script: str | None = option(
        None, "str", HOSTS, "a program that prints lines of HOST:SLOTS, asked every second",
        "COMMAND",
    )  # fmt: skip
    include: str = option(
        "", "str", HOSTS, "only these: worker-0@worker-1:0,2-3; globs and device ids too", "SPEC",
        also=("-i",),
    )  # fmt: skip
    exclude: str = option(
        "", "str", HOSTS, "all but these, written the same way", "SPEC", also=("-e",)
    )
    num_nodes: int | None = option(
        None, "int", HOSTS, "only the first N hosts", "N", none="-1",
        valid="1 to the number of hosts (without it: all)",
    )  # fmt: skip
    nnodes: str | None = option(
        None, "str", HOSTS, "torchrun's name for it; with --node_rank also without a hostfile", "N"
    )
    num_gpus: int | None = option(
        None, "int", HOSTS, "the first N slots of every host", "N",
        also=("num_accelerators",), none="-1",
        positive=True, most=MAX_SLOTS, valid=f"1 to {MAX_SLOTS} (without it: all slots)",
    )  # fmt: skip
    nproc_per_node: str | None = option(
        None, "str", HOSTS, "torchrun's name for it: N, or auto, gpu, cpu", "N"
    )
    standalone: bool = option(False, "bool", HOSTS, "this machine only, whatever else is set")
    elastic_config: str | None = option(
        None, "str", HOSTS, "a DeepSpeed config whose elastic plan the number of ranks has to fit",
        "FILE",
    )  # fmt: skip

    module: bool = option(False, "bool", PROGRAM, "the script is a module: python -m", also=("-m",))
    no_python: bool = option(
        False, "bool", PROGRAM, "the script is any executable (passed --local_rank=N as well)"
    )
    run_path: bool = option(False, "bool", PROGRAM, "as without it (torchrun's in-process run)")
    python: str | None = option(
        None, "str", PROGRAM, "the interpreter on the nodes (the one that runs dsrun)", "PATH"
    )
    workdir: str | None = option(
        None, "str", PROGRAM, "the folder the workers run in (this one)", "DIR"
    )
    no_local_rank: bool = option(
        False, "bool", PROGRAM, "do not pass --local_rank=N to the script", also=("use_env",)
    )
    start_method: str = option(
        "", "str", PROGRAM, "accepted from torchrun; workers are programs here, never functions",
        "NAME", choices=("spawn", "fork", "forkserver"),
    )  # fmt: skip
    venv_script: str = option(
        "", "str", PROGRAM, "a shell file to source on every node before the workers", "FILE"
    )
    role: str = option("default", "str", PROGRAM, "ROLE_NAME of the workers", "NAME")
    shard_queue: bool = option(
        False, "bool", PROGRAM, "workers take shards of data from dsrun: ShardQueue"
    )
    virtual_local_rank: bool = option(
        False, "bool", PROGRAM, "each worker sees one device only, as LOCAL_RANK 0"
    )

    launcher: str = option(
        "auto", "str", START,
        _launchers, "NAME",
    )  # fmt: skip
    launcher_args: str = option(
        "", "str", START, "further arguments for the launcher's own tool, one string", "ARGS"
    )
    launcher_path: str = option(
        "", "str", START, "the launcher's program, or the folder it is in (found on PATH)", "PATH"
    )
    rank_per_task: bool = option(
        False, "bool", START, "MPI and Slurm start every rank themselves: for scripts that use MPI"
    )
    ssh_port: int | None = option(
        None, "int", START, "sshd's port on every host", "PORT",
        positive=True, most=PORTS, valid=f"1 to {PORTS}",
    )  # fmt: skip
    accept_new_host_keys: bool = option(
        False, "bool", START, "add host keys never seen before to known_hosts; never changed ones"
    )
    force_multi: bool = option(
        False, "bool", START, "reach this machine like any other host, over the launcher"
    )
    no_ssh: bool = option(
        False, "bool", START, "no launcher at all: run the same command on every node"
    )
    node_rank: int | None = option(
        None, "int", START, "this node's place among them, with --no_ssh", "N", none="-1",
        valid="0 to N-1, with N nodes",
    )  # fmt: skip
    no_ssh_check: bool = option(
        False, "bool", START, "accepted from DeepSpeed; all hosts are reached at once anyway"
    )
    master_addr: str | None = option(
        None, "str", START, "address of node 0 for the workers (found and tried out)", "ADDR",
        none="",
    )  # fmt: skip
    master_port: int | None = option(
        None, "int", START, "port of node 0 for the workers (0: a free one)", "PORT",
        most=PORTS, valid=f"1 to {PORTS} (0, or without it: a free one)",
    )  # fmt: skip
    control_port: int | None = option(
        None, "int", START, "port for the nodes to dial (any; with --no_ssh master_port + 1)",
        "PORT", positive=True, most=PORTS, valid=f"1 to {PORTS}",
    )  # fmt: skip
    token_file: str | None = option(
        None, "str", START, "--no_ssh: a 0600 file with the shared secret (or DSRUN_TOKEN)", "FILE"
    )
    rdzv_backend: str = option(
        "static", "str", START,
        "who brings the nodes together: static is dsrun; c10d, etcd, etcd-v2 or a plugin is torch, "
        "the same command on every node, some of which may be torchrun",
        "NAME",
    )  # fmt: skip
    rdzv_endpoint: str = option(
        "", "str", START, "where they meet; with static the master's address and port", "HOST:PORT"
    )
    rdzv_id: str = option(
        "none", "str", START, "the job's name there, TORCHELASTIC_RUN_ID of the workers", "ID"
    )
    rdzv_conf: str = option(
        "", "str", START, "settings of that backend: NAME=VALUE,... (join_timeout=600)", "CONF"
    )
    local_addr: str | None = option(
        None, "str", START, "this node's own address, for the others (found)", "ADDR", none=""
    )
    connect_timeout: float = option(
        10.0, "seconds", START, "for a host to answer", "DURATION", positive=True
    )
    start_timeout: float = option(
        300.0, "seconds", START, "for all nodes to be ready", "DURATION", positive=True
    )
    dry_run: bool = option(False, "bool", START, "print the plan and start nothing")
    json: bool = option(False, "bool", START, "with --dry_run: as one JSON object")

    export: tuple[str, ...] = option(
        (), "list", ENVIRONMENT, "send this variable too, secret or not", "NAME[=VALUE]"
    )
    env_file: tuple[str, ...] = option(
        (), "list", ENVIRONMENT, "send the NAME=VALUE lines of this file", "FILE"
    )

    log_dir: str = option(
        "", "str", OUTPUT, "keep every rank's output in DIR/JOB/rank-N.out and .err on its node",
        "DIR", also=("enable_each_rank_log",), none="None",
    )  # fmt: skip
    redirects: str = option(
        "0",
        "str",
        OUTPUT,
        "to the log only: 1 stdout, 2 stderr, 3 both; without --log_dir"
        " to a folder of its own among the temporary files",
        "N",
        also=("-r",),
    )
    tee: str = option(
        "0", "str", OUTPUT, "to log and console, likewise (they always are, without -r)", "N",
        also=("-t",),
    )  # fmt: skip
    log_layout: str = option(
        "", "str", OUTPUT,
        "how files are named: dsrun, or torchrun (ID_*/attempt_N/LOCAL_RANK/stderr.log), as it is"
        " for lines with its flags and without hosts",
        "NAME", choices=("dsrun", "torchrun"),
    )  # fmt: skip
    logs_specs: str = option(
        "default", "str", OUTPUT, "who names the log files: an entry point of torchrun.logs_specs",
        "NAME",
    )  # fmt: skip
    console_ranks: str = option("", "str", OUTPUT, "show only these global ranks: 0,8-15", "RANKS")
    local_ranks_filter: str = option("", "str", OUTPUT, "show only these local ranks: 0,1", "RANKS")
    prefix: str = option(
        "{host}:{rank}| ", "str", OUTPUT,
        "before every line; {host} {rank} {local_rank} {node_rank} {job} {role}; '' for none",
        "FORMAT",
    )  # fmt: skip
    color: str = option(
        "auto", "str", OUTPUT, "colours and moving lines: auto, always or never", "WHEN",
        choices=("auto", "always", "never"),
    )  # fmt: skip
    stdin: str = option(
        "none", "str", OUTPUT, "who reads dsrun's standard input: none or rank0", "WHO",
        choices=("none", "rank0"),
    )  # fmt: skip
    event_log_handler: str = option(
        "", "str", OUTPUT, "accepted from torchrun; --report_file writes how the job ended", "NAME"
    )
    report_file: str | None = option(
        None, "str", OUTPUT, "write how the job ended to FILE, as JSON", "FILE"
    )
    log_level: str = option(
        "info", "str", OUTPUT, "dsrun's own lines: debug, info, warning, error or critical",
        "LEVEL", choices=("debug", "info", "warning", "error", "critical"),
    )  # fmt: skip
    quiet: bool = option(
        False, "bool", OUTPUT, "none of dsrun's own lines but errors", also=("-q",)
    )

    grace: float = option(
        30.0, "seconds", STOPPING, "between the stop signal and SIGKILL, for all ranks at once",
        "DURATION", also=("shutdown_timeout",),
    )  # fmt: skip
    heartbeat_timeout: float = option(
        15.0, "seconds", STOPPING, "of silence until a node, or the runner, counts as lost",
        "DURATION", positive=True,
    )  # fmt: skip
    graceful_term_ok: bool = option(
        False, "bool", STOPPING, "exit 0 when all ranks exit 0 after a stop signal"
    )
    requeue_on: str = option(
        "", "str", STOPPING, "Slurm: requeue the job when it ends with one of these codes: 75,143",
        "CODES",
    )  # fmt: skip
    signals_to_handle: str = option(
        "SIGTERM,SIGINT,SIGHUP",
        "str",
        STOPPING,
        "signals that end the job (SIGQUIT, not among them, shows who runs where)",
        "LIST",
    )
    monitor_interval: float = option(
        0.1, "seconds", STOPPING, "between two looks of torch's agent (--rdzv_backend)", "DURATION",
        positive=True,
    )  # fmt: skip
    elastic_training: bool = option(
        False, "bool", STOPPING, "go on without nodes that are lost, and restart failed workers"
    )
    min_elastic_nodes: int | None = option(
        None,
        "int",
        STOPPING,
        "nodes that an elastic job needs (1)",
        "N",
        none="-1",
        positive=True,
    )
    max_elastic_nodes: int | None = option(
        None,
        "int",
        STOPPING,
        "nodes that it takes; others are spares (all)",
        "N",
        none="-1",
        positive=True,
    )
    max_restarts: int | None = option(
        None, "int", STOPPING, "restarts of all workers after a failure, for the whole job (0)", "N"
    )
    restart_window: float = option(
        0.0, "seconds", STOPPING, "so many restarts within these, not within the job", "DURATION"
    )
    min_uptime: float = option(
        0.0, "seconds", STOPPING, "workers that fail earlier are not worth a restart", "DURATION"
    )
    no_restart_codes: str = option(
        "", "str", STOPPING, "exit codes that are not worth a restart: 2,64", "CODES"
    )
    min_wait: float = option(
        0.0, "seconds", STOPPING, "with fewer nodes than it needs, wait for more", "DURATION"
    )
    cool_down: float = option(
        300.0, "seconds", STOPPING, "without a node where alone three failures began; 0 for never",
        "DURATION",
    )  # fmt: skip
    change_notice: str = option(
        "", "str", STOPPING, "tell workers of nodes that come or go: SIGUSR1, or a file to make",
        "HOW",
    )  # fmt: skip
    change_delay: float = option(
        30.0, "seconds", STOPPING, "between that and the change", "DURATION"
    )
    warm_workers: bool = option(
        False, "bool", STOPPING, "have the workers of an elastic job's next round import beforehand"
    )
    warm_modules: str = option("torch,torch._dynamo", "str", STOPPING, "what they import", "LIST")
    allow_background: bool = option(
        False, "bool", STOPPING, "leave alone what the job leaves running after a clean end"
    )

    accelerator: str | None = option(
        None, "str", CORES, "whose devices: cuda, rocm, xpu, npu, ... or cpu (what is found)",
        "NAME", none="",
    )  # fmt: skip
    bind_cores_to_rank: bool = option(
        False, "bool", CORES, "give every rank cores of its own, near its device: --bind_to core"
    )
    bind_core_list: str = option(
        "", "str", CORES, "share out only these CPUs: 0,2-5, or host:0-3@host:4-7", "LIST",
        none="None",
    )  # fmt: skip
    bind_to: str | None = option(
        None, "str", CORES, "what every rank is bound to: none, core, numa or socket", "WHAT",
        choices=("none", "core", "numa", "socket"),
    )  # fmt: skip
    numa_binding: str | None = option(
        None, "str", CORES, "torchrun's names: node, socket, exclusive or core-complex", "WHAT",
        choices=("node", "socket", "exclusive", "core-complex"),
    )  # fmt: skip
    bind_smt: str = option(
        "yes", "str", CORES, "use all hardware threads of a core: yes, or no for its first alone",
        "WHICH", choices=("yes", "no"),
    )  # fmt: skip
    bind_memory: str = option(
        "auto", "str", CORES, "from near the cores: auto, bind, preferred, interleave or none",
        "POLICY", choices=("auto", "bind", "preferred", "interleave", "none"),
    )  # fmt: skip
    bind_nic: bool = option(
        False, "bool", CORES, "tell NCCL and UCX which InfiniBand and RoCE ports are near"
    )
    report_bindings: bool = option(
        False,
        "bool",
        CORES,
        "print what each rank is bound to, by its kernel's word; not with -q",
    )


def all_options() -> dict[str, Option]:
    """Return every option by the name of its field, in the order of the table."""
    return {name: spec for name, spec in vars(Options).items() if isinstance(spec, Option)}


def table() -> dict[str, tuple[str, Option]]:
    """Return {name as typed, dashes folded to underscores: (field, option)}."""
    return {
        typed: (name, spec) for name, spec in all_options().items() for typed in (name, *spec.also)
    }
