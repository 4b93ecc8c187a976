"""The commands of the engines: dsrun's arguments, and those that the user gives instead."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import backends
from dsrun.launcher.backends.engines.base import Engine
from dsrun.launcher.backends.engines.hydra import Hydra, best
from dsrun.launcher.backends.events import BackendWarning
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Node, Plan, by_task, lay_out
from dsrun.launcher.specs.program import Program

from ...support.needs import need

if TYPE_CHECKING:
    from pathlib import Path

ROOT = ["--allow-run-as-root"] if os.getuid() == 0 else []
MPI = ["openmpi", "mpich", "impi", "mvapich"]
SETTINGS = BackendSettings(python="/py", root="/dsrun")


def nodes(**slots: int) -> tuple[Node, ...]:
    return lay_out([Host(name, tuple(range(count))) for name, count in slots.items()])


def tasks(**slots: int) -> tuple[Node, ...]:
    return by_task(Plan(nodes(**slots), Program("train.py"), "mpich", None, None)).nodes


def engine(name: str, settings: BackendSettings = SETTINGS) -> Engine:
    backend = backends.load(name, settings)
    assert isinstance(backend, Engine)
    return backend


def own_words(name: str, some: tuple[Node, ...], settings: BackendSettings = SETTINGS) -> list[str]:
    """Return the engine's arguments, without its program and the address to dial."""
    argv = engine(name, settings).argv(some, None)[1:]
    words = argv[: argv.index("/py")]
    where = next((at for at, w in enumerate(words) if w in {"-localhost", "-iface"}), None)
    return words if where is None else words[:where] + words[where + 2 :]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith(("OMPI_", "PRTE_", "I_MPI_", "SLURM_"))]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "openmpi",
            [*ROOT, "--tag-output", "--host", "a:1,b:1", "--map-by", "slot", "--bind-to", "none"],
        ),
        ("mpich", ["-genvnone", "-wdir", "/", "-prepend-rank", "-hosts", "a:1,b:1", "-n", "2"]),
        (
            "impi",
            ["-genvnone", "-wdir", "/", "-prepend-rank", "-hosts", "a,b", "-ppn", "1", "-n", "2"],
        ),
        ("mvapich", ["-genvnone", "-wdir", "/", "-prepend-rank", "-hosts", "a:1,b:1", "-n", "2"]),
    ],
)
def test_one_node_launcher_a_node_however_many_slots(name: str, words: list[str]) -> None:
    assert own_words(name, nodes(a=2, b=3))[: len(words)] == words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "openmpi",
            [*ROOT, "--tag-output", "--host", "a:2,b:3", "--map-by", "slot", "--wdir", "/"],
        ),
        ("mpich", ["-genvnone", "-wdir", "/", "-prepend-rank", "-hosts", "a:2,b:3", "-n", "5"]),
        ("impi", ["-genvnone", "-wdir", "/", "-prepend-rank", "-host", "a", "-n", "2"]),
        ("mvapich", ["-genvnone", "-wdir", "/", "-prepend-rank", "-hosts", "a:2,b:3", "-n", "5"]),
    ],
)
def test_one_task_a_rank_on_uneven_hosts(name: str, words: list[str]) -> None:
    settings = SETTINGS._replace(rank_per_task=True)
    assert own_words(name, tasks(a=2, b=3), settings) == words
    assert f"--rank={name}" in engine(name, settings).argv(tasks(a=2, b=3), None)


@pytest.mark.parametrize("name", ["mpich", "mvapich"])
def test_hydra_is_told_no_address_of_ipv6(name: str) -> None:
    hydra = engine(name)
    assert isinstance(hydra, Hydra)
    with pytest.raises(UsageError, match=rf"--launcher {name}: .* over IPv6 alone \(fd00::1\)"):
        hydra.control_address("fd00::1")
    given = SETTINGS._replace(args=("-localhost", "10.0.0.1"))
    assert engine(name, given).argv(nodes(a=1), None).count("-localhost") == 1


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (["fd00::1", "10.0.0.1", "10.0.0.2"], ["10.0.0.1"]),
        (["fd00::1", "fd00::2"], ["fd00::1"]),
        ([], []),
    ],
)
def test_hydra_prefers_ipv4(own: list[str], told: list[str]) -> None:
    assert [*best(own)] == told


