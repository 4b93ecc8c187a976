"""Options that people know from other launchers, and the dsrun form of each. Pure.

Loaded only for an option that dsrun does not have.
"""

from __future__ import annotations

import re
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_SLURM = "with --launcher slurm, --launcher_args {typed}"
_MPIRUN = "with --launcher openmpi, --launcher_args {typed}"
_ACCELERATE = "set it in the script's Accelerator(...) (docs/recipes.md#accelerate)"
_TRAINER = "an argument of the script's Trainer(...) (docs/recipes.md#lightning)"
_HYDRA = "after the script: dsrun train.py ..."
_TORCHX = "dsrun -H FILE train.py starts the job itself"
_IMAGE = "--container RUNTIME:IMAGE, such as podman:IMAGE"
_PYXIS = "--container pyxis:IMAGE, with --mount A:B"
_TOTAL = "a total; --num_gpus N is the number per host"
_WORKERS = "--num_gpus N"
_LOGS = "--log_dir DIR writes files for each rank"
_TAGGED = "output lines begin with host and rank (--prefix)"
_VARIABLE = "--export NAME=VALUE"

SLURM = {
    **dict.fromkeys(
        (
            *("partition", "account", "time", "qos", "mem", "mem_per_cpu", "mem_per_gpu"),
            *("cpus_per_task", "constraint", "reservation", "job_name", "exclusive"),
            *("mem_bind", "cpu_bind", "gpu_bind", "cpus_per_gpu", "nice", "licenses", "switches"),
            *("mail_type", "mail_user", "comment", "dependency", "begin", "deadline", "overlap"),
            *("container_name", "hint", "immediate"),
            *("threads_per_core", "cores_per_socket", "sockets_per_node", "tres_per_task", "mpi"),
            *("gpu_freq", "cluster", "clusters", "wckey", "distribution", "kill_on_bad_exit"),
            *("oversubscribe", "priority", "profile_slurm", "spread_job", "tmp", "core_spec"),
        ),
        _SLURM,
    ),
    **dict.fromkeys(("container_image", "container_mounts", "container_workdir"), _PYXIS),
    "gres": f"{_WORKERS}, or {_SLURM}",
    "gpus": _TOTAL,
    "ntasks": _TOTAL,
    "gpus_per_task": f"{_WORKERS}: each worker has one GPU",
    "array": "dsrun starts one job; run it once per task",
    "wrap": "the script comes last: dsrun [options] train.py",
    "output": _LOGS,
    "error": _LOGS,
    "open_mode": _LOGS,
    "label": _TAGGED,
    "unbuffered": "output is never held back",
    "chdir": "--workdir DIR",
    "requeue": "--requeue_on CODES",
    "nodefile": "--hostfile FILE",
}
"""Options of srun, sbatch and salloc."""

MPIRUN = {
    **dict.fromkeys(
        (
            *("oversubscribe", "display_map", "display_allocation", "display"),
            *("rank_by", "iface", "rmk", "cpus_per_proc", "use_hwthread_cpus", "display_devel_map"),
            *("bootstrap", "rr", "tune", "am", "enable_recovery", "cpu_set"),
        ),
        _MPIRUN,
    ),
    "map_by": "ranks follow the order of the hosts; --bind_to core, numa or socket binds them",
    **dict.fromkeys(("mca", "gmca"), _MPIRUN.format(typed="'--mca NAME VALUE'")),
    "np": _TOTAL,
    "n": _TOTAL,
    **dict.fromkeys(("npernode", "ppn", "perhost"), _WORKERS),
    "pernode": "--num_gpus 1",
    "machinefile": "--hostfile FILE",
    "f": "--hostfile FILE",
    **dict.fromkeys(("genv", "genvlist", "envlist", "genvall"), _VARIABLE),
    **dict.fromkeys(("wdir", "wd"), "--workdir DIR"),
    **dict.fromkeys(("tag_output", "prepend_rank", "l", "timestamp_output"), _TAGGED),
    "output_filename": _LOGS,
    "outfile_pattern": _LOGS,
    "merge_stderr_to_stdout": "both are printed as they arrive",
    "allow_run_as_root": "not needed: root may run dsrun",
    "do_not_launch": "--dry_run",
    "gpus_per_proc": "each worker has one GPU",
}
"""Options of Open MPI's, MPICH's and Intel MPI's mpirun."""

ACCELERATE = {
    **dict.fromkeys(
        (
            *("config_file", "mixed_precision", "use_deepspeed", "use_fsdp", "dynamo_backend"),
            *("use_megatron_lm", "use_xpu", "ipex", "zero_stage", "deepspeed_config_file"),
            *("gradient_accumulation_steps", "gradient_clipping", "offload_optimizer_device"),
            *("offload_param_device", "zero3_init_flag", "zero3_save_16bit_model", "downcast_bf16"),
            *("deepspeed_multinode_launcher", "dynamo_mode", "dynamo_use_fullgraph", "fp8_backend"),
            *("same_network", "enable_cpu_affinity", "use_parallelism_config", "tpu"),
        ),
        _ACCELERATE,
    ),
    "multi_gpu": f"not needed: one worker per GPU is the default; {_WORKERS} for fewer",
    "num_processes": _TOTAL,
    "cpu": "--accelerator cpu",
    "use_cpu": "--accelerator cpu",
    "num_cpu_threads_per_process": "--export OMP_NUM_THREADS=N",
    "deepspeed_hostfile": "--hostfile FILE",
}
"""Options of `accelerate launch`."""

