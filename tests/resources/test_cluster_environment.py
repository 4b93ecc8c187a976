"""Which node this is, by what schedulers and launchers leave in the environment of a task."""

import os
import pty
import random

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.resources import allocation, cluster_environment
from dsrun.launcher.resources.cluster_environment import ClusterEnvironment, has_terminal

# As Slurm 22.05, its Hydra and Open MPI 4.1 set them, but for what nobody reads here.
SRUN = """
    SLURM_JOB_ID=12 SLURM_JOB_NODELIST=n[1-2] SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n[1-2]
    SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=1 SLURM_PROCID=1 SLURM_LOCALID=0
    SLURM_NTASKS=2 SLURM_NTASKS_PER_NODE=2 SLURM_TASKS_PER_NODE=1(x2)
"""
SRUN_ONE_TASK = """
    SLURM_JOB_ID=12 SLURM_JOB_NODELIST=n[1-2] SLURM_STEP_ID=3 SLURM_STEP_NODELIST=n2
    SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=1 SLURM_NODEID=0 SLURM_PROCID=0
"""
SRUN_FOUR_TASKS = """
    SLURM_JOB_ID=2 SLURM_JOB_NODELIST=n[1-2] SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n[1-2]
    SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=4 SLURM_NODEID=1 SLURM_PROCID=2 SLURM_LOCALID=0
"""
SRUN_COMPONENTS = """
    SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n[1-3] SLURM_HET_SIZE=2 SLURM_STEP_ID=0
    SLURM_JOB_ID_HET_GROUP_0=1 SLURM_JOB_NODELIST_HET_GROUP_0=n3
    SLURM_JOB_ID_HET_GROUP_1=2 SLURM_JOB_NODELIST_HET_GROUP_1=n[1-2]
    SLURM_STEP_NODELIST=n[1-3] SLURM_STEP_NUM_NODES=3 SLURM_STEP_NUM_TASKS=3
    SLURM_NODEID=2 SLURM_PROCID=2
"""
SRUN_SECOND_COMPONENT = f"""
    {SRUN_COMPONENTS} SLURM_JOB_NODELIST=n[1-2] SLURM_STEP_ID=1 SLURM_STEP_NODELIST=n[1-2]
    SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=1 SLURM_PROCID=1
"""
SRUN_COMPONENTS_WITHOUT_SBATCH = """
    SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2] SLURM_HET_SIZE=2 SLURM_STEP_ID=0
    SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2
    SLURM_NODEID=1 SLURM_PROCID=1
"""
BATCH = """
    SLURM_JOB_ID=11 SLURM_JOB_NODELIST=n4 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
    SLURM_TASKS_PER_NODE=1
"""
HYDRA_IN_SLURM = """
    PMI_RANK=1 PMI_SIZE=2 PMI_FD=5 MPI_LOCALNRANKS=1 MPI_LOCALRANKID=0
    SLURM_JOB_ID=2 SLURM_JOB_NODELIST=n[1-2] SLURM_STEP_ID=1 SLURM_STEP_NODELIST=n[1-2]
    SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=1 SLURM_PROCID=1
"""
OPEN_MPI_IN_SLURM = """
    OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1
    OMPI_COMM_WORLD_LOCAL_RANK=0 SLURM_JOB_ID=2 SLURM_JOB_NODELIST=n[1-2] SLURM_STEP_ID=3
    SLURM_STEP_NODELIST=n2 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=1 SLURM_NODEID=0
    SLURM_PROCID=0
"""
TRAINER = """
    PET_NNODES=30 PET_NPROC_PER_NODE=8 PET_NODE_RANK=3 PET_MASTER_ADDR=job-node-0-0.job
    PET_MASTER_PORT=29500 JOB_COMPLETION_INDEX=3
"""
PYTORCHJOB = """
    PET_NNODES=2 PET_NPROC_PER_NODE=auto MASTER_ADDR=job-master-0 MASTER_PORT=23456
    WORLD_SIZE=2 RANK=1
"""
OPERATORS_LAUNCHER = "JOB_COMPLETION_INDEX=0 OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile"