def test_intel_mpi_takes_uneven_hosts_in_parts() -> None:
    settings = SETTINGS._replace(rank_per_task=True)
    argv = engine("impi", settings).argv(tasks(a=2, b=3), None)
    parts = " ".join(argv).split(" : ")
    assert [part.split(" /py ")[0].split()[-4:] for part in parts] == [
        ["-host", "a", "-n", "2"],
        ["-host", "b", "-n", "3"],
    ]
    assert parts[0].endswith("--rank=impi")
    assert parts[1].endswith("--rank=impi")


@pytest.mark.parametrize(
    ("name", "given", "gone"),
    [
        ("openmpi", ["--bind-to", "core"], ["--bind-to", "none"]),
        ("openmpi", ["-bind-to", "core"], ["--bind-to", "none"]),
        ("openmpi", ["--map-by", "ppr:1:node"], ["--map-by", "slot"]),
        ("openmpi", ["-H", "c:1"], ["--host", "a:1,b:1"]),
        ("mpich", ["-genvall"], ["-genvnone"]),
        ("mpich", ["-np", "4"], ["-n", "2"]),
        ("impi", ["-perhost", "2"], ["-ppn", "1"]),
    ],
)
def test_an_option_of_the_users_takes_the_place_of_ours(
    name: str, given: list[str], gone: list[str]
) -> None:
    usual = own_words(name, nodes(a=2, b=2))
    changed = own_words(name, nodes(a=2, b=2), SETTINGS._replace(args=tuple(given)))
    at = next(i for i in range(len(usual)) if usual[i : i + len(gone)] == gone)
    assert changed == [*usual[:at], *usual[at + len(gone) :], *given]


@pytest.mark.parametrize("name", MPI)
def test_other_options_of_the_users_come_last(name: str) -> None:
    given = ("--mca", "btl_tcp_if_include", "eth7")
    assert own_words(name, nodes(a=1), SETTINGS._replace(args=given))[-3:] == list(given)


def test_a_parameter_of_the_users_replaces_none_but_its_own() -> None:
    bound = SETTINGS._replace(bind=True, args=("-genv", "FI_PROVIDER", "tcp"))
    words = own_words("impi", nodes(a=1), bound)
    assert words[words.index("-genv") :][:3] == ["-genv", "I_MPI_PIN", "0"]
    assert words[-3:] == ["-genv", "FI_PROVIDER", "tcp"]


@pytest.mark.parametrize(
    ("name", "off"),
    [
        ("openmpi", ["--bind-to", "none"]),
        ("mpich", ["-bind-to", "none"]),
        ("impi", ["-genv", "I_MPI_PIN", "0"]),
        ("mvapich", ["-genv", "MV2_ENABLE_AFFINITY", "0"]),
    ],
)
def test_a_ranks_binding_by_the_engine_is_off_only_where_dsrun_binds(
    name: str, off: list[str]
) -> None:
    free = SETTINGS._replace(rank_per_task=True)
    assert " ".join(off) not in " ".join(own_words(name, tasks(a=2), free))
    assert " ".join(off) in " ".join(own_words(name, tasks(a=2), free._replace(bind=True)))


@pytest.mark.parametrize(("bind", "kept"), [(False, True), (True, False)])
def test_a_binding_that_the_user_has_chosen_is_kept_unless_dsrun_binds(
    monkeypatch: pytest.MonkeyPatch, bind: bool, kept: bool
) -> None:
    monkeypatch.setenv("OMPI_MCA_hwloc_base_binding_policy", "core")
    words = own_words("openmpi", nodes(a=2, b=2), SETTINGS._replace(bind=bind))
    assert ("--bind-to" not in words) is kept


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openmpi", "OMPI_MCA_plm_rsh_args"),
        ("mpich", "HYDRA_LAUNCHER_EXTRA_ARGS"),
        ("mvapich", "HYDRA_LAUNCHER_EXTRA_ARGS"),
        ("impi", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"),
    ],
)
def test_its_ssh_gets_the_users_own_arguments_first(
    monkeypatch: pytest.MonkeyPatch, name: str, variable: str
) -> None:
    monkeypatch.setenv(variable, "-i key")
    told = engine(name, SETTINGS._replace(port=2222, connect_timeout=7)).environ()[variable]
    assert told == "-i key -o BatchMode=yes -o ConnectTimeout=7 -p 2222"


