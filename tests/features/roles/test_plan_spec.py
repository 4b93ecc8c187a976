"""The job of several roles: what each takes from the whole job, and from its own options."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.roles.plan_file import parsed
from dsrun.launcher.features.roles.plan_spec import check, find_nodes, roles_spec
from dsrun.launcher.features.roles.runner_effects import job_of
from dsrun.launcher.specs import codec
from dsrun.launcher.specs.container import ContainerSpec
from dsrun.launcher.specs.roles import RoleSpec, RolesSpec

TWO = """\
[[role]]
name = "server"
nodes = 1
workers = 1
devices = 2
command = ["serve", "{port.http}"]
ports = ["http"]
ready = "file:up"
ends = "never"
on_failure = "restart"
max_restarts = 5
grace = 3
%s
[[role]]
name = "trainer"
nodes = 2
script = "train.py"
after = ["server"]
ends = "job"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    return tmp_path


def planned(*words: str, server: str = "", trainer: str = "", host: str = "h[1-4]:2") -> RolesSpec:
    command = parse(["--host", host, *words], {})
    check(command)
    tables = parsed("rl.toml", (TWO % f"{server}\n" + trainer).encode())
    return roles_spec(command, tables, find_nodes(command))


def role(name: str, spec: RolesSpec) -> RoleSpec:
    return next(one for one in spec.roles if one.name == name)


def fault(*words: str, server: str = "", trainer: str = "") -> str:
    with pytest.raises(UsageError) as caught:
        planned(*words, server=server, trainer=trainer)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_each_role_is_a_job_on_its_nodes() -> None:
    spec = planned()
    server, trainer = spec.roles
    assert [node.host.name for node in server.job.plan.nodes] == ["h1"]
    assert server.job.plan.nodes[0].slots == ("0+1",)
    assert [(node.rank, node.host.name, node.slots) for node in trainer.job.plan.nodes] == [
        (0, "h2", (0, 1)),
        (1, "h3", (0, 1)),
    ]
    assert (server.job.plan.world_size, trainer.job.plan.world_size) == (1, 4)
    assert server.job.plan.program.argv("python", 0) == ["serve", "{port.http}"]
    assert trainer.job.plan.program.argv("python", 0) == ["python", "-u", "train.py"]


def containers(spec: RolesSpec) -> list[str]:
    """The containers of the whole job, and of each role as it is run; "" for none."""
    jobs = [spec.job, *(job_of(one, spec.job) for one in spec.roles)]
    return [one.backend.container.shown if one.backend.container else "" for one in jobs]


IMAGE = 'container = "docker:a"'


@pytest.mark.parametrize(
    ("words", "server", "trainer", "shown"),
    [
        ((), "", "", ["", "", ""]),
        ((), IMAGE, "", ["", "docker:a", ""]),
        ((), IMAGE, 'container = "podman:b"', ["", "docker:a", "podman:b"]),
        (("--container", "podman:c"), "", "", ["podman:c"] * 3),
        (("--container", "podman:c"), IMAGE, "", ["", "docker:a", "podman:c"]),
        (("--container", "podman:c"), "", 'container = "none"', ["", "podman:c", ""]),
        (("--container", "podman:c"), "", 'mount = ["/x"]', ["", "podman:c", "podman:c"]),
    ],
)
def test_roles_have_the_container_of_the_job_or_their_own(
    words: tuple[str, ...], server: str, trainer: str, shown: list[str]
) -> None:
    spec = planned(*words, server=server, trainer=trainer)
    assert containers(spec) == shown
    assert codec.decode(RolesSpec, codec.encode(spec)) == spec
    runs = [job_of(one, spec.job) for one in spec.roles]
    own = [run.backend.container for run in runs if run.backend.container]
    assert all(one.of_role == (shown[0] == "") for one in own)
    assert all((one.job, one.several) == (spec.job.job_id, True) for one in own if one.of_role)


def test_mounts_of_a_role_are_those_of_the_job_and_its_own() -> None:
    words = ("--container", "podman:c", "--mount", "/data")
    spec = planned(*words, trainer='mount = ["/x:/y:ro"]')
    container = role("trainer", spec).job.backend.container
    assert container
    assert [one.source for one in container.mounts if one.given] == ["/data", "/x"]


def test_slurm_starts_no_containers_of_roles() -> None:
    why = fault("--launcher", "slurm", server='container = "pyxis:a"')
    assert "role server: container = 'pyxis:a': Slurm starts one such container" in why


