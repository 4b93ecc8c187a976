"""What schedulers say of the job that dsrun runs in, read from what they really set."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.resources.allocation import Allocation, find
from dsrun.launcher.resources.slurm import with_tasks
from dsrun.launcher.specs.host import Host, Slot

NAME_RULE = "is not a host name (letters, digits, '.', '_', '-'; not only digits)"
COUNTED = "each node counts its devices"

# As Slurm 22.05 set them, but for what nobody reads here.
SBATCH_GPUS_PER_NODE = """
    SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n[1-2] SLURM_NODELIST=n[1-2] SLURM_NNODES=2
    SLURM_GPUS_PER_NODE=2 SLURM_GPUS_ON_NODE=2 SLURM_TASKS_PER_NODE=1(x2) SLURM_PROCID=0
"""
SBATCH_GRES_AND_TASKS = """
    SLURM_JOB_ID=2 SLURM_JOB_NODELIST=n[1-2] SLURM_GPUS_ON_NODE=2 SLURM_NTASKS=4
    SLURM_NTASKS_PER_NODE=2 SLURM_TASKS_PER_NODE=2(x2)
"""
SBATCH_GPUS_IN_TOTAL = """
    SLURM_JOB_ID=3 SLURM_JOB_NODELIST=n[3-4] SLURM_GPUS=5 SLURM_GPUS_ON_NODE=2
    SLURM_TASKS_PER_NODE=1(x2)
"""
SBATCH_TASKS = """
    SLURM_JOB_ID=4 SLURM_JOB_NODELIST=n[1-3] SLURM_NTASKS=5 SLURM_TASKS_PER_NODE=3,1(x2)
"""
SBATCH_NODES = "SLURM_JOB_ID=5 SLURM_JOB_NODELIST=n[1-2] SLURM_TASKS_PER_NODE=1(x2)"
SBATCH_ONE_NODE = """
    SLURM_JOB_ID=6 SLURM_JOB_NODELIST=n1 SLURM_GPUS_ON_NODE=1 SLURM_TASKS_PER_NODE=1
"""
SALLOC_SHELL = """
    SLURM_JOB_ID=9 SLURM_JOB_NODELIST=n[1-2] SLURM_NTASKS=1 SLURM_NTASKS_PER_NODE=2
    SLURM_STEP_ID=4294967290 SLURM_STEP_NODELIST=n1 SLURM_TASKS_PER_NODE=1
"""
SBATCH_IN_A_JOB = """
    SLURM_JOB_ID=6 SLURM_JOB_NODELIST=n[2-3] SLURM_GPUS_PER_NODE=2 SLURM_GPUS_ON_NODE=1
    SLURM_TASKS_PER_NODE=1(x2)
"""
HETEROGENEOUS = """
    SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n1 SLURM_HET_SIZE=2 SLURM_GPUS_ON_NODE=2
    SLURM_JOB_ID_HET_GROUP_0=1 SLURM_JOB_NODELIST_HET_GROUP_0=n1
    SLURM_GPUS_PER_NODE_HET_GROUP_0=2 SLURM_TASKS_PER_NODE_HET_GROUP_0=1
    SLURM_JOB_ID_HET_GROUP_1=2 SLURM_JOB_NODELIST_HET_GROUP_1=n[2-3]
    SLURM_GPUS_PER_NODE_HET_GROUP_1=1 SLURM_TASKS_PER_NODE_HET_GROUP_1=2(x2)
    SLURM_NTASKS_HET_GROUP_1=4 SLURM_NTASKS_PER_NODE_HET_GROUP_1=2
"""
SALLOC_HETEROGENEOUS = """
    SLURM_JOB_ID=5 SLURM_HET_SIZE=2 SLURM_JOB_ID_HET_GROUP_0=5 SLURM_JOB_ID_HET_GROUP_1=6
    SLURM_JOB_NODELIST_HET_GROUP_0=n1 SLURM_GPUS_PER_NODE_HET_GROUP_0=1
    SLURM_JOB_NODELIST_HET_GROUP_1=n2 SLURM_TASKS_PER_NODE_HET_GROUP_1=1