NAME_RULE = "is not a host name (letters, digits, '.', '_', '-'; not only digits)"
FIX = "dsrun starts the workers itself: use"
ONE_TASK = "dsrun starts the workers itself, so start one task per node"
TORCHRUN = "torchrun's variables (PET_NODE_RANK)"


def environment(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in text.split())}


def find(text: str, *, hostname: str = "h", terminal: bool = False) -> ClusterEnvironment | None:
    return cluster_environment.find(environment(text), hostname, terminal=terminal)


def fault_of(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        find(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "node", "hosts", "step"),
    [
        (SRUN, 1, "n1 n2", "12.0"),
        (SRUN_ONE_TASK, 0, "n2", "12.3"),
        (f"{SRUN} PMI_RANK=1 PMI_SIZE=2 PMI_FD=11", 1, "n1 n2", "12.0"),
        # The list of a step is sorted, its nodes are numbered by components.
        (SRUN_COMPONENTS, 2, "n3 n1 n2", "1.0"),
        (SRUN_SECOND_COMPONENT, 1, "n1 n2", "1.1"),
        # Left over from the job that this one was submitted in.
        (f"{SRUN_COMPONENTS} {SRUN}", 1, "n1 n2", "12.0"),
    ],
)
def test_a_task_of_srun(text: str, node: int, hosts: str, step: str) -> None:
    found = find(text)
    names = tuple(hosts.split())
    assert found
    assert (found.node_rank, found.nodes) == (node, len(names))
    assert (found.hosts, found.master_addr) == (names, names[0])
    assert (found.slots, found.master_port) == (None, None)
    assert found.words == f"a task of srun (step {step}, SLURM_NODEID)"


def test_a_task_of_components_that_nothing_tells_apart() -> None:
    found = find(SRUN_COMPONENTS_WITHOUT_SBATCH)
    assert found
    assert (found.node_rank, found.nodes, found.hosts, found.master_addr) == (1, 2, (), None)


def test_steps_on_one_node_are_dialled_at_different_ports() -> None:
    steps = [f"{SRUN} SLURM_JOB_ID={job} SLURM_STEP_ID={step}" for job in (12, 13) for step in "01"]
    ports = {found.control_port for found in map(find, steps) if found}
    assert len(ports) == 4
    assert all(port and 1024 < port < 32768 for port in ports)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HYDRA_IN_SLURM, (1, 2, None, None, None, "a task of an MPI launcher (PMI_RANK)")),
        (
            OPEN_MPI_IN_SLURM,
            (1, 2, None, None, None, "a task of an MPI launcher (OMPI_COMM_WORLD_RANK)"),
        ),
        (
            "MV2_COMM_WORLD_RANK=0 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_SIZE=1",
            (0, 4, None, None, None, "a task of an MPI launcher (MV2_COMM_WORLD_RANK)"),
        ),
        (
            "PALS_RANKID=3 PMI_RANK=3 PMI_SIZE=4 PMI_LOCAL_SIZE=1",
            (3, 4, None, None, None, "a task of an MPI launcher (PALS_RANKID)"),
        ),
        (TRAINER, (3, 30, "job-node-0-0.job", 29500, 8, TORCHRUN)),
        (PYTORCHJOB, (1, 2, "job-master-0", 23456, None, "torchrun's variables (RANK)")),
        (f"{SRUN} {TRAINER}", (3, 30, "job-node-0-0.job", 29500, 8, TORCHRUN)),
    ],
)
def test_a_task_knows_its_node(
    text: str, expected: tuple[int, int, str | None, int | None, int | None, str]
) -> None:
    by_launcher = expected[-1].startswith("a task ")
    assert find(text) == ClusterEnvironment(*expected, task=by_launcher)