LIGHTNING = {
    **dict.fromkeys(("precision", "max_epochs", "max_steps", "fast_dev_run", "trainer"), _TRAINER),
    "strategy": _TRAINER,
    "main_address": "--master_addr ADDR",
    "main_port": "--master_port PORT",
}
"""Options of `fabric run`, and arguments of a Trainer."""

TORCHX = {
    **dict.fromkeys(("scheduler", "scheduler_args", "workspace"), _TORCHX),
    "j": "--num_nodes N --num_gpus M for NxM",
    "script": "the script comes last: dsrun [options] train.py",
    **dict.fromkeys(("image", "docker"), _IMAGE),
    "max_retries": "--max_restarts N",
}
"""Options of `torchx run dist.ddp`."""

HYDRA = dict.fromkeys(("multirun", "config_name", "config_path", "config_dir", "cfg"), _HYDRA)
"""Options of a program that uses Hydra."""

HOROVOD = {
    "network_interface": "--export NCCL_SOCKET_IFNAME=NAME",
    "network_interfaces": "--export NCCL_SOCKET_IFNAME=NAME",
    **dict.fromkeys(("min_np", "min_num_proc"), "--min_elastic_nodes N counts hosts"),
    **dict.fromkeys(("max_np", "max_num_proc"), "--max_elastic_nodes N counts hosts"),
    "slots_per_host": _WORKERS,
    "reset_limit": "--max_restarts N",
}
"""Options of horovodrun."""

ANY = {
    "c": "the program is a file; to run a line: --no_python python3 -c '...'",
    "world_size": "it follows from hosts and workers: --num_nodes N --num_gpus M",
    **dict.fromkeys(("num_workers", "workers"), f"workers on each host: {_WORKERS}"),
    **dict.fromkeys(("nproc_per_host", "procs_per_node", "processes", "gpu", "g"), _WORKERS),
    **dict.fromkeys(("verbose", "v"), "--log_level debug"),
    **dict.fromkeys(("nprocs", "num_procs", "nproc_per_gpu"), _WORKERS),
    **dict.fromkeys(("min_nodes", "max_nodes"), "--nnodes MIN:MAX makes a job elastic"),
    **dict.fromkeys(("cpus", "num_cpus"), "the workers share the CPUs; --bind_to binds them"),
    **dict.fromkeys(("deepspeed", "deepspeed_config"), _HYDRA),
    "silent": "--quiet",
    "port": "--master_port PORT",
    **dict.fromkeys(("master", "ip"), "--master_addr ADDR"),
    "rank": "--node_rank N is the rank of a node; dsrun assigns the ranks of workers",
    **dict.fromkeys(("cwd", "cd", "working_dir", "directory"), "--workdir DIR"),
    **dict.fromkeys(("log_file", "logfile", "stdout", "stderr", "o"), _LOGS),
    **dict.fromkeys(("virtualenv", "activate"), "--venv_script venv/bin/activate"),
    **dict.fromkeys(("conda", "conda_env", "interpreter"), "--python PATH"),
    **dict.fromkeys(("user", "login", "username"), "USER@HOST in --host or in the hostfile"),
    **dict.fromkeys(
        ("ssh_key", "identity", "key", "identity_file", "private_key"),
        "IdentityFile in ~/.ssh/config",
    ),
    **dict.fromkeys(("password", "ssh_password"), "only keys work: ssh-copy-id HOST, once"),
    **dict.fromkeys(("retries", "retry", "max_retry"), "--max_restarts N"),
    **dict.fromkeys(("cuda_visible_devices", "device_ids", "gpu_ids"), "--include localhost:0,1"),
    **dict.fromkeys(("follow", "tail"), "output is printed as it arrives"),
    **dict.fromkeys(("dryrun", "dry", "show", "print", "explain"), "--dry_run"),
    **dict.fromkeys(("nohup", "no_wait"), "--detach"),
    "use_ssh": "--launcher ssh",
    "timeout": "timeout 1h dsrun train.py ends a job after an hour",
    "name": "every job has an id; dsrun-job accepts it, or last",
    "yes": "dsrun asks no questions",
    "kill": "dsrun-job kill JOB",
    "status": "dsrun-job top",
    "list": "dsrun-job list",
}
"""Words of many programs."""

PROGRAMS = {
    "Slurm's": SLURM,
    "mpirun's": MPIRUN,
    "accelerate's": ACCELERATE,
    "Lightning's": LIGHTNING,
    "torchx's": TORCHX,
    "Hydra's": HYDRA,
    "horovodrun's": HOROVOD,
    "": ANY,
}
"""The tables, by the owner of their options."""

SHORT = {
    "p": "partition",
    "A": "account",
    "J": "job_name",
    "C": "constraint",
    "D": "chdir",
    "G": "gpus",
    "u": "unbuffered",
    "K": "kill_on_bad_exit",
    "o": "output",
    "s": "scheduler",
}
"""Letters of srun and torchx, and the options that they stand for."""


def words(shown: str, typed: str, names: Collection[str]) -> str:
    """Return the launcher of an option that dsrun lacks, and dsrun's form; "" if unknown.

    Args:
        shown: the option, without a value.
        typed: the option with its value, if any.
        names: the options that the command has.
    """
    key = shown.lstrip("-").replace("-", "_")
    if len(key) == 1:
        key = "cpus_per_task" if re.fullmatch("-c[ =]?[0-9]+", typed) else SHORT.get(key, key)
    for whose, known in PROGRAMS.items():
        text = known.get(key, "")
        if text and {*re.findall(r"(?<!dsrun )(?<!')--(\w+)", text)} <= {*names}:
            said = f"{whose}: {text}" if whose else text
            return said.replace("{typed}", shlex.quote(typed))
    return ""