"""

Slots = tuple[Slot, ...] | None


def environment(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in text.split())}


def slots_of(found: Allocation | None) -> dict[str, Slots]:
    assert found
    return {host.name: host.slots for host in found.hosts}


def fault_of(environ: dict[str, str]) -> str:
    with pytest.raises(UsageError) as caught:
        find(environ)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "slots", "words"),
    [
        (
            SBATCH_GPUS_PER_NODE,
            {"n1": (0, 1), "n2": (0, 1)},
            "Slurm job 1 (SLURM_JOB_NODELIST, 2 nodes; GPUs from SLURM_GPUS_PER_NODE)",
        ),
        (
            SBATCH_GRES_AND_TASKS,
            {"n1": None, "n2": None},
            f"Slurm job 2 (SLURM_JOB_NODELIST, 2 nodes; {COUNTED})",
        ),
        (
            SBATCH_GPUS_IN_TOTAL,
            {"n3": None, "n4": None},
            f"Slurm job 3 (SLURM_JOB_NODELIST, 2 nodes; {COUNTED})",
        ),
        (
            SBATCH_TASKS,
            {"n1": (0, 1, 2), "n2": (0,), "n3": (0,)},
            "Slurm job 4 (SLURM_JOB_NODELIST, 3 nodes; slots from SLURM_TASKS_PER_NODE)",
        ),
        (
            SBATCH_NODES,
            {"n1": None, "n2": None},
            f"Slurm job 5 (SLURM_JOB_NODELIST, 2 nodes; {COUNTED})",
        ),
        (
            SBATCH_ONE_NODE,
            {"n1": (0,)},
            "Slurm job 6 (SLURM_JOB_NODELIST, 1 node; GPUs from SLURM_GPUS_ON_NODE)",
        ),
        (
            SALLOC_SHELL,
            {"n1": None, "n2": None},
            f"Slurm job 9 (SLURM_JOB_NODELIST, 2 nodes; {COUNTED})",
        ),
        (
            SBATCH_IN_A_JOB,
            {"n2": None, "n3": None},
            "Slurm job 6 (SLURM_JOB_NODELIST, 2 nodes; "
            f"SLURM_GPUS_PER_NODE and SLURM_GPUS_ON_NODE disagree, {COUNTED})",
        ),
        (
            "SLURM_JOB_ID=7 SLURM_NODELIST=n[1-2]",
            {"n1": None, "n2": None},
            f"Slurm job 7 (SLURM_NODELIST, 2 nodes; {COUNTED})",
        ),
    ],
)
def test_a_slurm_job(text: str, slots: dict[str, Slots], words: str) -> None:
    found = find(environment(text))
    assert slots_of(found) == slots
    assert found
    assert (found.scheduler, found.words, found.groups) == ("slurm", words, (tuple(slots),))


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ("SLURM_GPUS_PER_NODE=4", 4),
        ("SLURM_GPUS_PER_NODE=a100:4", 4),
        ("SLURM_GPUS_PER_NODE=a100:2,v100:1", 3),
        ("SLURM_TRES_PER_NODE=gres/gpu:4", 4),
        ("SLURM_TRES_PER_NODE=gres:gpu:a100:4", 4),
        ("SLURM_TRES_PER_NODE=gres/gpu=4", 4),
        ("SLURM_TRES_PER_NODE=gres/gpu:a100=2,gres/gpu:1g.10gb=1", 3),
        ("SLURM_TRES_PER_NODE=gpu", 1),
        ("SLURM_TRES_PER_NODE=gres/gpu:a100", 1),
        ("SLURM_TRES_PER_NODE=cpu=8,gres/shard:2,gres/gpu:2,license/gpu4:7", 2),
        ("SLURM_TRES_PER_NODE=cpu=8,gres/shard:2", None),
        ("SLURM_GPUS_PER_NODE=4 SLURM_TRES_PER_NODE=gres/gpu:2", 4),
        ("SLURM_GPUS_PER_NODE=4 SLURM_GPUS_ON_NODE=4 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=2(x2)", 4),
        ("SLURM_GPUS_PER_NODE=4 SLURM_GPUS_ON_NODE=0", 4),
        ("SLURM_GPUS_PER_NODE=0 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=2(x2)", 2),
        ("SLURM_NTASKS_PER_NODE=2 SLURM_TASKS_PER_NODE=2(x2)", 2),
        ("SLURM_GPUS_PER_TASK=1 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=2(x2)", None),
        ("SLURM_GPUS_PER_SOCKET=1 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=2(x2)", None),
        ("SLURM_GPUS=4 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=2(x2)", None),
        ("SLURM_JOB_GPUS=0,1 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=2(x2)", None),
        ("SLURM_NTASKS=2 SLURM_TASKS_PER_NODE=1(x2)", None),
        ("SLURM_NTASKS=8192 SLURM_TASKS_PER_NODE=4097,4095", None),
        ("SLURM_TASKS_PER_NODE=2(x2)", None),
    ],
)
def test_the_slots_of_two_nodes_alike(variables: str, count: int | None) -> None:
    found = find(environment(f"SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n[1-2] {variables}"))
    slots = None if count is None else tuple(range(count))
    assert slots_of(found) == {"n1": slots, "n2": slots}


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ("SLURM_GPUS_ON_NODE=3 SLURM_STEP_GPUS=0,1", 3),
        ("SLURM_STEP_GPUS=4,6 SLURM_JOB_GPUS=0-7", 2),
        ("SLURM_JOB_GPUS=0-3", 4),
        ("SLURM_JOB_GPUS=0-1,5", 3),
        ("SLURM_GPUS=2 SLURM_GPUS_ON_NODE=2 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=4", 2),
        ("SLURM_GPUS_PER_NODE=2 SLURM_GPUS_ON_NODE=1", None),
        ("SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=4", 4),
        ("SLURM_NTASKS=1 SLURM_TASKS_PER_NODE=1", None),
    ],
)
def test_the_slots_of_one_node(variables: str, count: int | None) -> None:
    found = find(environment(f"SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n7 {variables}"))
    assert slots_of(found) == {"n7": None if count is None else tuple(range(count))}


def test_a_heterogeneous_job_has_the_hosts_of_all_components() -> None:
    assert find(environment(HETEROGENEOUS)) == Allocation(
        "slurm",
        [
            Host("n1", (0, 1), where="SLURM_JOB_NODELIST_HET_GROUP_0"),
            Host("n2", (0,), where="SLURM_JOB_NODELIST_HET_GROUP_1"),
            Host("n3", (0,), where="SLURM_JOB_NODELIST_HET_GROUP_1"),
        ],
        "Slurm job 1 (SLURM_JOB_NODELIST_HET_GROUP_0, 3 nodes in 2 components; "
        "GPUs from SLURM_GPUS_PER_NODE)",
        (("n1",), ("n2", "n3")),
    )


def test_components_have_their_slots_from_different_places() -> None:
    found = find(environment(SALLOC_HETEROGENEOUS))
    assert slots_of(found) == {"n1": (0,), "n2": None}
    assert found
    assert found.groups == (("n1",), ("n2",))
    assert found.words.endswith("GPUs from SLURM_GPUS_PER_NODE, the others count their devices)")


def test_components_of_the_job_that_this_one_was_submitted_in_are_not_its_own() -> None:
    left_over = environment(HETEROGENEOUS) | environment(SBATCH_ONE_NODE)
    assert slots_of(find(left_over)) == {"n1": (0,)}


def test_a_step_of_all_components_is_one_list() -> None:
    step = environment("SLURM_JOB_ID=7 SLURM_HET_SIZE=2 SLURM_JOB_NODELIST=n[1-2]")
    assert slots_of(find(step)) == {"n1": None, "n2": None}


def test_a_host_in_two_components_is_refused() -> None:
    twice = environment(HETEROGENEOUS) | {"SLURM_JOB_NODELIST_HET_GROUP_1": "n[1-2]"}
    assert fault_of(twice) == (
        "SLURM_JOB_NODELIST_HET_GROUP_1: host 'n1' is also in SLURM_JOB_NODELIST_HET_GROUP_0, "
        "but dsrun uses a host only once; name the hosts to use with --host"
    )


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            "SLURM_JOB_NODELIST=n[3-1]",
            "SLURM_JOB_NODELIST: 'n[3-1]': range '3-1': the first number is larger than the last",
        ),
        (
            "SLURM_GPUS_PER_NODE=four",
            "SLURM_GPUS_PER_NODE: 'four': expected a number of GPUs such as 4 or a100:4",
        ),
        (
            "SLURM_GPUS_PER_NODE=a100:",
            "SLURM_GPUS_PER_NODE: 'a100:': expected a number of GPUs such as 4 or a100:4",
        ),
        ("SLURM_GPUS_PER_NODE=5000", "SLURM_GPUS_PER_NODE: '5000': expected at most 4096 per node"),
        (
            "SLURM_STEP_GPUS=0,0",
            "SLURM_STEP_GPUS: '0,0': slot 0 is listed twice",
        ),
        (
            "SLURM_NTASKS=2 SLURM_TASKS_PER_NODE=two",
            "SLURM_TASKS_PER_NODE: 'two': expected counts such as 2(x3),1",
        ),
    ],
)
def test_a_bad_variable_of_slurm_is_named(variables: str, message: str) -> None:
    environ = environment(f"SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n1 {variables}")
    assert fault_of(environ) == message


def test_a_missing_component_is_named() -> None:
    environ = environment(HETEROGENEOUS) | {"SLURM_HET_SIZE": "3"}
    assert fault_of(environ) == (
        "SLURM_HET_SIZE is 3, but SLURM_JOB_NODELIST_HET_GROUP_2 is not set"
    )
    assert fault_of(environ | {"SLURM_HET_SIZE": "0"}) == (
        "SLURM_HET_SIZE: '0': expected a whole number, 1 or more"
    )


Files = Callable[..., dict[str, str]]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Write files that variables name; the variables, with those that hold text as they are."""

    def write(text: str, **content: str) -> dict[str, str]:
        environ = environment(text)
        for variable, lines in content.items():
            path = tmp_path / variable
            path.write_text(lines)
            environ[variable] = str(path)
        return environ

    return write


