"""From a command line to a plan: nodes, ranks, program, backend."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.head.job.banner import WIDTH, banner
from dsrun.launcher.planning import rendezvous
from dsrun.launcher.planning.environment import travel
from dsrun.launcher.planning.folders import workdir
from dsrun.launcher.planning.inventory import find_hosts
from dsrun.launcher.planning.planner import PACKAGE, PlannedJob, make_plan
from dsrun.launcher.planning.policies import worker_policy
from dsrun.launcher.resources.hostfile import Host
from dsrun.launcher.resources.source import is_here
from dsrun.launcher.specs.plan import Node, Plan, Worker, lay_out, with_slots
from dsrun.launcher.specs.program import Program

JOB = "20261122-044357-a27273"

RankInfo = tuple[int, int, int, int | str]


@pytest.fixture(autouse=True)
def no_default_hostfile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "dsrun.launcher.planning.inventory.DEFAULT_HOSTFILE", str(tmp_path / "none")
    )


def planned(*words: str) -> PlannedJob:
    return make_plan(parse([*words, "train.py"], {}))


def seats(nodes: tuple[Node, ...]) -> list[RankInfo]:
    return [(n.rank, w.rank, w.local_rank, w.device) for n in nodes for w in n.workers()]


def fault_of(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        planned(*words)
    return str(caught.value)


# -- plan ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "expected", "world"),
    [
        ([Host("a", (0, 1))], [(0, 0, 0, 0), (0, 1, 1, 1)], 2),
        (
            [Host("a", (0, 1, 2)), Host("b", (5,)), Host("c", ("GPU-x", "GPU-y"))],
            [
                (0, 0, 0, 0),
                (0, 1, 1, 1),
                (0, 2, 2, 2),
                (1, 3, 0, 5),
                (2, 4, 0, "GPU-x"),
                (2, 5, 1, "GPU-y"),
            ],
            6,
        ),
        ([Host("a", (3, 1))], [(0, 0, 0, 3), (0, 1, 1, 1)], 2),
        ([Host("a", (0,)), Host("b"), Host("c", (0,))], [(0, 0, 0, 0)], None),
        ([Host("a")], [], None),
    ],
)
def test_ranks_follow_hosts_and_slots(
    hosts: list[Host], expected: list[RankInfo], world: int | None
) -> None:
    nodes = lay_out(hosts)
    plan = Plan(nodes, Program("x"), "local", None, None)
    assert seats(nodes) == expected
    assert plan.world_size == world
    assert [node.host for node in nodes] == hosts


def test_settling_fills_in_what_the_nodes_have() -> None:
    hosts = [Host("a", (7,)), Host("b", user="me", port=3), Host("c", (1, 2)), Host("d")]
    plan = Plan(lay_out(hosts), Program("x"), "ssh", "a", 1)
    settled = with_slots(plan, {1: 3, 3: 1})
    assert settled.world_size == 7
    assert seats(settled.nodes) == [
        (0, 0, 0, 7),
        (1, 1, 0, 0),
        (1, 2, 1, 1),
        (1, 3, 2, 2),
        (2, 4, 0, 1),
        (2, 5, 1, 2),
        (3, 6, 0, 0),
    ]
    assert settled.nodes[1].host == Host("b", (0, 1, 2), user="me", port=3)
    assert (settled.program, settled.launcher) == (plan.program, "ssh")
    assert plan.world_size is None


def test_a_plan_is_a_value() -> None:
    one, other = (Plan(lay_out([Host("a", (0,))]), Program("x"), "ssh", None, 5) for _ in "ab")
    assert one == other
    assert hash(one) == hash(other)
    with pytest.raises(AttributeError):
        one.launcher = "pdsh"  # type: ignore[misc]
    assert next(one.nodes[0].workers()) == Worker(0, 0, 0)


# -- program ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "argv"),
    [
        (Program("t.py", ("a b",)), ["py", "-u", "t.py", "--local_rank=3", "a b"]),
        (Program("t.py", ("-x",), local_rank=False), ["py", "-u", "t.py", "-x"]),
        (Program("p.m", module=True), ["py", "-u", "-m", "p.m", "--local_rank=3"]),
        (Program("sh", ("-c", ""), no_python=True), ["sh", "--local_rank=3", "-c", ""]),
        (Program("sh", no_python=True, local_rank=False), ["sh"]),
        (Program("t.py", rank_option="--local-rank"), ["py", "-u", "t.py", "--local-rank=3"]),
    ],
)
def test_a_workers_command(program: Program, argv: list[str]) -> None:
    assert program.argv("py", 3) == argv


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ([], Program("train.py")),
        (["--no_local_rank"], Program("train.py", local_rank=False)),
        (["--nproc_per_node=1"], Program("train.py", local_rank=False)),
        (["--standalone"], Program("train.py", local_rank=False)),
        (["--local_rank"], Program("train.py")),
        # As torch.distributed.launch, whose other options are torchrun's.
        (["--nproc_per_node=1", "--local-rank"], Program("train.py", rank_option="--local-rank")),
        (["-m"], Program("train.py", module=True)),
        (["--no_python", "--python", "py3"], Program("train.py", no_python=True, python="py3")),
    ],
)
def test_the_program_of_a_line(words: list[str], program: Program) -> None:
    assert planned(*words).plan.program == program


# -- make_plan ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "hosts", "said"),
    [
        (
            [],
            [Host("localhost")],
            "hosts: this machine (no hostfile); launcher: local (only this machine)",
        ),
        (
            ["--standalone", "--nproc_per_node=2"],
            [Host("localhost", (0, 1))],
            "hosts: this machine (--standalone); launcher: local (only this machine)",
        ),
        (
            ["--host", "x1:4,x2:0-3", "--launcher", "OpenSSH", "--num_gpus=2"],
            [Host("x1", (0, 1), where="--host"), Host("x2", (0, 1), where="--host")],
            "hosts: --host; launcher: openssh",
        ),
        (
            ["--host", "x1:2", "--host=x2:2", "--launcher=pdsh"],
            [Host("x1", (0, 1), where="--host"), Host("x2", (0, 1), where="--host")],
            "hosts: --host; launcher: pdsh",
        ),
        (
            ["--host", "x1:2,x2:2", "--nnodes=1", "--nproc-per-node", "1", "--launcher=pdsh"],
            [Host("x1", (0,), where="--host")],
            "hosts: --host; launcher: pdsh",
        ),
        (
            ["--host", "x1:2,x2:2", "--nnodes=1:1", "--nproc-per-node=gpu", "--launcher=pdsh"],
            [Host("x1", (0, 1), where="--host")],
            "hosts: --host; launcher: pdsh",
        ),
        (
            ["--host", "localhost:1", "--force_multi", "--launcher=openssh"],
            [Host("localhost", (0,), where="--host")],
            "hosts: --host; launcher: openssh",
        ),
    ],
)
def test_hosts_of_a_line(words: list[str], hosts: list[Host], said: str) -> None:
    job = planned(*words)
    assert [node.host.name for node in job.plan.nodes] == [host.name for host in hosts]
    assert [node.slots for node in job.plan.nodes] == [host.slots for host in hosts]
    assert job.origin.words == said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "this machine"),
        (["--host", "localhost:2"], "this machine, from --host"),
        (["--host", "x1,x2", "--launcher=pdsh"], "2 nodes from --host over pdsh"),
        (["--host", "x[1-9999]", "--launcher=openmpi"], "9999 nodes from --host over openmpi"),
        (["--nnodes=3", "--node_rank=0", "--master_addr=m"], "node 0 of 3: --no_ssh"),
        (["--no_ssh", "--host=a,b", "--node_rank=0"], "node 0 of 2: --host"),
    ],
)
def test_the_line_that_opens_a_job(words: list[str], told: str) -> None:
    plan, (source, *_), *_ = planned(*words)
    assert banner(plan, source, JOB) == f"{told}; job {JOB}"


def test_the_line_that_opens_a_job_fits_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a-name-that-is-long" / "hosts"
    path.parent.mkdir()
    path.write_text("x1\n")
    plan, (source, *_), *_ = planned("-H", str(path), "--launcher=ssh")
    line = banner(plan, source, JOB)
    assert len(f"dsrun: {line}") == WIDTH
    assert line.startswith("1 node from hostfile /")
    assert line.endswith(f"g/hosts over ssh; job {JOB}")


@pytest.mark.parametrize("launcher", ["ssh", "openssh", "pdsh"])
def test_the_launcher_that_was_named(launcher: str) -> None:
    assert planned("--host=x1", "--launcher", launcher).plan.launcher == launcher


def test_this_machine_alone_needs_no_launcher_unless_forced() -> None:
    assert planned(f"--host={os.uname().nodename}:2").plan.launcher == "local"
    forced = planned("--host=127.0.0.1:2", "--force_multi").plan.launcher
    assert forced in {"ssh", "openssh"}
    assert planned("--host=127.0.0.1:2,x9").plan.launcher == forced


TORCHRUN = ("--nnodes=3", "--node-rank=1", "--nproc-per-node=2", "--master-addr=10.0.0.1")


@pytest.mark.parametrize(
    ("words", "noted"),
    [
        (["--max_restarts", "1", "--master_port", "29501"], True),
        (["--master_port", "29501"], False),
        (["--max_restarts", "1"], False),
    ],
)
def test_a_port_that_rounds_do_not_use_is_noted(words: list[str], noted: bool) -> None:
    notes = planned(*words, "x.py").origin.notes
    text = (
        "--master_port 29501 has no effect on workers of an elastic job: each round uses a"
        " free port"
    )
    assert (text in notes) == noted


@pytest.mark.parametrize(
    ("words", "environ", "noted"),
    [
        ((), {}, "to use it, give --master_port 29501"),
        (("--max_restarts=1",), {}, "each round of an elastic job uses a free port"),
        (("--master_port=29502",), {}, ""),
        (("--master_port=0",), {}, ""),
        ((), {"DSRUN_JOB_ID": "j"}, ""),
        ((), {"MASTER_PORT": ""}, ""),
        ((), {"MASTER_PORT": "abc"}, "it is not a port number"),
        ((), {"MASTER_PORT": "99999"}, "it is not a port number"),
    ],
)
def test_a_port_of_the_environment_that_is_not_used_is_noted(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], environ: dict[str, str], noted: str
) -> None:
    for name, value in ({"MASTER_PORT": "29501"} | environ).items():
        monkeypatch.setenv(name, value)
    notes = planned(*words, "x.py").origin.notes
    found = [note for note in notes if note.startswith("MASTER_PORT")]
    port = environ.get("MASTER_PORT", "29501")
    line = f"MASTER_PORT={port} in the environment is not used; {noted}"
    assert found == ([line] if noted else [])


@pytest.mark.parametrize("name", ["npu", "mlu", "musa", "sdaa", "hpu"])
def test_a_vendors_name_for_torch_means_all_of_its_devices(name: str) -> None:
    options = parse([f"--nproc_per_node={name}", "x.py"], {}).options
    made = planned(f"--nproc_per_node={name}", "x.py").plan
    assert [node.slots for node in made.nodes] == [None]
    assert worker_policy(options, made).needs_devices == f"--nproc_per_node {name}"
    assert travel(options).values["DSRUN_ACCELERATOR"] == name


def test_torchruns_static_form_needs_no_hosts() -> None:
    plan, origin, *_ = planned(*TORCHRUN, "--master-port=1234")
    assert [node.host.name for node in plan.nodes] == ["node-0", "node-1", "node-2"]
    assert seats(plan.nodes) == [
        (node, 2 * node + local, local, local) for node in range(3) for local in range(2)
    ]
    assert (plan.launcher, plan.master_addr, plan.master_port) == ("none", "10.0.0.1", 1234)
    assert not plan.program.local_rank
    assert (origin.source, origin.choice) == ("this machine (no hostfile)", "none (--no_ssh)")


@pytest.mark.parametrize(
    ("words", "names", "slots"),
    [
        (["--nnodes=2", "--node_rank=1", "--master_addr=m"], ["node-0", "node-1"], None),
        (["--nnodes=1", "--node_rank=0"], ["node-0"], None),
        (
            ["--no_ssh", "--num_nodes=2", "--node_rank=1", "--master_addr=m"],
            ["node-0", "node-1"],
            None,
        ),
        (["--no_ssh", "--host=a:1,b:1", "--node_rank=1"], ["a", "b"], (0,)),
        (["--no_ssh", "--host=a:1,b:1,c:1", "--nnodes=2", "--node_rank=1"], ["a", "b"], (0,)),
        (["--no_ssh", "--host=a:1,b:1", "--include=b", "--node_rank=0"], ["b"], (0,)),
    ],
)
def test_the_same_command_on_every_node(
    words: list[str], names: list[str], slots: tuple[int, ...] | None
) -> None:
    plan = planned(*words).plan
    assert plan.launcher == "none"
    assert [node.host.name for node in plan.nodes] == names
    assert {node.slots for node in plan.nodes} == {slots}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--host=a", "--hostfile=b"],
            "conflicting options: --host and --hostfile; give one of them",
        ),
        (["--hostfile=/no/such"], "--hostfile /no/such: no such file or directory"),
        (["--hostfile=/"], "--hostfile /: is a directory"),
        (["-m", "--no_python"], "conflicting options: --module and --no_python; give one of them"),
        (
            ["--launcher=rsh"],
            "--launcher rsh: expected one of auto, local, ssh, openssh, pdsh, openmpi, mpich, impi,"
            " mvapich, slurm (did you mean ssh?)",
        ),
        (
            ["--launcher=local", "--host=localhost,x1"],
            "--launcher local: x1 is not this machine",
        ),
        (["--nnodes=4:1"], "--nnodes 4:1: expected N or MIN:MAX, such as 2 or 1:4, MIN first"),
        (["--nnodes=x"], "--nnodes x: expected N or MIN:MAX, such as 2 or 1:4, MIN first"),
        (["--nnodes=0"], "--nnodes 0: expected N or MIN:MAX, such as 2 or 1:4, MIN first"),
        (
            ["--nnodes=2", "--num_nodes=1"],
            "conflicting options: --nnodes 2 and --num_nodes 1; give one of them",
        ),
        (
            ["--nproc_per_node=2", "--num_gpus=1"],
            "conflicting options: --nproc_per_node 2 and --num_gpus 1; give one of them",
        ),
        (
            ["--nproc_per_node=all"],
            "--nproc_per_node all: expected 1 to 4096, or auto, cpu, gpu, xpu, hpu, mlu, musa, npu,"
            " sdaa",
        ),
        (
            ["--host=a", "--node_rank=1"],
            "--node_rank: only with --no_ssh or --nnodes N; then run the command on every node",
        ),
        (
            ["--no_ssh", "--host=a,b"],
            "--no_ssh: give the rank of this node: --node_rank N, from 0",
        ),
        (
            ["--no_ssh", "--host=a,b", "--node_rank=2"],
            "--node_rank 2: there are 2 nodes, 0 to 1",
        ),
        (
            ["--nnodes=2", "--node_rank=0"],
            "--no_ssh: give the address of node 0: --master_addr HOST",
        ),
    ],
)
def test_what_cannot_be_meant(words: list[str], message: str) -> None:
    assert fault_of(*words) == message


def test_a_line_without_a_script() -> None:
    with pytest.raises(UsageError, match=r"^no script: dsrun \[options\] SCRIPT"):
        make_plan(parse(["-q"], {}))


def test_the_default_hostfile_is_read_where_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "usual"
    usual.write_text("w0 slots=2\n")
    monkeypatch.setattr("dsrun.launcher.planning.inventory.DEFAULT_HOSTFILE", str(usual))
    assert find_hosts(Options()).words == f"hostfile {usual}"
    assert [host.name for host in find_hosts(Options()).hosts] == ["w0"]
    assert find_hosts(Options(standalone=True)).words == "this machine (--standalone)"
    assert find_hosts(Options(host="h:1")).words == "--host"


# -- this machine -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "here"),
    [
        (Host("localhost"), True),
        (Host("127.0.0.1"), True),
        (Host("127.0.0.9"), True),
        (Host("::1"), True),
        (Host(os.uname().nodename), True),
        (Host("LocalHost"), True),
        (Host(os.uname().nodename.upper()), True),
        (Host("localhost", port=2222), False),
        (Host("localhost", user="me"), False),
        (Host("192.0.2.1"), False),
        (Host("2001:db8::1"), False),
        (Host("999.1.1.1"), False),
        (Host("12"), False),
        (Host(f"x{os.uname().nodename}"), False),
        (Host("example.invalid"), False),
    ],
)
def test_which_host_is_this_machine(host: Host, here: bool) -> None:
    assert is_here(host) is here


def test_an_address_of_this_machine_is_this_machine() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("no route to anywhere")
        assert is_here(Host(probe.getsockname()[0]))


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", os.uname().nodename])
@pytest.mark.parametrize(
    "source",
    [
        ("--hostfile", "hosts"),
        ("--host", f"{os.uname().nodename}:4"),
        ("--host", "localhost:4"),
        ("--hostfile", ""),
    ],
)
def test_the_one_host_may_be_called_localhost_where_it_is_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: tuple[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts").write_text(f"{os.uname().nodename} slots=4\n")
    # Where nobody says how many slots there are, and there are no devices, they are a count.
    one, other = (3, 1) if source[1] else (1, 0)
    assert seats(planned(*source, "--include", f"{name}:{one},{other}").plan.nodes) == [
        (0, 0, 0, one),
        (0, 1, 1, other),
    ]
    if source[1]:
        left = planned(*source, "--exclude", f"{name}:0@{name}:2").plan.nodes
        assert [seat[3] for seat in seats(left)] == [1, 3]


def test_localhost_is_nobody_among_others_nor_far_away() -> None:
    here = os.uname().nodename
    assert "no host 'localhost'" in fault_of("--host", f"{here}:2,b:2", "--include", "localhost:0")
    assert "no host 'localhost'" in fault_of("--host", "b:2", "--include", "localhost:0")


def test_an_empty_hostfile_option_is_no_hostfile() -> None:
    assert planned("--hostfile", "", "--num_gpus=2").origin.words == (
        "hosts: this machine (no hostfile); launcher: local (only this machine)"
    )
    assert parse(["-H", "", "x.py"], {"DSRUN_HOSTFILE": "hosts"}).options.hostfile is None


@pytest.mark.parametrize(
    ("python", "found"),
    [("./bin/python", "/w/bin/python"), ("../p", "/w/../p"), ("python3", "python3"), ("/p", "/p")],
)
def test_an_interpreter_is_found_from_the_folder_it_was_named_in(python: str, found: str) -> None:
    program = planned("--python", python, "--workdir", "/elsewhere").plan.program
    assert program.python == found.replace("/w/", f"{workdir(Options())}/")


# -- the workers' folder ------------------------------------------------------------------------


def test_the_folder_is_named_as_the_user_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "link")
    monkeypatch.setenv("PWD", str(tmp_path / "link"))
    assert workdir(Options()) == f"{tmp_path}/link"
    assert workdir(Options(workdir="sub")) == f"{tmp_path}/link/sub"
    assert workdir(Options(workdir="/abs")) == "/abs"
    monkeypatch.setenv("PWD", "/etc")
    assert workdir(Options()) == f"{tmp_path}/real"
    monkeypatch.setenv("PWD", "link")
    assert workdir(Options()) == f"{tmp_path}/real"


def test_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.delenv("PWD", raising=False)
    gone.rmdir()
    with pytest.raises(
        UsageError,
        match=r"^the current folder no longer exists; start dsrun in another one$",
    ):
        workdir(Options())


# -- the Python of the workers --------------------------------------------------------------------


def python_of(*words: str) -> tuple[str, str]:
    """The path of the project's Python, "" for none, and where it comes from."""
    command = rendezvous.apply(parse(list(words), {}))
    made = make_plan(command)
    assert made.backend.python == (made.plan.program.python or sys.executable)
    return made.plan.program.project_python, made.origin.python