@pytest.mark.parametrize("name", ["openmpi", "mpich", "mvapich", "impi"])
def test_its_ssh_is_not_searched_in_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PATH", ".:/usr/bin::tools:/bin:")
    assert engine(name).environ()["PATH"] == "/usr/bin:/bin"


def program(folder: Path, name: str, version: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)
    return path


OPEN_MPI = "mpirun (Open MPI) 5.0.11 http://www.open-mpi.org/community/help/"
OPEN_MPI_4 = "mpirun (Open MPI) 4.1.4 http://www.open-mpi.org/community/help/"
ORTE = "mpirun.openmpi (OpenRTE) 4.1.4 http://www.open-mpi.org/community/help/"
HYDRA = "HYDRA build details:"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.18.1"


@pytest.mark.parametrize(
    ("name", "tool", "version", "whose"),
    [
        ("openmpi", "mpirun", HYDRA, "MPICH's"),
        ("openmpi", "mpirun", INTEL, "Intel MPI's"),
        ("mpich", "mpiexec", OPEN_MPI, "Open MPI's"),
        ("impi", "mpiexec.hydra", HYDRA, "MPICH's"),
        ("mvapich", "mpiexec", "anything else", "not a known MPI launcher"),
    ],
)
def test_a_program_of_another_family_is_refused(
    tmp_path: Path, name: str, tool: str, version: str, whose: str
) -> None:
    path = program(tmp_path, tool, version)
    for given in (tmp_path, path):
        problem = engine(name, SETTINGS._replace(path=str(given))).problem(nodes(a=1))
        told = "--launcher_path names its program or folder"
        assert problem == f"--launcher {name}: {path} is {whose}; {told}"


@pytest.mark.parametrize(
    ("name", "tool", "version"),
    [("openmpi", "mpirun", OPEN_MPI), ("mpich", "mpiexec", HYDRA), ("impi", "mpiexec", INTEL)],
)
def test_its_program_is_found_in_a_folder_or_its_bin(
    tmp_path: Path, name: str, tool: str, version: str
) -> None:
    (tmp_path / "bin").mkdir()
    path = program(tmp_path / "bin", tool, version)
    for given in (tmp_path, tmp_path / "bin", path):
        one = engine(name, SETTINGS._replace(path=str(given)))
        assert not one.problem(nodes(a=1))
        assert one.argv(nodes(a=1), None)[0] == str(path)


def test_no_program_at_all(tmp_path: Path) -> None:
    problem = engine("openmpi", SETTINGS._replace(path=str(tmp_path))).problem(nodes(a=1))
    assert problem.startswith("--launcher openmpi: no mpirun or mpiexec or mpirun.openmpi or")
    assert f"in {tmp_path}; --launcher_path" in problem


@pytest.mark.parametrize("name", MPI)
def test_a_user_or_port_of_one_host_is_no_engines_business(name: str) -> None:
    some = lay_out([Host("a", (0,), port=2222, where="hosts:3")])
    assert engine(name).problem(some) == (
        f"hosts:3: {name} cannot use a separate user or port for a; set it in ~/.ssh/config,"
        " or use --launcher ssh"
    )


@pytest.mark.parametrize(
    ("name", "version"),
    [("openmpi", ORTE), ("openmpi", OPEN_MPI), ("mpich", HYDRA), ("impi", INTEL)],
)
def test_an_ipv6_address_is_nothing_for_mpi(tmp_path: Path, name: str, version: str) -> None:
    path = program(tmp_path, "mpirun", version)
    some = lay_out([Host("a", (0,)), Host("fd00::1", (0,))])
    assert engine(name, SETTINGS._replace(path=str(path))).problem(some) == (
        f"--launcher {name}: IPv6 address fd00::1; use a host name, or --launcher ssh"
    )


@pytest.mark.parametrize("version", [ORTE, OPEN_MPI_4, OPEN_MPI])
@pytest.mark.parametrize(
    ("name", "dies"),
    [
        ("n" * 60, True),
        (f"{'n' * 50}7", True),
        (f"{'gpu-' * 15}1.site.org", True),
        ("n" * 49, False),
        (f"n1{'n' * 60}", False),
        (f"n1.{'n' * 60}.org", False),
    ],
)
def test_names_that_open_mpi_4_aborts_on(
    tmp_path: Path, name: str, version: str, *, dies: bool
) -> None:
    path = program(tmp_path, "mpirun", version)
    some = lay_out([Host("a", (0,)), Host(name, (0,))])
    problem = engine("openmpi", SETTINGS._replace(path=str(path))).problem(some)
    assert bool(problem) == (dies and version != OPEN_MPI)
    if problem:
        assert problem.startswith("--launcher openmpi: Open MPI 4 aborts on names with 50 char")
        assert name in problem