@pytest.mark.parametrize(
    ("variables", "lines", "words"),
    [
        ("PBS_JOBID=12.srv", {"PBS_NODEFILE": "h2\nh1\n"}, "PBS job 12.srv (PBS_NODEFILE"),
        ("PBS_JOBID=12", {"PBS_NODEFILE": "h2\nh2\nh1\nh2\n\nh1"}, "PBS job 12 (PBS_NODEFILE"),
        ("PBS_JOBID=12", {"PBS_NODEFILE": "h2\r\nh1\r\n"}, "PBS job 12 (PBS_NODEFILE"),
        (
            "PBS_JOBID=12 PBS_NGPUS=8",
            {"PBS_NODEFILE": "h2\nh1", "PBS_GPUFILE": ""},
            "PBS job 12 (PBS_NODEFILE",
        ),
        (
            "LSB_JOBID=8 LSB_HOSTS=x",
            {"LSB_DJOB_HOSTFILE": "h2\nh2\nh1\n"},
            "LSF job 8 (LSB_DJOB_HOSTFILE",
        ),
        (
            "LSB_JOBID=8 CSM_ALLOCATION_ID=3",
            {"LSB_DJOB_HOSTFILE": "batch5\nh2\nh2\nh1\nh1\n"},
            "LSF job 8 (LSB_DJOB_HOSTFILE",
        ),
        (
            "JOB_ID=5",
            {"PE_HOSTFILE": "h2 4 all.q@h2 UNDEFINED\nh1 4 all.q@h1 <NULL>\nh2 2 gpu.q@h2 0,0\n"},
            "Grid Engine job 5 (PE_HOSTFILE",
        ),
        ("COBALT_JOBID=6", {"COBALT_NODEFILE": "h2\nh1\n"}, "Cobalt job 6 (COBALT_NODEFILE"),
    ],
)
def test_cores_are_no_slots(
    files: Files, variables: str, lines: dict[str, str], words: str
) -> None:
    found = find(files(variables, **lines))
    assert slots_of(found) == {"h2": None, "h1": None}
    assert found
    assert found.words == f"{words}, 2 nodes; {COUNTED})"
    assert found.groups == (("h2", "h1"),)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"LSB_MCPU_HOSTS": "h2 4 h1 4 ", "LSB_HOSTS": "x"}, "LSF job 8 (LSB_MCPU_HOSTS"),
        ({"LSB_HOSTS": "h2 h2 h1 h1 h2"}, "LSF job 8 (LSB_HOSTS"),
    ],
)
def test_lsf_without_a_file(variables: dict[str, str], words: str) -> None:
    found = find({"LSB_JOBID": "8", **variables})
    assert slots_of(found) == {"h2": None, "h1": None}
    assert found
    assert (found.scheduler, found.words) == ("lsf", f"{words}, 2 nodes; {COUNTED})")