def test_the_python_of_the_project_is_that_of_the_workers_alone(repo: Path) -> None:
    planned = make_plan(parse(["src/train.py"], {}))
    python = f"{repo}/.venv/bin/python"
    assert planned.plan.program.project_python == python
    assert planned.plan.program.python is None
    assert planned.backend.python == sys.executable
    assert planned.origin.notes[-1].startswith(f"workers run on {python}, from the nearest .venv")


@pytest.mark.parametrize("option", ["--workdir", ""])
def test_a_venv_is_looked_for_above_the_script(repo: Path, option: str) -> None:
    expected = f"{repo}/.venv/bin/python", ".venv"
    words = [option, f"{repo}/src"] if option else []
    script = "train.py" if option else f"{repo}/src/train.py"
    assert python_of(*words, script) == expected
    assert python_of(*words, "-m", "package.train") == expected, "in the workers' folder"
    assert python_of("--workdir", "/", f"{repo}/src/train.py") == expected
    assert python_of("--workdir", "/", "-m", "train") == ("", "dsrun")


@pytest.mark.usefixtures("repo")
def test_what_is_named_comes_before_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert python_of("--python", "/py", "src/train.py") == ("", "--python")
    assert python_of("--no_python", "./src/train.py") == ("", "dsrun")
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to("/bin/sh")
    monkeypatch.setenv("VIRTUAL_ENV", f"{tmp_path}/env")
    assert python_of("src/train.py") == (f"{tmp_path}/env/bin/python", "VIRTUAL_ENV")