@pytest.mark.parametrize(
    ("variables", "nodes", "master", "port", "slots"),
    [
        ("", None, None, None, None),
        ("PET_NNODES=2", 2, None, None, None),
        ("PET_NNODES=2:2", 2, None, None, None),
        ("PET_MASTER_ADDR=m", None, "m", None, None),
        ("PET_MASTER_ADDR=m MASTER_ADDR=x MASTER_PORT=9", None, "m", None, None),
        ("PET_MASTER_ADDR=m PET_RDZV_ENDPOINT=x:9", None, "m", None, None),
        ("PET_RDZV_ENDPOINT=m:29400", None, "m", 29400, None),
        ("PET_RDZV_ENDPOINT=m", None, "m", None, None),
        ("PET_RDZV_ENDPOINT=[::1]:29400", None, "::1", 29400, None),
        ("PET_RDZV_ENDPOINT=[::1]", None, "::1", None, None),
        ("PET_NPROC_PER_NODE=4", None, None, None, 4),
        ("PET_NPROC_PER_NODE=gpu", None, None, None, None),
        ("PET_NPROC_PER_NODE=cpu", None, None, None, None),
    ],
)
def test_what_torchruns_variables_say(
    variables: str, nodes: int | None, master: str | None, port: int | None, slots: int | None
) -> None:
    found = find(f"PET_NODE_RANK=1 {variables}")
    assert found == ClusterEnvironment(1, nodes, master, port, slots, TORCHRUN, task=False)


@pytest.mark.parametrize(
    ("hostname", "master"),
    [
        ("train-3", "train-0"),
        ("train-3.train-svc", "train-0.train-svc"),
        ("a-b-3.svc.ns.svc.cluster.local", "a-b-0.svc.ns.svc.cluster.local"),
        ("train-13", None),
        ("train3", None),
        ("train-x7k2p", None),
        ("-3", None),
        ("", None),
    ],
)
def test_a_pod_of_an_indexed_job(hostname: str, master: str | None) -> None:
    found = find("JOB_COMPLETION_INDEX=3", hostname=hostname)
    words = "a pod of an indexed Job (JOB_COMPLETION_INDEX)"
    assert found == ClusterEnvironment(3, None, master, None, None, words)


@pytest.mark.parametrize(
    "text",
    [
        "",
        BATCH,
        # sbatch from a task: the step is not one of this job.
        f"{SRUN} {BATCH}",
        f"{SRUN} SLURM_STEP_ID=4294967290",
        f"{SRUN} SLURM_STEP_ID=4294967291",
        f"{SRUN} SLURM_STEP_ID=4294967292",
        f"{SRUN} SLURM_PROCID=",
        f"{SRUN} SLURM_STEP_NODELIST=",
        f"{SRUN} SLURM_JOB_NODELIST=",
        "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_SIZE=1",
        "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2",
        "PMI_RANK=0 PMI_SIZE=2",
        "PMI_SIZE=2 MPI_LOCALNRANKS=1",
        "PET_NNODES=2 PET_MASTER_ADDR=m",
        "RANK=1 WORLD_SIZE=2 MASTER_ADDR=m MASTER_PORT=9",
        f"{PYTORCHJOB} LOCAL_RANK=0",
        OPERATORS_LAUNCHER,
    ],
)
def test_what_is_no_task(text: str) -> None:
    assert find(text) is None