def test_the_launch_node_is_kept_where_it_is_the_only_host(files: Files) -> None:
    alone = files("LSB_JOBID=8 CSM_ALLOCATION_ID=3", LSB_DJOB_HOSTFILE="h1\nh1\n")
    assert slots_of(find(alone)) == {"h1": None}


def test_torque_says_which_gpus(files: Files) -> None:
    found = find(
        files(
            "PBS_JOBID=12 PBS_NGPUS=9",
            PBS_NODEFILE="h1\nh1\nh2-gpu\n",
            PBS_GPUFILE="h2-gpu-gpu1\nh1-gpu2\nh1-gpu3\nh1-gpu2\n",
        )
    )
    assert slots_of(found) == {"h1": (2, 3), "h2-gpu": (1,)}
    assert found
    assert found.words == "PBS job 12 (PBS_NODEFILE, 2 nodes; GPUs from PBS_GPUFILE)"


def test_pbs_says_how_many_gpus_one_host_has(files: Files) -> None:
    found = find(files("PBS_JOBID=12 PBS_NGPUS=2", PBS_NODEFILE="h1\nh1\n"))
    assert slots_of(found) == {"h1": (0, 1)}
    assert found
    assert found.words == "PBS job 12 (PBS_NODEFILE, 1 node; GPUs from PBS_NGPUS)"


