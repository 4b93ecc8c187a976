"""The table of options: one row with all facts about each option of dsrun.

The fields of `Options` are the table: the name of a field is the name of the option, and `option`
gives the rest. The parser, the help, the manual pages, the completion, docs/options.md, the other
commands and planning read it. The help texts cost a start only microseconds.
"""

from __future__ import annotations

from ..specs.host import MAX_SLOTS
from .option import ANY, LABEL, PORTS, Option, named, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _launchers() -> tuple[str, ...]:
    from ..backends import choosable

    return ("auto", *choosable())


def _accelerators() -> tuple[str, ...]:
    from ...accelerator.vendors import VENDORS

    return tuple(VENDORS)


class Options:
    """The value of every option, given or default; immutable.

    It is not a dataclass: importing `dataclasses` takes longer than importing this whole package.
    """

    def __init__(self, **given: Any) -> None:
        for name, spec in all_options().items():
            object.__setattr__(self, name, given.pop(name, spec.default))
        if given:
            raise TypeError(f"unknown options: {', '.join(given)}")

    def changed(self, **given: Any) -> Options:
        """Return a copy with these options changed."""
        return Options(**{**vars(self), **given})

    def policy(self, name: str) -> dict[str, Any]:
        """Return the fields of a `JobSpec`'s policy that take an option's value unchanged."""
        filled: dict[str, Any] = {}
        for one, spec in all_options().items():
            policy, _, field = spec.fills.partition(".")
            if policy == name:
                value = getattr(self, one)
                filled[field] = not value if one.startswith("no_") else value
        return filled

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"options are immutable ({name})")

    # Each row should fit in a few lines.
    # fmt: off
    # -- Hosts and devices --
    hostfile: str | None = option(None,
        "Read the hosts from FILE, one per line, in the order of their ranks: 'worker-0"
        " slots=8'. A slot holds one worker and is usually one device. A host without slots="
        " has one slot per device.",
        metavar="FILE", also=("-H",), none="",
        unset="a scheduler's allocation (Slurm, PBS, LSF, ...), else /job/hostfile if it"
        " exists, else this machine", tools=("job", "hold", "exec", "check"),
        by_hold=True, file="read")
    host: str | None = option(None,
        "Use these hosts instead of a hostfile: h1:4,h2:0-3. A single number after the colon"
        " is a count of slots, anything else a list of slots (0-0 is slot 0 alone).",
        metavar="LIST", separator=",", unset="see --hostfile", like=("nodelist", "-w", "hosts"),
        tools=("job", "hold", "exec", "check"), by_hold=True, also_role=True, offers="hosts")
    on: str | None = option(None,
        "Run on the nodes that dsrun-hold keeps under this name, without connecting again. 'last'"
        " is the newest hold. Host filters choose among its nodes and slots.",
        metavar="NAME", unset="its own nodes", tools=("exec", "check"), not_in_python="use Fleet",
        whole_job=True, offers="holds")
    on_busy: str = option("wait",
        "With --on: if another job uses the same slots, wait until it ends, or refuse to run.",
        metavar="WHAT", choices=("wait", "refuse"), not_in_python="use Fleet", whole_job=True)
    watch_hostfile: bool = option(False,
        "Elastic jobs: read the hostfile every second. Hosts that are added to it join the job,"
        " and hosts that are removed leave it.",
        by_hold=True, elastic=True)
    host_discovery_script: str | None = option(None,
        "Elastic jobs: run COMMAND every second and use the hosts that it prints, one"
        " HOST:SLOTS per line. Hosts join and leave the job as with --watch_hostfile.",
        metavar="COMMAND", unset="none", tools=("exec", "check"), by_hold=True, elastic=True)
    include: str = option("",
        "Use only these hosts and slots: worker-0@worker-1:0,2-3. Ranges of names"
        " (worker-[0-3]), patterns (gpu-*) and device ids (worker-0:GPU-8932f937) are accepted.",
        metavar="SPEC", also=("-i",), separator="@", unset="all hosts and slots",
        tools=("job", "hold", "exec", "check"), whole_job=True, untrusted=ANY, offers="hosts")
    exclude: str = option("",
        "Use all hosts and slots except these. Same syntax as --include.",
        metavar="SPEC", also=("-e",), separator="@", unset="none",
        tools=("job", "hold", "exec", "check"), whole_job=True, untrusted=ANY, offers="hosts")
    num_nodes: int | None = option(None,
        "Use the first N hosts.",
        kind="int", none="-1", valid="1 to the number of hosts (default: all)", unset="all hosts",
        like=("-N", "nodes", "num_machines"), tools=("job", "hold", "exec", "check"), untrusted=ANY)
    rank_order: str | None = option(None,
        "Assign ranks to the nodes by their place in the network: by Slurm's blocks or leaf"
        " switches (slurm), by block=NAME in the hostfile (blocks), or in the order of a FILE that"
        " lists each host once.",
        metavar="ORDER", values=("slurm", "blocks"), unset="the order of the hostfile",
        tools=("hold",), by_hold=True, file="read")
    segment: int | None = option(None,
        "Assign ranks so that every N consecutive nodes are in the same block.",
        kind="int", positive=True, valid="1 or more", unset="none", tools=("hold",), by_hold=True,
        untrusted=ANY)
    nnodes: str | None = option(None,
        "torchrun's name for --num_nodes. MIN:MAX makes the job elastic. With --node_rank and"
        " without hosts, run the same command on every node.",
        metavar="N|MIN:MAX", unset="all hosts", torchrun="nnodes", whole_job=True, untrusted=ANY)
    num_gpus: int | None = option(None,
        "Use the first N slots of every host. On a host without accelerators: start N workers.",
        kind="int", also=("num_accelerators",), none="-1", positive=True, most=MAX_SLOTS,
        valid=f"1 to {MAX_SLOTS} (default: all slots)", unset="all slots",
        like=("num_procs", "nproc", "ntasks_per_node", "gpus_per_node"),
        tools=("hold", "check"), untrusted=ANY)
    nproc_per_node: str | None = option(None,
        "torchrun's name for --num_gpus: a number, or auto, gpu, cpu, xpu or torch's name for"
        " another device (npu, mlu, musa, sdaa, hpu) for one worker per device.",
        metavar="N", values=("auto", "gpu", "cpu", "xpu", "npu", "mlu", "musa", "sdaa", "hpu"),
        unset="all slots",
        torchrun="nproc_per_node", untrusted=ANY)
    standalone: bool = option(False,
        "Use this machine only, even inside a scheduler's allocation.",
        torchrun="standalone", tools=("hold", "check"), by_hold=True)
    elastic_config: str | None = option(None,
        "Require a number of ranks that is valid in the elastic batch plan of this DeepSpeed"
        " config (JSON). Elastic jobs use only the plan's world sizes.",
        metavar="FILE", unset="none", file="read")

    # -- Program --
    module: bool = option(False,
        "Run SCRIPT as a Python module: python -m SCRIPT.",
        also=("-m",), torchrun="module")
    no_python: bool = option(False,
        "Run SCRIPT as an executable, without Python. It also gets --local_rank=N unless"
        " --no_local_rank is given.",
        torchrun="no_python")
    placeholders: bool = option(False,
        "Fill in {rank}, {local_rank}, {world_size}, {node_rank}, {nnodes}, {master_addr},"
        " {master_port}, {host}, {hosts} and {devices} in the arguments and in exported variables.")
    first: str = option("",
        "Further arguments of the workers on node 0, as one string, with placeholders.",
        metavar="ARGS", separator=" ", unset="none")
    rest: str = option("",
        "Further arguments of the workers on all other nodes, as one string, with placeholders.",
        metavar="ARGS", separator=" ", unset="none")
    jax: bool = option(False,
        "Set the variables with which jax.distributed.initialize() finds the other workers.")
    run_path: bool = option(False,
        "Accepted for compatibility with torchrun; has no effect.",
        torchrun="run_path")
    python: str | None = option(None,
        "Python interpreter on the nodes, version 3.10 or newer, for node launchers and workers.",
        metavar="PATH",
        unset="the interpreter that runs dsrun; for workers, the one that --venv_script puts"
        " first on PATH, or that of the active environment or of the project's .venv where"
        " dsrun's own has no torch", tools=("job", "hold", "exec", "check"), file="read")
    workdir: str | None = option(None,
        "Working directory of the workers. It must exist on every node.",
        metavar="DIR", unset="the current directory", tools=("hold", "exec", "check"))
    sync: str | None = option(None,
        "Copy the folder DIR, which contains the working directory, to the nodes that do not"
        " share it, except files that match .gitignore or .dsrunignore. Only changes since the"
        " last copy are sent. The workers run in the copy, which is kept for later jobs.",
        metavar="DIR", unset="nothing is copied", whole_job=True)
    sync_limit: str = option("1GB",
        "The most that --sync copies to a node: 500MB, 2GB, 1.5GiB.",
        metavar="SIZE", whole_job=True)
    local_rank: bool = option(False,
        "Pass the local rank to the script with a dash, as torch.distributed.launch"
        " does, even if options of torchrun are used. Without those, --local_rank=N is passed"
        " anyway.")
    no_local_rank: bool = option(False,
        "Do not pass --local_rank=N to the script; LOCAL_RANK is set in any case. Implied by"
        " --nproc_per_node, --nnodes, --standalone and --rdzv_*, as torchrun passes none.",
        also=("use_env",))
    start_method: str = option("",
        "Accepted for compatibility with torchrun; has no effect. Workers are always separate"
        " programs.",
        metavar="NAME", choices=("spawn", "fork", "forkserver"), unset="none",
        torchrun="start_method", idle="workers are always separate programs")
    venv_script: str = option("",
        "Shell script that every node sources with bash before it starts the workers, such as"
        " venv/bin/activate.",
        metavar="FILE", unset="none", tools=("check",), file="read")
    preload: str | None = option(None,
        "Import these modules once on each node, and fork the workers from that process:"
        " torch,torch._dynamo. Not with --no_python.",
        metavar="LIST", separator=",", unset="every worker does its own imports", tools=("hold",))
    role: str = option("default",
        "Value of ROLE_NAME in the workers' environment.",
        metavar="NAME", fills="workers.role", torchrun="role", whole_job=True)
    shard_queue: bool = option(False,
        "Serve shards of the training data to the workers, which fetch them with"
        " dsrun.accelerator.shards.ShardQueue.",
        fills="workers.shard_queue")
    virtual_local_rank: bool = option(False,
        "Show each worker only its own device, and set LOCAL_RANK to 0 for all of them.",
        fills="workers.one_device", torchrun="virtual_local_rank")

    # -- Containers --
    container: str = option("",
        "Run the node launcher of each node, and so the workers, in a container: podman:IMAGE,"
        " docker:IMAGE, apptainer:FILE.sif, enroot:FILE.sqsh, pyxis:IMAGE (Slurm), exec:NAME (one"
        " that runs on each node already), or prefix:'COMMAND ...', which is put before the node"
        " launcher's command.",
        metavar="RUNTIME:IMAGE", unset="none", tools=("hold", "check"), by_hold=True,
        also_role=True)
    mount: tuple[str, ...] = option((),
        "With --container: mount A of each node at B, by default at A. Repeatable. The folders of"
        " the workers, the script, the logs and --sync are mounted anyway.",
        metavar="A[:B][:ro]", unset="none", tools=("hold", "check"), by_hold=True,
        also_role=True)
    container_args: str = option("",
        "With --container: extra arguments for the runtime's client, as one string. They come last,"
        " so they win.",
        metavar="ARGS", separator=" ", unset="none", tools=("hold", "check"), by_hold=True,
        also_role=True)

    # -- Environment of the workers --
    export: tuple[str, ...] = option((),
        "Send this variable to the nodes, with VALUE or else its current value."
        " Repeatable. Variables with well-known prefixes (NCCL_, OMP_, HF_, ...) are sent anyway"
        " unless their names look like secrets; --dry_run lists them.",
        metavar="NAME[=VALUE]", unset="none", like=("env", "x", "-x"), tools=("hold", "check"))
    env_file: tuple[str, ...] = option((),
        "Send the variables of FILE, one NAME=VALUE per line. Repeatable. FILE is read after"
        " .deepspeed_env and .dsrun_env in the home and current directories.",
        metavar="FILE", unset="none", tools=("hold", "check"), file="read")

    # -- Starting the nodes --
    launcher: str = option("auto",
        "How the nodes are started: {values}. auto is slurm inside a Slurm job, local if this"
        " machine is the only host, else the first of ssh, openssh and pdsh that is installed.",
        metavar="NAME", values=_launchers, tools=("job", "hold", "exec", "check"), by_hold=True)
    launcher_args: str = option("",
        "Extra arguments for the launcher's program (ssh, pdsh, mpirun, srun, ...), as"
        " one string.",
        metavar="ARGS", separator=" ", unset="none", tools=("job", "hold", "exec", "check"),
        by_hold=True)
    launcher_path: str = option("",
        "Path of the launcher's program, or of the directory that contains it.",
        metavar="PATH", unset="the program found on PATH", fills="backend.path",
        tools=("job", "hold", "exec", "check"), by_hold=True, file="read")
    rank_per_task: bool = option(False,
        "MPI and Slurm: start one task per rank instead of one per node, for scripts that use"
        " MPI themselves.",
        fills="backend.rank_per_task", by_hold=True)
    ssh_port: int | None = option(None,
        "Port of sshd on hosts that are listed without a port.",
        metavar="PORT", kind="int", positive=True, most=PORTS, valid=f"1 to {PORTS}",
        unset="from the ssh configuration, else 22", fills="backend.port",
        tools=("job", "hold", "exec", "check"), by_hold=True)
    accept_new_host_keys: bool = option(False,
        "Add unknown host keys to known_hosts. A host key that has changed is always refused.",
        fills="backend.accept_new_host_keys", tools=("job", "hold", "exec", "check"), by_hold=True)
    force_multi: bool = option(False,
        "Reach this machine through the launcher, like any other host.",
        fills="backend.force_multi", tools=("job", "hold", "exec", "check"), by_hold=True)
    no_ssh: bool = option(False,
        "Start no other nodes: run the same command on every node, each with its --node_rank.",
        by_hold=True, not_in_python="a Python program starts its nodes itself")
    node_rank: int | None = option(None,
        "With --no_ssh: rank of this node, 0 to N-1 for N nodes.",
        kind="int", none="-1", valid="0 to N-1 for N nodes",
        unset="from the variables of Slurm, an MPI launcher, Kubeflow or an indexed Job",
        like=("machine_rank",), by_hold=True,
        not_in_python="a Python program starts its nodes itself")
    no_ssh_check: bool = option(False,
        "Accepted for compatibility with DeepSpeed; has no effect. All hosts are checked at once.",
        whole_job=True)
    master_addr: str | None = option(None,
        "Address of node 0 for the workers (MASTER_ADDR).",
        metavar="ADDR", none="", unset="the first address of node 0 that all nodes can reach",
        torchrun="master_addr", like=("main_process_ip",))
    master_port: int | None = option(None,
        "Port of node 0 for the workers (MASTER_PORT). 0 is any free port.",
        metavar="PORT", kind="int", most=PORTS, valid=f"1 to {PORTS} (0 or not given: a free port)",
        unset="a free port; 29500 with --no_ssh", torchrun="master_port",
        like=("main_process_port",))
    control_port: int | None = option(None,
        "Port on which dsrun accepts connections from node launchers (pdsh, MPI, Slurm, --no_ssh).",
        metavar="PORT", kind="int", positive=True, most=PORTS, valid=f"1 to {PORTS}",
        unset="a free port; --master_port + 1 with --no_ssh", fills="dial_in.port",
        tools=("hold", "exec", "check"), by_hold=True)
    token_file: str | None = option(None,
        "With --no_ssh: file of mode 0600 that contains the secret shared by all nodes.",
        metavar="FILE", unset="the variable DSRUN_TOKEN", fills="dial_in.token_file", by_hold=True,
        file="read")
    rdzv_backend: str = option("static",
        "How the nodes agree on ranks: static is dsrun's own way. c10d, etcd, etcd-v2 or a"
        " plugin is torch's rendezvous: run the same command on every node; some nodes may run"
        " torchrun.",
        metavar="NAME", values=("static", "c10d", "etcd", "etcd-v2"), torchrun="rdzv_backend",
        whole_job=True)
    rdzv_endpoint: str = option("",
        "Address of torch's rendezvous. With static, sets --master_addr and"
        " --master_port.",
        metavar="HOST:PORT", unset="none", torchrun="rdzv_endpoint", whole_job=True)
    rdzv_id: str = option("none",
        "Name of the job in torch's rendezvous. Workers see it as TORCHELASTIC_RUN_ID.",
        metavar="ID", unset="the id of the job; with torch's rendezvous, none", torchrun="rdzv_id",
        whole_job=True)
    rdzv_conf: str = option("",
        "Settings of the rendezvous, NAME=VALUE,... such as join_timeout=600 (in seconds). With"
        " static, timeout=600 is --start_timeout 600.",
        metavar="CONF", separator=",", unset="none", torchrun="rdzv_conf", whole_job=True)
    local_addr: str | None = option(None,
        "Address at which other nodes reach this one, with --no_ssh or torch's rendezvous.",
        metavar="ADDR", none="", unset="found automatically", torchrun="local_addr", whole_job=True)
    connect_timeout: float = option(10.0,
        "Time limit for connecting to a host.",
        positive=True, fills="supervision.connect_timeout", tools=("job", "hold", "exec", "check"),
        whole_job=True, untrusted=ANY)
    start_timeout: float | None = option(None,
        "Time limit until all nodes are ready to start workers, and for each node launcher's"
        " first sign of life.",
        kind="seconds", positive=True, unset="300 s, and 60 s for the first sign",
        tools=("job", "hold", "exec", "check"), whole_job=True, untrusted=ANY)
    detach: bool = option(False,
        "Print the job's id and return once all workers run; the job goes on without the terminal,"
        " even after a logout. dsrun-job waits for it and shows its output and report.",
        like=("background", "daemon", "bg"), not_in_python="use launch_detached", whole_job=True)
    dry_run: bool = option(False,
        "Print the plan (hosts, ranks, variables, policies, commands) and start nothing.",
        not_in_python="it only prints", whole_job=True)
    json: bool = option(False,
        "With --dry_run: print the plan as one JSON object.",
        not_in_python="it only prints", whole_job=True)

    # -- Checks before the start --
    strict: bool = option(False,
        "Treat warnings of the quick check as errors.",
        fills="checks.strict", tools=("check",))
    no_check: bool = option(False,
        "Skip the quick check, which compares the nodes before the start: versions,"
        " script, clocks, devices, space, limits and variables.",
        fills="checks.quick")
    setup: str = option("",
        "Run COMMAND once before the job, such as 'uv sync': on each node, or once for all"
        " nodes that share the working directory, in which it runs. If it fails, nothing starts.",
        metavar="COMMAND", unset="none", fills="checks.setup")
    setup_if: tuple[str, ...] = option((),
        "With --setup: run the command only if it or FILE, such as uv.lock, has changed since the"
        " command last succeeded. Repeatable.",
        metavar="FILE", unset="the command is run for every job", fills="checks.setup_if",
        file="read")
    health_command: str = option("",
        "Shell command that must succeed on each node before the start, and before the node"
        " joins a round of an elastic job.",
        metavar="COMMAND", unset="none", fills="checks.health_command")
    health_timeout: float = option(60.0,
        "Time limit of --health_command.",
        positive=True, fills="checks.health_timeout", untrusted=ANY)
    exclude_unhealthy: bool = option(False,
        "Start without nodes that fail a check or cannot be reached, as long as"
        " --min_elastic_nodes remain. This does not make the job elastic; an elastic job"
        " starts without them anyway.")

    # -- Output --
    log_dir: str = option("",
        "Also write the output of each rank to files on its node: DIR/JOB/rank-0000.out and .err.",
        metavar="DIR", also=("enable_each_rank_log",), none="None", unset="no log files",
        torchrun="log_dir")
    redirects: str = option("0",
        "Write these streams to log files only: 0 none, 1 stdout, 2 stderr, 3 both; or by local"
        " rank, 0:1,1:3. Without --log_dir the files are in a private temporary directory"
        " on each node.",
        metavar="STREAMS", also=("-r",), values=("0", "1", "2", "3"), torchrun="redirects")
    tee: str = option("0",
        "Write these streams to both log files and console, with the values of --redirects,"
        " over which it takes precedence.",
        metavar="STREAMS", also=("-t",), values=("0", "1", "2", "3"), torchrun="tee")
    log_layout: str = option("",
        "How log files are named: dsrun (by global rank) or torchrun"
        " (DIR/ID_JOB_HOST/attempt_N/LOCAL_RANK/stderr.log).",
        metavar="NAME", choices=("dsrun", "torchrun"),
        unset="torchrun if options of torchrun are used without a list of hosts, else dsrun")
    logs_specs: str = option("default",
        "Plugin that chooses the log files: an entry point in the group torchrun.logs_specs,"
        " or default for dsrun itself.",
        metavar="NAME")
    console_ranks: str = option("",
        "Show only the output of these global ranks: 0,8-15.",
        metavar="RANKS", separator=",", unset="all ranks", untrusted=ANY)
    local_ranks_filter: str = option("",
        "Show only the output of these local ranks on each node: 0,1.",
        metavar="RANKS", separator=",", unset="all ranks", torchrun="local_ranks_filter",
        untrusted=ANY)
    prefix: str = option("{host}:{rank}| ",
        "Text before every line of output, with any of {host} {rank} {local_rank} {node_rank}"
        " {job} {role}; '' for none.",
        metavar="FORMAT", fills="output.prefix", untrusted=LABEL)
    fold: bool = option(False,
        "Print a line of several ranks only once, with all of them in its prefix:"
        " 'n1-n4:0-31| '. This delays a line by at most 0.2 s. Log files are not changed.",
        unset="on a terminal, if the prefix has {rank}", whole_job=True)
    no_fold: bool = option(False, "Print every line of every rank, even on a terminal.",
        whole_job=True)
    color: str = option("auto",
        "Use colours, and redraw unfinished lines such as progress bars. auto: on a terminal.",
        metavar="WHEN", choices=("auto", "always", "never"), fills="output.color",
        tools=("hold", "exec", "check"), whole_job=True)
    stdin: str = option("none",
        "Which worker reads dsrun's standard input.",
        metavar="WHO", choices=("none", "rank0"),
        not_in_python="a Python program keeps its standard input")
    event_log_handler: str = option("",
        "Accepted for compatibility with torchrun; has no effect. See --report_file.",
        metavar="NAME", unset="none", torchrun="event_log_handler",
        idle="--report_file FILE writes a report when the job ends", whole_job=True)
    report_file: str | None = option(None,
        "When the job ends, write a report to FILE, as JSON. If its name ends in `.html`, draw a"
        " picture of the job over time instead.",
        metavar="FILE", unset="none", fills="output.report_file", like=("report",), whole_job=True,
        file="written")
    log_level: str = option("info",
        "Print dsrun's own messages from this level up.",
        metavar="LEVEL", choices=("debug", "info", "warning", "error", "critical"),
        tools=("hold", "exec", "check"), whole_job=True, untrusted=ANY)
    quiet: bool = option(False,
        "Print only errors among dsrun's own messages.",
        also=("-q",), tools=("hold", "exec", "check"), whole_job=True)

    # -- Watching a running job --
    debug: str = option("",
        "Start these ranks, such as 0,3-5 or all, under debugpy. Each waits before the first"
        " line of its program for an editor to connect to a port of this machine, which dsrun"
        " prints.",
        metavar="RANKS", separator=",", unset="none")
    no_debug_wait: bool = option(False,
        "Let the ranks of --debug run without waiting. An editor may connect at any time.",
        fills="debug.wait")
    debug_file: str = option("",
        "Write a configuration for each rank of --debug to this launch.json, usually"
        " .vscode/launch.json. Its other configurations are kept.",
        metavar="FILE", unset="printed", file="written")
    hang_timeout: float = option(300.0,
        "A job hangs if a rank that others wait for has done nothing for this long: no CPU"
        " work, no input or output, no step in its code. 0 turns hang detection off.",
        fills="watch.hang_timeout", untrusted=ANY)
    warn_slow: bool = option(False,
        "Warn about a rank, a host or a network link that slows down all others, and name the"
        " cause: its CPU quota, other processes on its CPUs, a disk, or its share of the work.",
        fills="watch.slow")
    on_hang: str = option("report",
        "After reporting a hang: do nothing else, end the job with exit code 77, or start another"
        " round of a job with --max_restarts.",
        metavar="WHAT", choices=("report", "stop", "restart"), fills="watch.on_hang")
    expect: str = option("",
        "Expect lines of output that match this regular expression: see --within, --every"
        " and --on_missing.",
        metavar="REGEX", unset="none")
    within: float = option(0.0,
        "Time from the start of the workers to the first line that matches --expect. 0: the"
        " same as --every.", untrusted=ANY)
    every: float = option(0.0, "Time from one line that matches --expect to the next. 0: no limit.",
        untrusted=ANY)
    on_missing: str = option("report",
        "After reporting that such a line is missing: do nothing else, end the job with exit"
        " code 77, or start another round of a job with --max_restarts.",
        metavar="WHAT", choices=("report", "stop", "restart"))
    rules: str | None = option(None,
        "TOML file with any number of such rules, including rules about numbers in the lines:"
        " a loss must be finite, or fall.",
        metavar="FILE", unset="none", file="read")
    no_worker_hook: bool = option(False,
        "Run nothing in workers before their own program. By default, Python workers prepare"
        " to report where they are in their code: faulthandler reports crashes and answers"
        " a signal, and torch's flight recorder lists the collectives of each rank.",
        fills="watch.hook")
    metrics_file: str | None = option(None,
        "Write metrics of the job to FILE every 5 seconds, in Prometheus's text format, for a"
        " collector such as node_exporter.",
        metavar="FILE", unset="none", whole_job=True, file="written")
    on_event: str = option("",
        "Shell command to run on this machine, in the current folder, when the job starts,"
        " fails, restarts, loses a node, hangs or ends. It reads the event as JSON from"
        " its standard input.",
        metavar="COMMAND", unset="none", fills="hooks.on_event", whole_job=True)

    # -- Failures and stopping --
    grace: float = option(30.0,
        "Time between the stop signal and SIGKILL, for all ranks on all nodes at once. torchrun's"
        " variable TORCH_ELASTIC_SHUTDOWN_TIMEOUT changes the default.",
        also=("shutdown_timeout",), fills="supervision.grace", torchrun="shutdown_timeout",
        tools=("job", "hold"), untrusted=ANY)
    heartbeat_timeout: float = option(15.0,
        "Time without a message after which a node, or dsrun itself, is considered lost.",
        positive=True, fills="supervision.heartbeat_timeout", tools=("hold", "check"), by_hold=True,
        untrusted=ANY)
    graceful_term_ok: bool = option(False,
        "Exit with 0 if all ranks exit with 0 after a stop signal, instead of 128+N.",
        fills="supervision.graceful_term_ok", whole_job=True)
    requeue_on: str = option("",
        "Slurm: requeue the job if it ends with one of these exit codes: 75,143.",
        metavar="CODES", separator=",", unset="never",
        not_in_python="only for a command that is a whole Slurm job", whole_job=True)
    no_requeue_code: int | None = option(None,
        "Exit code of a job that failed and would fail again, for instance due to an error in"
        " its script. --requeue_on does not requeue it, and a batch system can be set up not to.",
        kind="int", positive=True, most=255, valid="1 to 255", unset="the failure's own",
        whole_job=True)
    signals_to_handle: str = option("SIGTERM,SIGINT,SIGHUP",
        "Signals that make dsrun end the job. SIGQUIT (Ctrl-\\), unless it is one of them, prints"
        " where each rank runs, and its stack.",
        metavar="LIST", separator=",", torchrun="signals_to_handle", whole_job=True)
    monitor_interval: float = option(0.1,
        "With torch's rendezvous: time between checks of the workers by torch's agent.",
        positive=True, torchrun="monitor_interval", whole_job=True, untrusted=ANY)
    allow_background: bool = option(False,
        "Do not stop processes that the workers leave behind when all of them exit with 0.",
        fills="supervision.allow_background")

    # -- Elastic jobs --
    elastic_training: bool = option(False,
        "Continue without lost nodes until they return, and restart the workers"
        " after a failure.",
        also=("elastic",))
    min_elastic_nodes: int | None = option(None,
        "Smallest number of nodes that the job runs on.",
        kind="int", none="-1", positive=True, unset="1 with --elastic_training, else all nodes",
        untrusted=ANY)
    max_elastic_nodes: int | None = option(None,
        "Largest number of nodes that run workers; the others are spares.",
        kind="int", none="-1", positive=True, unset="all nodes", untrusted=ANY)
    max_restarts: int | None = option(None,
        "How many times all workers are restarted after a failure, in the whole job"
        " (see --restart_window). Lost nodes do not count.",
        kind="int", unset="0; 100 with --elastic_training", torchrun="max_restarts",
        like=("restart", "restarts"), untrusted=ANY)
    elastic_agent: str | None = option(None,
        "What starts and stops the workers on each node: dsrun itself, or torch's elastic agent"
        " (torch 2.3 or newer).",
        metavar="NAME", choices=("dsrun", "torch"),
        unset="dsrun; torch with --logs_specs or torch's --rdzv_backend", elastic=True)
    restart_window: float = option(0.0,
        "Count --max_restarts within this window instead of over the whole job. 0: whole job.",
        fills="elastic.window", elastic=True, untrusted=ANY)
    min_uptime: float = option(0.0,
        "End the job if a worker fails before the workers have run for this long.",
        fills="elastic.uptime", elastic=True, untrusted=ANY)
    no_restart_codes: str = option("",
        "End the job if a worker fails with one of these exit codes: 2,64.",
        metavar="CODES", separator=",", unset="none", elastic=True, untrusted=ANY)
    restart_on: str = option("",
        "Restart the workers only after failures of these classes, and end the job after"
        " others: script, data, node, network, memory, preempted, unknown. A lost node is not a"
        " failure.",
        metavar="LIST", separator=",", unset="all", elastic=True, untrusted=ANY)
    stop_without_progress: int = option(0,
        "End the job with exit code 77 after N failed rounds in a row without a line that"
        " matches --expect or a new file of --checkpoints. 0: never.",
        fills="watch.fruitless_rounds", untrusted=ANY)
    checkpoints: str = option("",
        "Files that show progress, for --stop_without_progress: a pattern such as 'ckpt/*.pt',"
        " as this machine sees them.",
        metavar="GLOB", unset="none")
    min_wait: float = option(0.0,
        "With fewer than --min_elastic_nodes nodes, wait this long for more. 0: end the job.",
        fills="elastic.wait", elastic=True, untrusted=ANY)
    cool_down: float = option(300.0,
        "Exclude a node for this long after 3 consecutive failures began on it. 0: never.",
        fills="elastic.cool", untrusted=ANY)
    gain_delay: float = option(60.0,
        "Delay a restart that only adds nodes until the workers have run for this long, or one"
        " of them has printed something. 0: no delay.",
        fills="elastic.gain_delay", untrusted=ANY)
    change_notice: str = option("",
        "Notify the workers before nodes join or leave, by a signal such as SIGUSR1 or by"
        " creating this file on every node.",
        metavar="HOW", values=("SIGUSR1", "SIGUSR2"), unset="no notice", elastic=True)
    change_delay: float = option(30.0, "Time between the notice and the restart of the workers.",
        untrusted=ANY)
    warm_workers: bool = option(False,
        "Preload --warm_modules, as --preload does, and keep a process waiting for each worker"
        " of the next round, so that a restart is faster.",
        fills="workers.warm", elastic=True)
    warm_modules: str = option("torch,torch._dynamo",
        "Modules that --warm_workers preloads in addition to those of --preload.",
        metavar="LIST", separator=",")

    # -- Cores and memory --
    accelerator: str | None = option(None,
        "Kind of device to use: {values}.",
        metavar="NAME", none="", values=_accelerators,
        unset="DSRUN_ACCELERATOR or DS_ACCELERATOR if set, else the devices of each node",
        tools=("hold", "check"))
    bind_cores_to_rank: bool = option(False,
        "Bind each rank to cores of its own near its device. Same as --bind_to core.")
    bind_core_list: str = option("",
        "Bind ranks to cores among these CPUs only: 0,2-5, or by host, n1:0-3@n2:4-7.",
        metavar="LIST", none="None", separator=",", unset="all CPUs that dsrun may use")
    bind_to: str | None = option(None,
        "Bind each rank to cores of its own (core), to the NUMA node of its device (numa) or to"
        " the socket of its device (socket).",
        metavar="WHAT", choices=("none", "core", "numa", "socket"), unset="none")
    numa_binding: str | None = option(None,
        "torchrun's option: bind each rank to the NUMA node or the socket of its device, to"
        " cores of its own within the node (exclusive), or to cores with a common cache"
        " (core-complex).",
        metavar="WHAT", choices=("node", "socket", "exclusive", "core-complex"), unset="none")
    bind_smt: str = option("yes",
        "Let bound ranks use all hardware threads of a core (yes), or only its first (no).",
        metavar="WHICH", choices=("yes", "no"))
    bind_memory: str = option("auto",
        "Where bound ranks allocate memory: on the NUMA nodes of their cores only (bind), there"
        " first (preferred), there in turn (interleave), anywhere (none), or like bind, with"
        " the node's faster memory first if it has some (auto).",
        metavar="POLICY", choices=("auto", "bind", "preferred", "interleave", "none"),
        fills="binding.memory")
    bind_nic: bool = option(False,
        "Set NCCL_IB_HCA and UCX_NET_DEVICES to the InfiniBand and RoCE ports near each device.",
        fills="binding.nics")
    report_bindings: bool = option(False,
        "Print the CPUs and the memory that each rank is bound to, as reported by the kernel."
        " No effect with --quiet.",
        fills="binding.report")

    # -- Several programs --
    roles: str | None = option(None,
        "Run several programs, called roles, in one job: a TOML file has a table [[role]] for each."
        " See docs/roles.md.",
        metavar="FILE", unset="one program", whole_job=True,
        not_in_python="use launch(roles=...)", file="read")
    program: str | None = option(None,
        "A role on the command line: the words up to a lone : are its options and program. The next"
        " role begins with another --program. Options before the first --program are for the"
        " whole job.",
        metavar="NAME", unset="one program", only_role=True)
    slots: str = option("",
        "For a role: use only these slots on each of its nodes (0-3), or this many (4). 0 is for"
        " workers without a device.",
        metavar="LIST", unset="all slots", separator=",", only_role=True)
    devices: int | None = option(None,
        "For a role: how many devices each worker has.",
        kind="int", positive=True, most=MAX_SLOTS, valid=f"1 to {MAX_SLOTS} (slots 0: no device)",
        unset="1",
        only_role=True)
    beside: str = option("",
        "For a role: run on the nodes and devices of another role; with --slots, on other slots of"
        " those nodes.",
        metavar="ROLE", unset="nodes of its own", only_role=True)
    ports: str = option("",
        "For a role: reserve ports of these names on each of its nodes. {port.NAME} in its"
        " arguments is replaced by the port's number.",
        metavar="LIST", separator=",", unset="none", only_role=True)
    after: str = option("",
        "For a role: start once these other roles are ready.",
        metavar="ROLES", separator=",", unset="at once", only_role=True)
    ready: str = option("started",
        "For a role: when it is ready: started, port:NAME (it accepts connections), http:PATH or"
        " http:NAME/PATH (it answers with 200), line:REGEX (a line of its output) or file:PATH (the"
        " file exists).",
        metavar="HOW", only_role=True)
    ready_timeout: float = option(600.0,
        "For a role: time limit until it is ready.",
        positive=True, only_role=True)
    ends: str | None = option(None,
        "For every role: what happens when it ends with code 0. job: the job ends, once the roles"
        " with wait have ended; wait: the job waits for it to end; never: it is a service, so its"
        " end is a failure.",
        metavar="WHAT", choices=("job", "wait", "never"), unset="none", only_role=True)
    on_failure: str = option("job",
        "For a role: when it fails, fail the job, or start it again, up to --max_restarts"
        " times.",
        metavar="WHAT", choices=("job", "restart"), only_role=True)

    # -- Configuration files --
    profile: str = option("",
        "Use the values of [profile.NAME] in the configuration files: the project's dsrun.toml,"
        " ~/.config/dsrun/config.toml and /etc/dsrun/config.toml.",
        metavar="NAME", unset="only [default]", tools=("hold", "exec", "check"), only_typed=True,
        not_in_python="programs read no configuration files", whole_job=True, offers="profiles")
    show_config: bool = option(False,
        "Print every option that is set, its value and where it is set, and start nothing.",
        tools=("hold", "exec", "check"), only_typed=True, not_in_python="it only prints",
        whole_job=True)
    no_config: bool = option(False,
        "Read no configuration files.",
        tools=("hold", "exec", "check"), only_typed=True,
        not_in_python="programs read no configuration files", whole_job=True)
    trust: str | None = option(None,
        "Trust dsrun.toml in the folder DIR: it may set any option, as long as its values that"
        " need trust stay as they are now.",
        metavar="DIR", unset="dsrun.toml sets only counts, filters, time limits, restarts, labels"
        " and the log level", only_typed=True, no_variable=True,
        not_in_python="programs read no configuration files", whole_job=True)
    trust_here: bool = option(False,
        "Trust the dsrun.toml that this command finds, for this command only.",
        tools=("hold", "exec", "check"), only_typed=True,
        not_in_python="programs read no configuration files", whole_job=True)
    # fmt: on