@pytest.mark.parametrize(
    ("text", "terminal", "member"),
    [
        (SRUN_ONE_TASK, True, False),
        (f"{SRUN_ONE_TASK} SLURM_PTY_PORT=39279", True, False),
        # srun --pty with several tasks: the shell is task 0, the others have no terminal.
        (f"{SRUN} SLURM_NODEID=0 SLURM_PROCID=0 SLURM_PTY_PORT=39279", True, False),
        (f"{SRUN_FOUR_TASKS} SLURM_NODEID=0 SLURM_PROCID=0 SLURM_PTY_PORT=39279", True, False),
        # srun in such a shell: its tasks inherit the variable.
        (f"{SRUN} SLURM_PTY_PORT=39279", False, True),
        (f"{SRUN_ONE_TASK} SLURM_PTY_PORT=39279", False, True),
        # srun -N2 unbuffer: a terminal for each task.
        (SRUN, True, True),
        (HYDRA_IN_SLURM, True, True),
    ],
)
def test_a_shell_in_a_terminal_is_no_task(text: str, terminal: bool, member: bool) -> None:
    assert (find(text, terminal=terminal) is not None) is member


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SRUN_FOUR_TASKS,
            f"srun started dsrun 4 times on 2 nodes; {FIX} srun --nodes=2 --ntasks=2 dsrun ..., "
            "or dsrun without srun in the batch script",
        ),
        (
            f"{SRUN_ONE_TASK} SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3",
            f"srun started dsrun 4 times on 1 node; {FIX} srun --nodes=1 --ntasks=1 dsrun ..., "
            "or dsrun without srun in the batch script",
        ),
        (
            f"{SRUN} SLURM_PROCID=0",
            "SLURM_NODEID is 1, but SLURM_PROCID is 0; expected the same number,"
            " as srun --ntasks-per-node=1 sets them",
        ),
        (
            f"{SRUN} SLURM_NODEID=2 SLURM_PROCID=2",
            "SLURM_NODEID: 2: there are 2 nodes, 0 to 1",
        ),
        (f"{SRUN} SLURM_STEP_ID=x", "SLURM_STEP_ID: 'x': expected a whole number, 0 or more"),
        (
            f"{SRUN} SLURM_STEP_NODELIST=n[ SLURM_JOB_NODELIST=n[",
            "SLURM_STEP_NODELIST: 'n[': unmatched bracket; expected a pattern such as n[1-4]",
        ),
        (
            f"{HYDRA_IN_SLURM} PMI_SIZE=4 MPI_LOCALNRANKS=2",
            "an MPI launcher started dsrun 2 times on this node (MPI_LOCALNRANKS); "
            f"{ONE_TASK}: mpiexec -ppn 1 -n NODES dsrun ...",
        ),
        (
            f"{OPEN_MPI_IN_SLURM} OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2",
            "an MPI launcher started dsrun 2 times on this node (OMPI_COMM_WORLD_LOCAL_SIZE); "
            f"{ONE_TASK}: mpirun --map-by ppr:1:node -n NODES dsrun ...",
        ),
        (f"{HYDRA_IN_SLURM} PMI_RANK=2", "PMI_RANK: 2: there are 2 nodes, 0 to 1"),
        (
            "PET_NODE_RANK=1 PET_NNODES=1:4",
            "PET_NNODES: '1:4': expected a fixed number of nodes, such as 4",
        ),
        ("PET_NODE_RANK=1 PET_NNODES=two", "PET_NNODES: 'two': expected a whole number, 1 or more"),
        ("PET_NODE_RANK=1 PET_NNODES=0", "PET_NNODES: '0': expected a whole number, 1 or more"),
        ("PET_NODE_RANK=2 PET_NNODES=2", "PET_NODE_RANK: 2: there are 2 nodes, 0 to 1"),
        ("PET_NODE_RANK=-1", "PET_NODE_RANK: '-1': expected a whole number, 0 or more"),
        ("PET_NODE_RANK=٣", "PET_NODE_RANK: '٣': expected a whole number, 0 or more"),
        (
            "PET_NODE_RANK=0 PET_MASTER_ADDR=m PET_MASTER_PORT=99999",
            "PET_MASTER_PORT: '99999': expected a number from 1 to 65535",
        ),
        (
            "PET_NODE_RANK=0 PET_MASTER_ADDR=$(id)",
            f"PET_MASTER_ADDR: '$(id)' {NAME_RULE}",
        ),
        (
            "PET_NODE_RANK=0 PET_RDZV_ENDPOINT=m:x",
            "PET_RDZV_ENDPOINT: 'm:x': expected HOST:PORT, with a port from 1 to 65535",
        ),
        (
            "PET_NODE_RANK=0 PET_RDZV_ENDPOINT=[m",
            f"PET_RDZV_ENDPOINT: '[m' {NAME_RULE}",
        ),
        (
            "PET_NODE_RANK=0 PET_NPROC_PER_NODE=many",
            "PET_NPROC_PER_NODE: 'many': expected a number, or auto, cpu, gpu, xpu, hpu, mlu, musa,"
            " npu, sdaa",
        ),
        (
            "PET_NODE_RANK=0 PET_NPROC_PER_NODE=0",
            "PET_NPROC_PER_NODE: '0': expected a number from 1 to 4096",
        ),
        (
            "JOB_COMPLETION_INDEX=one",
            "JOB_COMPLETION_INDEX: 'one': expected a whole number, 0 or more",
        ),
    ],
)
def test_what_cannot_be_meant_is_named(text: str, message: str) -> None:
    assert fault_of(text) == message