def test_a_gpu_file_that_is_not_there_says_nothing(files: Files) -> None:
    environ = files("PBS_JOBID=12 PBS_GPUFILE=/nowhere", PBS_NODEFILE="h1\n")
    assert slots_of(find(environ)) == {"h1": None}


@pytest.mark.parametrize(
    "variable", ["OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE"]
)
@pytest.mark.parametrize(
    ("lines", "slots", "note"),
    [
        ("job-worker-0.job slots=2\njob-worker-1.job slots=2\n", (0, 1), "slots from"),
        ("job-worker-0.job:2\njob-worker-1.job:2\n", (0, 1), "slots from slotsPerWorker"),
        ("job-worker-0.job slots=1\njob-worker-1.job slots=1\n", None, COUNTED),
        ("job-worker-0.job\njob-worker-1.job\n", None, COUNTED),
    ],
)
def test_the_mpi_operators_workers(variable: str, lines: str, slots: Slots, note: str) -> None:
    content = {"/etc/mpi/hostfile": lines.encode()}
    found = find({variable: "/etc/mpi/hostfile"}, content.__getitem__)
    assert slots_of(found) == {"job-worker-0.job": slots, "job-worker-1.job": slots}
    assert found
    assert found.scheduler == "mpi-operator"
    assert found.words.startswith(f"MPI Operator ({variable}, 2 nodes; {note}")
    assert found.hosts[1].where == "/etc/mpi/hostfile:2"


def test_a_host_says_which_line_named_it(files: Files) -> None:
    environ = files("PBS_JOBID=12", PBS_NODEFILE="h1\n\nh1\nh2\n")
    path = environ["PBS_NODEFILE"]
    found = find(environ)
    assert found
    assert [host.where for host in found.hosts] == [f"{path}:1", f"{path}:4"]


