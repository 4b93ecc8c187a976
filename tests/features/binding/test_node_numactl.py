"""The numactl that binds a worker: its command, and which policies work here."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.features.binding import node_numactl as numactl
from dsrun.launcher.features.binding.node_plan import WorkerShare, plan
from dsrun.launcher.features.binding.node_topology import read_topology

from ...support.bindings import CORE, SHOW_AFFINITY, run, without
from ...support.needs import need


@pytest.mark.parametrize(
    ("memory", "policy", "words"),
    [
        ((0,), "bind", ["-m", "0"]),
        ((0, 2), "bind", ["-m", "0,2"]),
        ((8,), "preferred", ["-p", "8"]),
        ((8, 9), "preferred", ["-P", "8-9"]),
        ((0, 1), "interleave", ["-i", "0-1"]),
        ((), "", []),
    ],
)
def test_numactl_is_told_cpus_and_memory(
    memory: tuple[int, ...], policy: str, words: list[str]
) -> None:
    bound = WorkerShare((0, 1, 2, 3, 8), 5, memory, policy)
    assert numactl.argv(bound, "/bin/numactl") == ["/bin/numactl", "-C", "0-3,8", *words, "--"]


def fake_numactl(folder: Path, text: str) -> str:
    program = folder / "numactl"
    program.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
    program.chmod(0o700)
    return str(folder)


BOUND = [
    WorkerShare((0,), 1, (0,), "bind"),
    WorkerShare((1,), 1, (0, 1), "preferred"),
    WorkerShare((2,), 1),
]


def test_without_a_rule_for_memory_numactl_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setenv("PATH", fake_numactl(tmp_path, f"touch {tmp_path}/ran"))
    assert numactl.prefixes([BOUND[2]] * 2, said.append) == [(), ()]
    assert not said
    assert not (tmp_path / "ran").exists()


def test_no_numactl_no_rule_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setenv("PATH", f"{tmp_path}:/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    assert numactl.prefixes(BOUND, said.append) == [()] * 3
    assert said == ["numactl is not installed here: cores are bound, memory is not"]


def test_numactl_is_tried_once_for_each_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setenv("PATH", fake_numactl(tmp_path, f'echo "$3" >> {tmp_path}/tried'))
    tool = f"{tmp_path}/numactl"
    assert (
        numactl.prefixes(BOUND * 2, said.append)
        == [(tool, "-C", "0", "-m", "0", "--"), (tool, "-C", "1", "-P", "0-1", "--"), ()] * 2
    )
    assert sorted((tmp_path / "tried").read_text().split()) == ["-P", "-m"]
    assert not said


@pytest.mark.parametrize(
    "text", ['test "$3" != -P', 'if [ "$3" = -P ]; then kill -9 $$; fi'], ids=["fails", "is killed"]
)
def test_a_policy_that_is_forbidden_is_left_out(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setenv("PATH", fake_numactl(tmp_path, text))
    found = numactl.prefixes(BOUND, said.append)
    assert found == [(f"{tmp_path}/numactl", "-C", "0", "-m", "0", "--"), (), ()]
    assert said == [
        "numactl cannot set the memory policy 'preferred-many' here: cores are bound, memory is not"
    ]


def test_what_numactl_says_while_it_is_tried_is_not_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = fake_numactl(tmp_path, "echo out; echo err >&2")
    assert numactl.works(BOUND[0], f"{path}/numactl")
    assert capfd.readouterr() == ("", "")


def test_a_numactl_that_is_no_program_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    (tmp_path / "numactl").write_bytes(b"\x7fELF")
    (tmp_path / "numactl").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert numactl.prefixes(BOUND[:1], said.append) == [()]
    (line,) = said
    assert line.startswith("numactl cannot set the memory policy 'bind' here: cores are bound")


def test_numactl_binds_each_worker_to_its_share() -> None:
    need("numactl")
    read = read_topology()
    for binding in plan(read, without(len(read.cores)), CORE).bindings:
        argv = numactl.argv(binding, shutil.which("numactl") or "")
        shown = run([*argv, sys.executable, "-c", SHOW_AFFINITY])
        assert json.loads(shown) == list(binding.cpus)


@pytest.mark.parametrize(
    ("policy", "shown"),
    [("bind", "bind"), ("preferred", "preferred"), ("interleave", "interleave")],
)
def test_numactl_takes_the_memory_rule(policy: str, shown: str) -> None:
    need("numactl")
    tool = shutil.which("numactl") or ""
    node = min(read_topology().memory_nodes)
    bound = WorkerShare(tuple(sorted(os.sched_getaffinity(0))), 1, (node,), policy)
    probe = subprocess.run([tool, "-m", str(node), "true"], capture_output=True, check=False)
    if b"not permitted" in probe.stderr:
        pytest.skip("set_mempolicy(2) is forbidden here, as in a container without CAP_SYS_NICE")
    assert f"policy: {shown}" in run([*numactl.argv(bound, tool), tool, "--show"])
    said: list[str] = []
    assert numactl.prefixes([bound], said.append) == [tuple(numactl.argv(bound, tool))]
    assert not said


def test_numactl_leaves_the_command_its_dashes(tmp_path: Path) -> None:
    need("numactl")
    program = tmp_path / "-m"
    program.write_text('#!/bin/sh\nprintf "%s;" "$@"\n', encoding="ascii")
    program.chmod(0o700)
    bound = WorkerShare((min(os.sched_getaffinity(0)),), 1)
    argv = [*numactl.argv(bound, shutil.which("numactl") or ""), "-m", "-C", "7", "--", "a b"]
    assert run(argv, PATH=f"{tmp_path}:{os.environ['PATH']}") == "-C;7;--;a b;"


def test_a_narrowed_launcher_binds_inside_its_mask() -> None:
    need("taskset", "numactl")
    cpu = max(os.sched_getaffinity(0))
    argv = numactl.argv(WorkerShare((cpu,), 1), shutil.which("numactl") or "")
    shown = run(["taskset", "-c", str(cpu), *argv, sys.executable, "-c", SHOW_AFFINITY])
    assert json.loads(shown) == [cpu]


def test_a_numactl_of_the_current_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fake_numactl(tmp_path, ":"))
    monkeypatch.setenv("PATH", ":.")
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    assert numactl.prefixes(BOUND[:1], print) == [()]
