"""--rank_order and --segment: the nodes of a job in the order of their places in the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.planning.hosts import select
from dsrun.launcher.planning.inventory import find_hosts

HOSTS = "a1 block=a\nb1 block=b\na2 block=a\nb2 block=b\nb3 block=b\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts").write_text(HOSTS)
    (tmp_path / "plain").write_text("a1\nb1\na2\nb2\n")
    return tmp_path


def names(*words: str, hosts: str = "hosts") -> str:
    options = parse(["-H", hosts, *words, "x.py"], {}).options
    return " ".join(host.name for host in select(options, find_hosts(options)))


def fault(*words: str, hosts: str = "hosts") -> str:
    with pytest.raises(UsageError) as caught:
        names(*words, hosts=hosts)
    return str(caught.value)


def scontrol(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program of this name on PATH."""
    (folder / "bin").mkdir()
    (folder / "bin" / "scontrol").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "a1 b1 a2 b2 b3"),
        (["--rank_order", "blocks"], "a1 a2 b1 b2 b3"),
        (["--rank_order", "blocks", "--num_nodes", "3"], "a1 a2 b1"),
        (["--segment", "2", "--num_nodes", "4"], "a1 a2 b1 b2"),
        (["--segment", "3", "--num_nodes", "3"], "b1 b2 b3"),
        (["--segment", "2", "--exclude", "b1"], "a1 a2 b2 b3"),
        (["--segment", "1"], "a1 a2 b1 b2 b3"),
    ],
)
def test_nodes_of_a_block_are_in_a_row(words: list[str], expected: str) -> None:
    assert names(*words) == expected


def test_a_file_gives_the_order(folder: Path) -> None:
    (folder / "order").write_text("b[1-3]\na2\na1\n")
    assert names("--rank_order", "order") == "b1 b2 b3 a2 a1"
    assert names("--rank_order", "order", "--num_nodes", "2") == "b1 b2"
    assert fault("--rank_order", "order", "--segment", "5") == (
        "--segment 5: nodes 0 to 4 (b1, b2, b3, a2, a1) are in blocks b, a; no block has that many"
        " nodes"
    )


def test_slurm_knows_the_blocks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "BlockName=x Nodes=b[1-2]\\nBlockName=y Nodes=a[1-9]\\n"
    scontrol(folder, monkeypatch, f'[ "$*" = "show topology" ] && printf "{lines}"')
    assert names("--rank_order", "slurm", hosts="plain") == "b1 b2 a1 a2"
    assert names("--rank_order", "slurm", "--segment", "2", hosts="plain") == "b1 b2 a1 a2"


def test_slurm_does_not_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol(folder, monkeypatch, "echo 'slurm_load: no controller' >&2; exit 1")
    assert fault("--rank_order", "slurm") == (
        "--rank_order slurm: `scontrol show topology`: slurm_load: no controller"
    )
    monkeypatch.chdir(folder / "bin")
    monkeypatch.setenv("PATH", f"{folder}:.:")
    assert "needs `scontrol`, which is not on PATH" in fault(
        "--rank_order", "slurm", hosts="../hosts"
    )


@pytest.mark.parametrize(
    ("words", "hosts", "expected"),
    [
        (["--segment", "2"], "plain", "--segment 2: hostfile plain has no blocks; write block="),
        (["--rank_order", "blocks"], "plain", "--rank_order blocks: hostfile plain has no blocks"),
        (
            ["--segment", "2"],
            "hosts",
            "--segment 2: 5 nodes are not a multiple of it; 4 nodes fit: -",
        ),
        (["--rank_order", "x"], "hosts", "--rank_order x: no such file or directory; expected"),
        (["--segment", "2", "--watch_hostfile"], "hosts", "--segment: not with --watch_hostfile"),
        (["--rank_order", "hosts", "--watch_hostfile"], "hosts", "--rank_order: not with --watch"),
        (["--rank_order", "blocks", "--num_nodes", "9"], "hosts", "--num_nodes: expected 1 to 5"),
    ],
)
def test_an_order_that_cannot_be(words: list[str], hosts: str, expected: str) -> None:
    assert fault(*words, hosts=hosts).startswith(expected)


def test_a_file_has_no_more_than_names_and_blocks(folder: Path) -> None:
    (folder / "order").write_text("a1 slots=2\n")
    assert fault("--rank_order", "order") == "order:1: expected only HOST, or HOST block=NAME"