@pytest.mark.parametrize(
    ("job", "variable", "lines", "message"),
    [
        ("PBS_JOBID=1", "PBS_NODEFILE", "", "PBS_NODEFILE: PATH: names no hosts"),
        ("PBS_JOBID=1", "PBS_NODEFILE", "\n \n", "PBS_NODEFILE: PATH: names no hosts"),
        ("PBS_JOBID=1", "PBS_NODEFILE", "h1\nh1 8\n", "PATH:2: 'h1 8': expected one host per line"),
        ("PBS_JOBID=1", "PBS_NODEFILE", "h1\n-oX=y\n", f"PATH:2: '-oX=y' {NAME_RULE}"),
        ("PBS_JOBID=1", "PBS_NODEFILE", "h1\nü\n", f"PATH:2: 'ü' {NAME_RULE}"),
        ("LSB_JOBID=1", "LSB_DJOB_HOSTFILE", "\n", "LSB_DJOB_HOSTFILE: PATH: names no hosts"),
        ("COBALT_JOBID=1", "COBALT_NODEFILE", "a:2\n", "PATH:1: 'a:2' is not an IPv6 address"),
        ("JOB_ID=1", "PE_HOSTFILE", "", "PE_HOSTFILE: PATH: names no hosts"),
        (
            "JOB_ID=1",
            "PE_HOSTFILE",
            "h1 4 q <NULL>\nh2\n",
            "PATH:2: 'h2': expected 'host slots queue processors'",
        ),
        (
            "JOB_ID=1",
            "PE_HOSTFILE",
            "h1 all.q 4\n",
            "PATH:1: 'h1 all.q 4': expected 'host slots queue processors'",
        ),
    ],
)
def test_a_bad_file_says_where_and_what(
    files: Files, job: str, variable: str, lines: str, message: str
) -> None:
    environ = files(job, **{variable: lines})
    assert fault_of(environ) == message.replace("PATH", environ[variable])


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        ("h1-gpu0\nh2\n", "GPUS:2: 'h2': expected a GPU such as host-gpu0"),
        (
            "h1-gpu0\n",
            "NODES:2: PBS_GPUFILE lists no GPU of 'h2'; name the hosts to use with --host",
        ),
    ],
)
def test_a_bad_gpu_file_says_where_and_what(files: Files, gpus: str, message: str) -> None:
    environ = files("PBS_JOBID=1", PBS_NODEFILE="h1\nh2\n", PBS_GPUFILE=gpus)
    shown = message.replace("GPUS", environ["PBS_GPUFILE"])
    assert fault_of(environ) == shown.replace("NODES", environ["PBS_NODEFILE"])


@pytest.mark.parametrize("text", ["h1", "h1 4 h2", "h1 four", "4 h1", "h1 -4"])
def test_bad_hosts_and_numbers_in_turn(text: str) -> None:
    assert fault_of({"LSB_JOBID": "1", "LSB_MCPU_HOSTS": text}) == (
        f"LSB_MCPU_HOSTS: '{text}': expected hosts, each with its number of cores: h1 4 h2 4"
    )


@pytest.mark.parametrize(
    ("job", "variable"),
    [
        ("PBS_JOBID=1", "PBS_NODEFILE"),
        ("LSB_JOBID=1", "LSB_DJOB_HOSTFILE"),
        ("JOB_ID=1", "PE_HOSTFILE"),
        ("COBALT_JOBID=1", "COBALT_NODEFILE"),
    ],
)
def test_a_missing_file_is_named(job: str, variable: str, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    told = fault_of({**environment(job), variable: gone})
    assert told.startswith(f"{variable}: {gone}: no such file or directory; if ")
    assert told.endswith(
        f" job 1 has ended, its variables are left over in this shell: `unset {job[:-2]}`"
    )
    assert fault_of({**environment(job), variable: str(tmp_path)}) == (
        f"{variable}: {tmp_path}: is a directory"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SLURM_JOB_ID=1",
        "SLURM_JOB_NODELIST=n1",
        "PBS_JOBID=1",
        "PBS_NODEFILE=/nowhere",
        "LSB_HOSTS=h1",
        "JOB_ID=1",
        "PE_HOSTFILE=/nowhere",
        "COBALT_NODEFILE=/nowhere",
        "I_MPI_HYDRA_HOST_FILE=/home/me/hosts",
    ],
)
def test_what_is_no_job(text: str) -> None:
    assert find(environment(text)) is None