@pytest.mark.parametrize(
    ("version", "args", "wrong"),
    [
        (OPEN_MPI, "-bind-to none", "write --bind-to"),
        (OPEN_MPI, "--mca a b -map-by node", "write --map-by"),
        (OPEN_MPI, "-rank-by=slot", "write --rank-by"),
        (OPEN_MPI, "--bind-to none -np 2", ""),
        (OPEN_MPI_4, "-bind-to none", ""),
    ],
)
def test_options_that_open_mpi_5_knows_with_two_dashes_only(
    tmp_path: Path, version: str, args: str, wrong: str
) -> None:
    path = program(tmp_path, "mpirun", version)
    settings = SETTINGS._replace(path=str(path), args=tuple(args.split()))
    told = f"--launcher openmpi: --launcher_args: Open MPI 5 needs two dashes here: {wrong}"
    assert engine("openmpi", settings).problem(nodes(a=1)) == (told if wrong else "")


@pytest.mark.parametrize("version", [ORTE, OPEN_MPI_4])
def test_open_mpi_4_under_any_name_is_no_prrte(tmp_path: Path, version: str) -> None:
    one = engine("openmpi", SETTINGS._replace(path=str(program(tmp_path, "mpirun", version))))
    assert not one.problem(nodes(a=1))
    assert one.fault_tolerance() == [("--mca", "orte_abort_on_non_zero_status", "0")]
    assert "BatchMode=yes" in one.environ()["OMPI_MCA_plm_rsh_args"]


def test_slurm_outside_of_a_job() -> None:
    assert engine("slurm").problem(nodes(a=1)) == (
        "--launcher slurm: this is not inside a Slurm job (no SLURM_JOB_NODELIST); start dsrun"
        " from a script for sbatch, or after salloc"
    )