GROUPS = {
    "Hosts and devices": "hostfile",
    "Program": "module",
    "Environment of the workers": "export",
    "Starting the nodes": "launcher",
    "Checks before the start": "strict",
    "Output": "log_dir",
    "Watching a running job": "debug",
    "Failures and stopping": "grace",
    "Elastic jobs": "elastic_training",
    "Cores and memory": "accelerator",
    "Several programs": "roles",
    "Configuration files": "profile",
}
"""The groups of options in the help, in order, each with its first option."""


_ROWS = {name: spec for name, spec in vars(Options).items() if isinstance(spec, Option)}


def all_options() -> dict[str, Option]:
    """Return every option by the name of its field, in the order of the table."""
    return _ROWS


def of_roles() -> frozenset[str]:
    """Return the names of the options that only a role has, and of --roles."""
    return frozenset({"roles", *(name for name, row in _ROWS.items() if row.only_role)})


def table() -> dict[str, tuple[str, Option]]:
    """Return {name as typed, with underscores: (field, option)}."""
    return named(all_options())


def written(options: Options) -> dict[str, str]:
    """Return the paths of the files that options name for writing, by option."""
    rows = {name: row.default for name, row in _ROWS.items() if row.file == "written"}
    return {name: path for name, none in rows.items() if (path := getattr(options, name)) != none}


def shared(command: str) -> dict[str, Option]:
    """Return the options that dsrun shares with a command, whose name lacks `dsrun-`."""
    return {name: spec for name, spec in all_options().items() if command in spec.tools}