def test_the_script_of_an_environment_comes_before_it_where_it_has_a_python(repo: Path) -> None:
    (repo / "activate").touch()
    planned = make_plan(parse(["--venv_script", "activate", "src/train.py"], {}))
    assert planned.plan.program.project_python == f"{repo}/.venv/bin/python"
    assert planned.origin.python == "--venv_script"
    assert planned.origin.notes[-1].endswith(
        "has no torch; --venv_script may put another one first on PATH"
    )
    (repo / ".venv" / "bin" / "activate").touch()
    planned = make_plan(parse(["--venv_script", ".venv/bin/activate", "src/train.py"], {}))
    assert (planned.origin.python, planned.origin.notes) == ("--venv_script", ())


def test_torchs_agent_runs_on_it_whatever_the_workers_are(repo: Path) -> None:
    torchs = ["--rdzv_backend=c10d", "--rdzv_endpoint=h:1", "--nnodes=2", "--nproc_per_node=1"]
    words = [*torchs, "--no_python", "src/train.py"]
    assert python_of(*words) == (f"{repo}/.venv/bin/python", ".venv")


@pytest.mark.usefixtures("repo")
def test_a_program_of_dsruns_own_needs_its_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function is sent so, and needs the Python of the program that has sent it."""
    monkeypatch.setenv("VIRTUAL_ENV", "/gone")
    planned = make_plan(parse(["--", f"{PACKAGE}/node/call.py"], {}))
    assert (planned.plan.program.project_python, planned.origin.notes) == ("", ())


@pytest.mark.usefixtures("own")
def test_without_any_it_is_dsruns_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert python_of("train.py") == ("", "dsrun")


def test_a_python_with_torch_is_the_workers(own: Path, repo: Path) -> None:
    assert python_of("src/train.py") == (f"{repo}/.venv/bin/python", ".venv")
    (own / "torch").mkdir()
    assert python_of("src/train.py") == ("", "dsrun")