@pytest.mark.parametrize(
    ("text", "places", "said"),
    [
        (
            SRUN_FOUR_TASKS,
            2,
            "srun started dsrun 4 times on 2 nodes, but --nnodes allows only 2 nodes: to torch's"
            " rendezvous each dsrun is a node, so start one per node: srun --nodes=2 --ntasks=2"
            " dsrun ...",
        ),
        (SRUN_FOUR_TASKS, 3, "but --nnodes allows only 3 nodes"),
        (SRUN_FOUR_TASKS, 4, ""),
        (SRUN_FOUR_TASKS, 1, ""),
        (SRUN, 2, ""),
        # Others wait for a place.
        (f"{SRUN} SLURM_STEP_NUM_NODES=4 SLURM_STEP_NUM_TASKS=4", 2, ""),
        ("", 2, ""),
        (
            f"{OPEN_MPI_IN_SLURM} OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2",
            2,
            "an MPI launcher started dsrun 2 times on this node (OMPI_COMM_WORLD_LOCAL_SIZE), but"
            " --nnodes allows only 2 nodes: to torch's rendezvous each dsrun is a node, so start"
            " one per node: mpirun --map-by ppr:1:node dsrun ...",
        ),
        (f"{HYDRA_IN_SLURM} PMI_SIZE=4 MPI_LOCALNRANKS=2", 2, "mpiexec -ppn 1 dsrun ..."),
        (f"{HYDRA_IN_SLURM} PMI_SIZE=4 MPI_LOCALNRANKS=2", 4, ""),
    ],
)
def test_no_agent_of_torch_is_without_a_place(text: str, places: int, said: str) -> None:
    def check() -> None:
        cluster_environment.check_agents(environment(text), places, terminal=False)

    if not said:
        check()
        return
    with pytest.raises(UsageError) as caught:
        check()
    assert said in str(caught.value)


def test_only_usage_errors_whatever_is_set() -> None:
    rng = random.Random(67)
    texts = (SRUN, HYDRA_IN_SLURM, TRAINER, PYTORCHJOB, OPERATORS_LAUNCHER)
    values = ("", "0", "1", "2", "n[1-2]", "n[", "x", "-1", "9" * 30, "1:2", "[::1]:9", "é", "\x1b")
    refused: list[str] = []
    for _ in range(5_000):
        environ = environment(rng.choice(texts))
        for variable in rng.sample(sorted(environ), k=2):
            environ[variable] = rng.choice(values)
        try:
            cluster_environment.find(environ, "h-1", terminal=False)
            cluster_environment.check_agents(environ, 2, terminal=False)
            allocation.find(environ)
        except UsageError as fault:
            refused.append(str(fault))
    assert 0 < len(refused) < 5_000
    assert all(map(str.isprintable, refused))


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_is_seen_wherever_the_streams_go(terminal: bool) -> None:
    pid, stream = pty.fork() if terminal else (os.fork(), os.open(os.devnull, os.O_RDONLY))
    if pid == 0:
        if not terminal:
            os.setsid()
        os._exit(has_terminal())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == terminal
    os.close(stream)