def test_the_first_of_several_schedulers_wins(files: Files) -> None:
    environ = files(
        "SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n1 PBS_JOBID=1 LSB_JOBID=1 LSB_HOSTS=n3 JOB_ID=1",
        PBS_NODEFILE="n2\n",
        PE_HOSTFILE="n4 1 q x\n",
    )
    order = []
    for variable in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"):
        found = find(environ)
        assert found
        order.append((found.scheduler, found.hosts[0].name))
        del environ[variable]
    assert order == [("slurm", "n1"), ("pbs", "n2"), ("lsf", "n3"), ("sge", "n4")]
    assert find(environ) is None


@pytest.mark.parametrize(
    ("stale", "found"),
    [
        ("SLURM_GPUS_PER_NODE=1", "SLURM_GPUS_PER_NODE=1"),
        ("SLURM_GPUS_PER_NODE=a100:4", "SLURM_GPUS_PER_NODE=a100:4"),
        ("SLURM_TRES_PER_NODE=gres/gpu:1", "SLURM_TRES_PER_NODE=gres/gpu:1"),
        ("SLURM_GRES=gpu:1", "SLURM_GRES=gpu:1"),
        ("SLURM_STEP_GRES=gpu:h100:8", "SLURM_STEP_GRES=gpu:h100:8"),
        ("SLURM_GPUS=1", "SLURM_GPUS=1"),
        ("SLURM_NTASKS=1 SLURM_GPUS_PER_TASK=1", "SLURM_GPUS_PER_TASK=1"),
        ("SLURM_NTASKS=4 SLURM_GPUS_PER_TASK=1", ""),
        ("SLURM_GPUS_PER_NODE=2 SLURM_GRES=gpu:2 SLURM_GPUS=4", ""),
        ("SLURM_GRES=craynetwork:1", ""),
        ("SLURM_GPUS=x", ""),
        ("SLURM_GPUS_PER_NODE=1 SLURM_STEP_ID=0", ""),
    ],
)
def test_a_request_of_another_job_is_told(stale: str, found: str) -> None:
    job = f"SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n[1-2] SLURM_GPUS_ON_NODE=2 {stale}"
    allocation = find(environment(job))
    assert allocation is not None
    expected = (
        f"{found} is not for this job, which has 2 GPUs here (SLURM_GPUS_ON_NODE): it is ignored;"
        f" `unset {found.partition('=')[0]}`"
    )
    assert allocation.notes == ((expected,) if found else ())
    assert all(host.slots in {None, (0, 1)} for host in allocation.hosts) or "STEP_ID" in stale


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (SBATCH_GPUS_PER_NODE, [2, 2]),
        (SBATCH_GRES_AND_TASKS, [2, 2]),
        (SBATCH_GPUS_IN_TOTAL, [None, None]),
        (SBATCH_TASKS, [3, 1, 1]),
        (SBATCH_NODES, [None, None]),
        (f"{SBATCH_NODES} SLURM_NTASKS=2", [1, 1]),
        (f"{SBATCH_NODES} SLURM_NTASKS_PER_NODE=1", [1, 1]),
        (SBATCH_GPUS_IN_TOTAL + " SLURM_NTASKS=5 SLURM_TASKS_PER_NODE=3,2", [3, 2]),
        (HETEROGENEOUS, [2, 1, 1]),
        (HETEROGENEOUS.replace("SLURM_GPUS", "NO_GPUS"), [None, 2, 2]),
    ],
)
def test_where_a_task_is_a_rank_slurms_tasks_count(text: str, counts: list[int | None]) -> None:
    environ = dict(word.split("=", 1) for word in text.split())
    found = find(environ)
    assert found is not None
    slots = [host.slots for host in with_tasks(found.hosts, environ)]
    assert [None if one is None else len(one) for one in slots] == counts
