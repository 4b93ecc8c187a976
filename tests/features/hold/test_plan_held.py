"""Jobs on held nodes: which hosts take part, and which options a hold decides."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import NodeError, UsageError
from dsrun.launcher.features.hold import plan_held as held
from dsrun.launcher.features.roles import plan_command_line as command_line
from dsrun.launcher.planning import rendezvous
from dsrun.launcher.specs import codec
from dsrun.launcher.specs.backend import BackendSettings

if TYPE_CHECKING:
    from pathlib import Path

    from dsrun.launcher.specs.job import JobSpec
    from dsrun.launcher.specs.roles import RolesSpec

FOR_EIGHT = {
    "enabled": True,
    "max_train_batch_size": 8,
    "micro_batch_sizes": [1, 2],
    "min_gpus": 8,
    "max_gpus": 8,
    "version": 0.1,
}
"""An elastic batch plan for eight workers alone."""

SETTINGS = BackendSettings(python="/opt/python", port=2222, args=("-q",))


def answer(*, lost: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """What a hold of four hosts says about itself."""
    hosts = [
        {"name": name, "slots": [0, 1], "state": "free", "reason": ""}
        for name in ("n1", "n2", "n3", "n4")
    ]
    for host in hosts:
        if host["name"] in lost:
            host |= {"state": "lost", "reason": "no route to host"}
    return {
        "name": "morning",
        "version": __version__,
        "launcher": "ssh",
        "hosts": hosts,
        "settings": codec.encode(SETTINGS),
        **more,
    }


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(*words: str, lost: tuple[str, ...] = (), **more: Any) -> JobSpec:
    """The job of a command line on the hold."""
    command = rendezvous.apply(parse(["--on=morning", *words, "train.py"], {}))
    held.check(command)
    return held.held_job(command, held.nodes_of(answer(lost=lost, **more)))


def roles(nodes: int, lost: tuple[str, ...] = ()) -> RolesSpec:
    """A job of one role on so many nodes of the hold."""
    command = parse(["--on=morning"], {})
    tables = command_line.tables(
        [["--program", "a", "--num_nodes", str(nodes), "--ends", "job", "train.py"]]
    )
    return held.held_roles(command, tables, held.nodes_of(answer(lost=lost)))


def slots(spec: JobSpec) -> dict[str, tuple[int | str, ...] | None]:
    return {node.host.name: node.slots for node in spec.plan.nodes}


def test_a_job_has_all_nodes_and_is_reached_as_the_hold_reaches_them() -> None:
    spec = plan()
    assert slots(spec) == dict.fromkeys(("n1", "n2", "n3", "n4"), (0, 1))
    assert (spec.plan.launcher, spec.plan.world_size, spec.held) == ("ssh", 8, True)
    assert (spec.backend, spec.environ) == (SETTINGS, dict(os.environ))
    assert spec.origin.words == "hosts: hold morning; launcher: ssh (of hold morning)"
    assert (spec.origin.notes, spec.origin.quiet) == ((), False)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--include", "n2@n4:1"], {"n2": (0, 1), "n4": (1,)}),
        (["--exclude", "n[1-3]"], {"n4": (0, 1)}),
        (["--num_nodes", "2"], {"n1": (0, 1), "n2": (0, 1)}),
        (["--num_gpus", "1", "--nnodes", "2"], {"n1": (0,), "n2": (0,)}),
    ],
)
def test_the_filters_choose_among_the_nodes(
    words: list[str], expected: dict[str, tuple[int, ...]]
) -> None:
    assert slots(plan(*words)) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["n1", "n3", "n4"]),
        (["--num_nodes", "2"], ["n1", "n3"]),
        (["--exclude", "n2@n1"], ["n3", "n4"]),
        (["--include", "n1@n3"], ["n1", "n3"]),
    ],
)
def test_a_lost_node_is_left_out_and_named(words: list[str], expected: list[str]) -> None:
    spec = plan(*words, lost=("n2",))
    assert list(slots(spec)) == expected
    assert spec.origin.notes == ("currently missing: n2: no route to host",)


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        (["--include", "n2"], ("n2",)),
        (["--include", "n1@n2"], ("n2",)),
        (["--exclude", "n1"], ()),
        (["--num_nodes", "4"], ("n2",)),
        (["--num_nodes", "4"], ("n2", "n3")),
    ],
)
def test_a_lost_node_cannot_be_asked_for(words: list[str], lost: tuple[str, ...]) -> None:
    with pytest.raises(NodeError, match="--on morning: lost n2: no route to host"):
        plan(*words, lost=lost or ("n2", "n3", "n4"))


@pytest.mark.parametrize(
    "words",
    [
        ["--elastic_training", "--min_elastic_nodes", "4"],
        ["--nnodes", "4:5", "--max_restarts", "1"],
        ["--exclude_unhealthy", "--min_elastic_nodes", "4"],
        ["--exclude", "n1", "--elastic_training", "--min_elastic_nodes", "3"],
        ["--elastic_config", "plan.json"],
    ],
    ids=" ".join,
)
def test_a_job_that_needs_a_lost_node_can_start_once_that_is_back(
    words: list[str], folder: Path
) -> None:
    (folder / "plan.json").write_text(json.dumps({"elasticity": FOR_EIGHT}))
    with pytest.raises(NodeError, match="--on morning: lost n2: no route to host; the hold keeps"):
        plan(*words, lost=("n2",))
    if "4:5" not in words:
        assert plan(*words)


def test_roles_that_need_a_lost_node_can_start_once_that_is_back() -> None:
    with pytest.raises(NodeError, match="--on morning: lost n2: no route to host; the hold keeps"):
        roles(nodes=4, lost=("n2",))
    with pytest.raises(UsageError):
        roles(nodes=5, lost=("n2",))
    assert roles(nodes=4).roles


@pytest.mark.parametrize(
    "words",
    [
        ["--num_nodes", "2", "--elastic_training", "--min_elastic_nodes", "3"],
        ["--elastic_training", "--min_elastic_nodes", "5"],
        ["--elastic_training", "--stdin", "rank0"],
    ],
    ids=" ".join,
)
def test_what_lost_nodes_would_not_help_is_the_users_mistake(words: list[str]) -> None:
    with pytest.raises(UsageError):
        plan(*words, lost=("n2",))


def test_more_nodes_than_are_held_are_the_users_mistake() -> None:
    with pytest.raises(UsageError, match=r"^--num_nodes: expected 1 to 4 "):
        plan("--num_nodes", "5", lost=("n2",))


def test_few_of_many_lost_nodes_are_named() -> None:
    with pytest.raises(NodeError, match=r"lost n1: .*; n2: .*; n3: no route to host, and 1 more;"):
        plan(lost=("n1", "n2", "n3", "n4"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--include", "n9"], "n9"),
        (["--num_nodes", "5"], "5"),
        (["--num_gpus", "3"], "3"),
        (["--include", "n1:7"], "7"),
        (["--exclude", "n1", "--num_nodes", "1"], "conflicting options"),
    ],
)
def test_nodes_that_are_not_held(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan(*words)


@pytest.mark.parametrize(
    "words",
    [
        ["--hostfile", "hosts"],
        ["--host", "n1"],
        ["--launcher", "ssh"],
        ["--ssh_port", "22"],
        ["--node_rank", "0"],
        ["--no_ssh"],
        ["--standalone"],
        ["--heartbeat_timeout", "3"],
    ],
)
def test_what_the_hold_decides_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match=f"--on morning: not with {words[0]}, which dsrun-hold"):
        plan(*words)


def test_torchs_rendezvous_is_refused() -> None:
    with pytest.raises(UsageError, match="not with --rdzv_backend c10d"):
        plan("--rdzv_backend", "c10d", "--rdzv_endpoint", "n1:1", "--nnodes", "2")


def test_another_version() -> None:
    with pytest.raises(UsageError, match=r"the hold runs dsrun 0\.0, but this is dsrun"):
        plan(version="0.0")


def test_slots_with_ids() -> None:
    hosts = [{"name": "n1", "slots": ["GPU-1", "GPU-2"], "state": "busy", "reason": ""}]
    assert slots(plan("--include", "n1:GPU-2", hosts=hosts)) == {"n1": ("GPU-2",)}


def test_a_mask_of_this_machine_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert plan().origin.notes == ()
    hosts = [{"name": "localhost", "slots": [0, 1], "state": "free", "reason": ""}]
    (note,) = plan(hosts=hosts, launcher="local").origin.notes
    assert note.startswith("CUDA_VISIBLE_DEVICES has no effect on held nodes; --include")


def test_a_hold_of_this_machine_alone_needs_no_opening_line() -> None:
    hosts = [{"name": "localhost", "slots": [0, 1], "state": "free", "reason": ""}]
    assert plan(hosts=hosts, launcher="local").origin.quiet


def test_a_hold_whose_python_was_named_decides(repo: Path) -> None:
    (repo / "train.py").touch()
    command = parse(["--on=morning", "train.py"], {})

    def python(settings: BackendSettings) -> tuple[str, str, tuple[str, ...]]:
        described = answer(settings=codec.encode(settings))
        spec = held.held_job(command, held.nodes_of(described))
        return spec.plan.program.project_python, spec.origin.python, spec.origin.notes

    assert python(SETTINGS) == ("", "--python", ())
    found, origin, notes = python(SETTINGS._replace(python=sys.executable))
    assert (found, origin, len(notes)) == (f"{repo}/.venv/bin/python", ".venv", 1)