@pytest.fixture
def in_slurm(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Four nodes are allocated."""
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-4]")
    return monkeypatch


@pytest.mark.usefixtures("in_slurm")
def test_slurm_starts_one_task_a_node() -> None:
    assert own_words("slurm", nodes(n1=2, n2=2, n3=2, n4=2)) == [
        *("--nodes=4", "--ntasks=4", "--ntasks-per-node=1", "--mpi=none"),
        *("--kill-on-bad-exit=1", "--input=none", "--label", "--chdir=/", "--cpu-bind=none"),
        "--overlap",
    ]
    assert "--nodelist=n3,n1" in own_words("slurm", nodes(n3=2, n1=2))


@pytest.mark.usefixtures("in_slurm")
def test_slurm_gets_its_own_names() -> None:
    some = nodes(**{"n3.site.org": 2, "N1": 2})
    assert "--nodelist=n3,n1" in own_words("slurm", some)
    assert [node.host.name for node in engine("slurm").tasks(some)] == ["N1", "n3.site.org"]


@pytest.mark.usefixtures("in_slurm")
def test_slurm_numbers_its_tasks_in_its_own_order() -> None:
    some = nodes(n3=1, n1=1, n4=1)
    assert [node.host.name for node in engine("slurm").tasks(some)] == ["n1", "n3", "n4"]
    a_rank = SETTINGS._replace(rank_per_task=True)
    assert [*engine("slurm", a_rank).tasks(some)] == [*some]
    assert [*engine("mpich").tasks(some)] == [*some]


def test_open_mpi_4_begins_with_this_machine(tmp_path: Path) -> None:
    here = os.uname().nodename
    some = lay_out([Host(name, (0,)) for name in ("other1", here, "other2")])
    for version, hosts in (
        (ORTE, [here, "other1", "other2"]),
        (OPEN_MPI_4, [here, "other1", "other2"]),
        (OPEN_MPI, ["other1", here, "other2"]),
    ):
        path = program(tmp_path, "mpirun", version)
        one = engine("openmpi", SETTINGS._replace(path=str(path)))
        assert not one.problem(some)
        assert [node.host.name for node in one.tasks(some)] == hosts


@pytest.mark.parametrize(
    ("name", "line", "number"),
    [
        ("openmpi", "[1,0]<stdout>:text", "0"),
        ("openmpi", "[prterun-login-7@1,12]<stderr>: text", "12"),
        ("openmpi", "[login:07] text", None),
        ("mpich", "[3] text", "3"),
        ("impi", "[proxy:0:1@n2] text", None),
        ("mvapich", "[mpiexec@login] text", None),
        ("slurm", "11: text", "11"),
        ("slurm", "srun: error: text", None),
    ],
)
def test_the_label_of_a_task(name: str, line: str, number: str | None) -> None:
    label = re.match(engine(name).label, line)
    assert (label and label[1]) == number
    assert label is None or line[label.end() :] == "text"


@pytest.mark.usefixtures("in_slurm")
def test_slurm_starts_one_task_a_rank_in_the_order_of_the_hosts() -> None:
    words = own_words("slurm", tasks(n3=1, n1=2), SETTINGS._replace(rank_per_task=True))
    assert words[:4] == [
        "--nodes=2",
        "--ntasks=3",
        "--distribution=arbitrary",
        "--nodelist=n3,n1,n1",
    ]


def test_slurms_step_shares_the_nodes_with_others(in_slurm: pytest.MonkeyPatch) -> None:
    assert "--overlap" in own_words("slurm", nodes(n1=1))
    alone = SETTINGS._replace(args=("--exclusive",))
    assert "--overlap" not in own_words("slurm", nodes(n1=1), alone)
    in_slurm.setenv("SLURM_GPUS", "10")
    in_slurm.setenv("SLURM_STEP_ID", str(0xFFFFFFFB))  # the batch script
    assert "--overlap" not in own_words("slurm", nodes(n1=1))
    in_slurm.setenv("SLURM_STEP_ID", "0")
    assert "--overlap" in own_words("slurm", nodes(n1=1))


def test_what_sbatch_says_of_workers_is_not_said_of_node_launchers(
    in_slurm: pytest.MonkeyPatch,
) -> None:
    in_slurm.setenv("SLURM_GPUS_PER_TASK", "1")
    in_slurm.setenv("SLURM_NTASKS", "8")
    in_slurm.setenv("SLURM_MPI_TYPE", "pmix")
    assert "--gpus=8" in own_words("slurm", nodes(n1=2, n2=2, n3=2, n4=2))
    environ = engine("slurm").environ()
    assert "SLURM_GPUS_PER_TASK" not in environ
    assert environ["SLURM_MPI_TYPE"] == "pmix"
    ranks = engine("slurm", SETTINGS._replace(rank_per_task=True)).environ()
    assert ranks["SLURM_GPUS_PER_TASK"] == "1"


INPUTS = """
    ACCOUNT ACCTG_FREQ BCAST BCAST_EXCLUDE BURST_BUFFER CLUSTERS COMPRESS CONSTRAINT CORE_SPEC
    CPU_BIND CPU_FREQ_REQ CPUS_PER_GPU CPUS_PER_TASK DEBUG DEBUG_FLAGS DELAY_BOOT DEPENDENCY
    DISABLE_STATUS DIST_PLANESIZE DISTRIBUTION EPILOG EXACT EXCLUSIVE EXIT_ERROR EXIT_IMMEDIATE
    EXPORT_ENV GPU_BIND GPU_FREQ GPUS GPUS_PER_NODE GPUS_PER_TASK GRES GRES_FLAGS HINT HOSTFILE
    IMMEDIATE KILL_BAD_EXIT LABELIO MEM_BIND MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE NETWORK NO_KILL
    NTASKS_PER_CORE NTASKS_PER_GPU NTASKS_PER_NODE NTASKS_PER_SOCKET OOM_KILL_STEP OPEN_MODE
    OVERCOMMIT OVERLAP PARTITION POWER PROFILE PROLOG QOS REMOTE_CWD REQ_SWITCH RESERVATION
    RESV_PORTS SEGMENT_SIZE SEND_LIBS SIGNAL SPREAD_JOB STDERRMODE STDINMODE STDOUTMODE STEP_GRES
    STEPMGR TASK_EPILOG TASK_PROLOG TEST_EXEC THREAD_SPEC THREADS THREADS_PER_CORE TIMELIMIT
    TREE_WIDTH TRES_BIND TRES_PER_TASK UMASK UNBUFFEREDIO USE_MIN_NODES WAIT WAIT4SWITCH
    WAIT_FOR_CHILDREN WCKEY WORKING_DIR
"""
"""What srun(1) of Slurm 22.05 and 25.05 names as input, without SLURM_, but for what stays."""
STAYS = """
    SLURM_CONF SLURM_JOB_ID SLURM_JOB_NAME SLURM_JOB_NUM_NODES SLURM_NNODES SLURM_NTASKS
    SLURM_NPROCS SLURM_MPI_TYPE SLURM_JOB_NODELIST SLURM_JOB_GPUS SLURM_ARRAY_TASK_ID
    SLURM_RESTART_COUNT SLURM_SUBMIT_DIR SLURM_CLUSTER_NAME SLURM_SPANK_X SLURM_JWT
"""
RANKS = "CPUS_PER_TASK GPUS_PER_TASK TRES_PER_TASK GPU_BIND NTASKS_PER_GPU HINT THREADS_PER_CORE"


@pytest.mark.parametrize("rank_per_task", [False, True])
def test_srun_takes_no_options_from_variables(
    in_slurm: pytest.MonkeyPatch, rank_per_task: bool
) -> None:
    inputs = [f"SLURM_{name}" for name in INPUTS.split()]
    others = "SLURMD_DEBUG SRUN_CONTAINER SRUN_EXPORT_ENV SRUN_OUTPUT SRUN_ERROR SRUN_INPUT"
    for name in (*inputs, *others.split(), *STAYS.split(), "PMI_RANK"):
        in_slurm.setenv(name, "n1" if name == "SLURM_JOB_NODELIST" else "1")
    environ = engine("slurm", SETTINGS._replace(rank_per_task=rank_per_task)).environ()
    assert environ.keys() >= {*STAYS.split()}
    ranks = {f"SLURM_{name}" for name in RANKS.split()}
    assert {*inputs, *others.split(), "PMI_RANK"} & environ.keys() - ranks == (
        {
            "SLURM_NTASKS_PER_CORE",
            "SLURM_NTASKS_PER_SOCKET",
            "SLURM_DISTRIBUTION",
            "SLURM_TRES_BIND",
        }
        if rank_per_task
        else set()
    )
    assert (ranks <= environ.keys()) is rank_per_task


def test_every_variable_that_the_installed_srun_reads_is_known(
    in_slurm: pytest.MonkeyPatch,
) -> None:
    need("man", "srun")
    page = subprocess.run(["man", "-P", "cat", "srun"], capture_output=True, text=True, check=False)
    part = page.stdout.partition("INPUT ENVIRONMENT VARIABLES")[2].partition("OUTPUT ENV")[0]
    named = set(re.findall(r"(?m)^ {7}((?:SLURM|SRUN|SLURMD)_[A-Z0-9_]+)", part))
    if not named:
        pytest.skip("no manual page of srun")
    assert len(named) > 80
    for name in named - {"SLURM_JOB_ID"}:
        in_slurm.setenv(name, "1")
    tuning = {"SLURM_PMI_KVS_NO_DUP_KEYS"}
    assert named & engine("slurm").environ().keys() <= {*STAYS.split()} | tuning


def test_options_that_srun_does_not_get_are_told(
    in_slurm: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(tmp_path, "srun", "")
    for name in ("GRES", "TIMELIMIT", "STDOUTMODE", "GPUS_ON_NODE", "GPUS_PER_NODE", "EXACT"):
        in_slurm.setenv(f"SLURM_{name}", "2" if "GPUS" in name else "gpu:1")
    in_slurm.setenv("SLURM_EXACT", "")
    one = engine("slurm", SETTINGS._replace(path=str(tmp_path)))
    events: list[object] = []
    one.start(nodes(n1=1), Loop(), events.append, None)
    one.close()
    assert events[0] == BackendWarning(
        "srun takes options only from --launcher_args, not SLURM_STDOUTMODE, SLURM_TIMELIMIT"
    )


def test_gpus_of_another_job_are_not_requested(in_slurm: pytest.MonkeyPatch) -> None:
    for name, value in (("GPUS_ON_NODE", "2"), ("GPUS", "1"), ("GPUS_PER_TASK", "1")):
        in_slurm.setenv(f"SLURM_{name}", value)
    in_slurm.setenv("SLURM_NTASKS", "1")
    words = own_words("slurm", nodes(n1=2, n2=2, n3=2, n4=2))
    assert not [word for word in words if word.startswith("--gpus")]


@pytest.mark.parametrize("name", MPI)
def test_a_step_of_an_mpi_launchers_agents_shares_the_nodes(
    in_slurm: pytest.MonkeyPatch, name: str
) -> None:
    """In a shell of `srun --pty`, whose step has the nodes, its srun waited for ever."""
    in_slurm.setenv("SLURM_STEP_ID", "0")
    assert engine(name).environ()["SLURM_OVERLAP"] == "1"
    in_slurm.setenv("SLURM_EXCLUSIVE", "1")  # srun refuses both
    assert "SLURM_OVERLAP" not in engine(name).environ()
    in_slurm.delenv("SLURM_EXCLUSIVE")
    in_slurm.delenv("SLURM_JOB_ID")
    assert "SLURM_OVERLAP" not in engine(name).environ()


def test_mpirun_has_all_nodes_of_the_job_in_a_shell_of_one_of_its_steps(
    in_slurm: pytest.MonkeyPatch,
) -> None:
    """It reads the nodes of the job, and the number of tasks of the step: all were on the first."""
    in_slurm.setenv("SLURM_JOB_CPUS_PER_NODE", "8(x4)")
    for name, value in (("NODELIST", "n1"), ("TASKS_PER_NODE", "1")):
        in_slurm.setenv(f"SLURM_{name}", value)
    assert engine("openmpi").environ()["SLURM_TASKS_PER_NODE"] == "1", "not in a step"
    in_slurm.setenv("SLURM_STEP_ID", "0")
    found = engine("openmpi").environ()
    assert found["SLURM_NODELIST"] == "n[1-4]"
    assert found["SLURM_TASKS_PER_NODE"] == "8(x4)"


@pytest.mark.parametrize("name", [*MPI, "slurm"])
def test_no_engine_is_a_task_of_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRTE_MCA_x", "1")
    assert engine(name).environ()["PRTE_MCA_x"] == "1"
    for one in ("PMI_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "OMPI_MCA_ess"):
        monkeypatch.setenv(one, "1")
    told = engine(name).environ()
    assert not [
        one for one in told if one.startswith(("PMI_", "PMIX_N", "OMPI_COMM", "OMPI_MCA_e"))
    ]


@pytest.mark.parametrize("name", [*MPI, "slurm"])
@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("srun: error: Unable to confirm allocation for job 12: Invalid job id specified", True),
        ("srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 12", True),
        ("what resources are available, the SLURM\nresource allocator expects to find", True),
        ("srun: error: Unable to create step", False),
    ],
)
def test_what_to_do_about_a_job_that_has_ended(
    in_slurm: pytest.MonkeyPatch, name: str, line: str, known: bool
) -> None:
    said = "if Slurm job 12 has ended, remove its leftover variables: `unset SLURM_JOB_ID`"
    assert engine(name).advice(["other", *line.split("\n")]) == (said if known else "")
    in_slurm.delenv("SLURM_JOB_ID")
    assert engine(name).advice([line]) == ""


def test_a_lone_job_id_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    told = engine("slurm").problem(nodes(a=1))
    assert told.startswith("--launcher slurm: SLURM_JOB_ID is 9, but SLURM_JOB_NODELIST is not set")
    assert "`unset SLURM_JOB_ID`" in told


def test_each_component_of_a_heterogeneous_job_has_its_part(
    in_slurm: pytest.MonkeyPatch,
) -> None:
    in_slurm.setenv("SLURM_HET_SIZE", "2")
    in_slurm.setenv("SLURM_JOB_ID_HET_GROUP_0", "12")
    in_slurm.setenv("SLURM_JOB_NODELIST_HET_GROUP_0", "n1")
    in_slurm.setenv("SLURM_JOB_NODELIST_HET_GROUP_1", "n[2-3]")
    parts = " ".join(engine("slurm").argv(nodes(n1=1, n2=4, n3=4), None)).split(" : ")
    assert [part.removeprefix("srun ").split()[:2] for part in parts] == [
        ["--het-group=0", "--nodes=1"],
        ["--het-group=1", "--nodes=2"],
    ]
    assert "--het-group=0" not in engine("slurm").argv(nodes(n3=4), None)


@pytest.mark.usefixtures("in_slurm")
def test_a_host_outside_of_the_slurm_job() -> None:
    problem = engine("slurm").problem(nodes(n1=1, n9=1))
    assert problem.startswith("--launcher slurm: Slurm job 12 (")
    assert problem.endswith(" has no host n9; it has n1,n2,n3,n4")