def test_held_nodes_in_a_container_start_no_other_one() -> None:
    command = parse(["--host", "h[1-4]:2"], {})
    held = find_nodes(command)._replace(container=ContainerSpec("podman", "c"))
    tables = parsed("rl.toml", (TWO % f"{IMAGE}\n").encode())
    with pytest.raises(UsageError, match=r"role server: .* the held nodes run in podman:c already"):
        roles_spec(command, tables, held)


def test_an_invalid_container_of_a_role_is_found_by_its_line() -> None:
    assert fault(server='container = "nginx"').startswith("rl.toml:13: container 'nginx': expected")
    assert "rl.toml:13: mount: only with" in fault(server='mount = ["/a"]')


def test_the_whole_job_has_all_nodes(folder: Path) -> None:
    spec = planned()
    assert [node.host.name for node in spec.job.plan.nodes] == ["h1", "h2", "h3", "h4"]
    assert spec.job.held
    assert spec.job.workdir == str(folder)
    assert spec.job.origin.notes == ("1 node without a role, to replace lost ones: h4",)
    assert {one.job.job_id for one in spec.roles} == {spec.job.job_id}
    assert {one.job.plan.launcher for one in spec.roles} == {spec.job.plan.launcher}


@pytest.mark.parametrize(
    ("trainer", "use"), [("elastic = true", ", to replace lost ones"), ("", "")]
)
def test_a_node_without_a_role_is_for_roles_that_can_use_it(trainer: str, use: str) -> None:
    text = (TWO % "\n" + trainer).replace("on_failure", "#").replace("max_restarts", "#")
    command = parse(["--host", "h[1-4]:2"], {})
    spec = roles_spec(command, parsed("rl.toml", text.encode()), find_nodes(command))
    assert spec.job.origin.notes == (f"1 node without a role{use}: h4",)


def test_several_workers_that_are_told_one_port_are_noted() -> None:
    (note,) = (one for one in planned(trainer=PORTS).job.origin.notes if "port" in one)
    assert note == (
        "role trainer: its 2 workers on h2 all get the port {port.rdzv}; if each listens there,"
        " give it workers = 1, or add LOCAL_RANK to the port"
    )
    alone = planned(trainer=f"{PORTS}workers = 1\n").job.origin.notes
    silent = planned(trainer='ports = ["rdzv"]\n').job.origin.notes
    assert not [one for one in (*alone, *silent) if "port" in one]


PORTS = 'ports = ["rdzv"]\nargs = ["--port", "{port.rdzv}"]\n'


def test_terms_of_a_role(folder: Path) -> None:
    server = role("server", planned())
    assert (server.ends, server.on_failure, server.max_restarts) == ("never", "restart", 5)
    assert (server.ports, server.ready.what) == (("http",), f"{folder}/up")
    assert server.job.elastic is None, "these restarts are not rounds"
    assert role("trainer", planned()).after == ("server",)


def test_options_of_the_whole_job_are_those_of_its_roles() -> None:
    spec = planned("--grace", "7", "--export", "A=1", "--max_restarts", "2", "--log_dir", "logs",
                   server='env = { B = "2" }')  # fmt: skip
    server, trainer = spec.roles
    assert [one.supervision.grace for one in (spec.job, server.job, trainer.job)] == [7, 3, 7]
    assert {"A", "B"} <= server.job.travel.values.keys()
    assert "B" not in trainer.job.travel.values
    assert (trainer.job.elastic is not None, server.job.elastic) == (True, None)
    assert spec.job.elastic is None
    assert {one.job.output.log_dir for one in spec.roles} == {spec.job.output.log_dir} == {"logs"}


def test_labels_logs_and_role_name() -> None:
    spec = planned()
    assert {one.job.workers.role for one in spec.roles} == {"server", "trainer"}
    assert [one.job.output.log_part for one in spec.roles] == ["server", "trainer"]
    prefix = "{role}/{host}:{rank}| "
    assert {one.job.output.prefix for one in spec.roles} == {spec.job.output.prefix} == {prefix}
    spec = planned("--prefix", "{rank}|", server='prefix = "s|"')
    assert [one.job.output.prefix for one in spec.roles] == ["s|", "{rank}|"]


def test_what_is_done_once_is_not_a_matter_of_roles() -> None:
    spec = planned("--report_file", "r.json", "--metrics_file", "m", "--on_event", "cat")
    assert spec.job.output.report_file == "r.json"
    assert spec.job.hooks.on_event == "cat"
    for one in spec.roles:
        assert one.job.output.report_file is None
        assert (one.job.hooks.metrics_file, one.job.hooks.on_event) == (None, "")


def test_a_script_is_passed_its_local_rank_only_on_request() -> None:
    trainer = role("trainer", planned(trainer="local_rank = true"))
    assert trainer.job.plan.program.argv("python", 1) == [
        *("python", "-u", "train.py", "--local_rank=1")
    ]


HELPER = """
[[role]]
name = "helper"
beside = "trainer"
slots = 0
workers = 1
script = "train.py"
ends = "wait"
"""


def test_a_role_without_devices_does_not_miss_any() -> None:
    spec = planned(trainer=f"workers = 1\n{HELPER}")
    assert role("trainer", spec).job.workers.expects_devices
    assert not role("helper", spec).job.workers.expects_devices


def test_policies_of_a_role() -> None:
    trainer = role(
        "trainer",
        planned(
            trainer='elastic = true\nmin_elastic_nodes = 1\nhang_timeout = "1h"\n'
            'bind_cores_to_rank = true\npreload = "torch"\nexpect = "loss"\nevery = 3\n'
            'workdir = "/"\npython = "/usr/bin/python3"\nlog_dir = "t"\nmaster_port = 4444'
        ),
    ).job
    assert trainer.elastic is not None
    assert (trainer.elastic.least, trainer.watch.hang_timeout) == (1, 3600.0)
    assert (trainer.binding.bind_to, trainer.workers.preload) == ("core", ("torch",))
    assert (trainer.watch.rules[0].expect, trainer.plan.master_port) == ("loss", 4444)
    assert (trainer.workdir, trainer.plan.program.python) == ("/", "/usr/bin/python3")


def test_a_spec_travels() -> None:
    spec = planned()
    assert codec.decode(RolesSpec, codec.encode(spec)) == spec


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--nnodes", "1:2"], "--nnodes 1:2: not with several programs; roles may be elastic"),
        (["--role", "x"], "--role: not with several programs; the ROLE_NAME of workers"),
        (["--rank_per_task"], "--rank_per_task: not with several programs"),
        (["--stdin", "rank0"], "--stdin: not with several programs; give it to the role"),
        (["--ends", "job"], "--ends: only for a role: in a --roles file, or after --program"),
        (["--master_port", "1"], "--master_port: each role has its own; give it to the role"),
        (["--json"], "--json: only with --dry_run"),
        (["--expect", "x", "--redirects", "3"], "rl.toml:1: role server: --redirects 3: no output"),
    ],
)
def test_options_that_a_job_of_roles_cannot_have(words: list[str], expected: str) -> None:
    assert fault(*words).startswith(expected)


@pytest.mark.parametrize(
    ("trainer", "expected"),
    [
        ("min_elastic_nodes = 5", "rl.toml:21: min_elastic_nodes 5: the job has only 2 nodes"),
        ('debug = "99"', "rl.toml:21: debug 99: the ranks of this job are 0 to 3"),
        ('restart_on = "data"', "rl.toml:21: restart_on: only in an elastic job"),
        ('log_dir = "x"\nnproc_per_node = "x"', "rl.toml:22: nproc_per_node x: expected 1 to"),
        ("workers = 3", "rl.toml:21: workers: 3 slots wanted on h2, which has only 2 for it"),
    ],
)
def test_errors_of_a_role_name_its_line(trainer: str, expected: str) -> None:
    assert fault(trainer=trainer).startswith(expected)


def test_one_role_reads_standard_input() -> None:
    spec = planned(trainer='stdin = "rank0"')
    assert [one.job.output.stdin for one in spec.roles] == [False, True]
    both = 'stdin = "rank0"'
    assert fault(server=both, trainer=both) == (
        "rl.toml:21: stdin: only one role can read standard input; server does"
    )


def test_a_script_that_is_not_there_is_the_fault_of_its_role(folder: Path) -> None:
    (folder / "train.py").unlink()
    command = parse(["--host", "localhost:4"], {})
    text = TWO.replace("nodes = 1", 'hosts = ["localhost:0-1"]') % ""
    text = text.replace("nodes = 2", 'hosts = ["localhost:2+3"]')
    with pytest.raises(UsageError) as caught:
        roles_spec(command, parsed("rl.toml", text.encode()), find_nodes(command))
    assert str(caught.value) == f"rl.toml:14: role trainer: no such script: {folder}/train.py"


@pytest.mark.parametrize(
    ("words", "notes"),
    [
        (["--venv_script", "activate"], []),
        (["--health_command", "true", "--health_timeout", "5"], []),
        (["--venv_script="], ["--venv_script is empty, so it has no effect"]),
    ],
)
def test_only_what_has_no_effect_is_said_to_have_none(words: list[str], notes: list[str]) -> None:
    found = planned(*words).job.origin.notes
    assert [note for note in found if "no effect" in note] == notes
