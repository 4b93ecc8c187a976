"""Which host is meant by a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.resources import aliases
from dsrun.launcher.resources.aliases import meant, parse
from dsrun.launcher.resources.filters import named
from dsrun.launcher.resources.rank_order import as_listed
from dsrun.launcher.specs.host import Host

from ..support.properties import same_examples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NODES = (
    "NodeName=a1 Arch=x86_64 CoresPerSocket=1 NodeAddr=10.0.0.1 NodeHostName=n1 Version=22.05.8\n"
    "NodeName=a2 Arch=x86_64 NodeAddr=ib2.site.org NodeHostName=n2.site.org Reason=NodeName=a9\n"
    "NodeName=v1 NodeAddr=front NodeHostName=front Port=17001\n"
    "NodeName=v2 NodeAddr=front NodeHostName=front Port=17002\n"
)


@pytest.fixture
def in_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Slurm job whose `scontrol` tells `NODES`, and writes down that it was asked."""
    asked = tmp_path / "asked"
    tool = tmp_path / "scontrol"
    tool.write_text(f"#!/bin/sh\necho \"$*\" >> {asked}\ncat <<'END'\n{NODES}END\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    aliases._aliases.cache_clear()
    yield asked
    aliases._aliases.cache_clear()


@pytest.mark.parametrize(
    ("host", "node"),
    [
        ("n1", "n1"),
        ("N1", "n1"),
        ("n1.site.org", "n1"),
        ("N1.Site.org", "n1"),
        ("n2", "n2.site.org"),
        ("n2.other.org", ""),
        ("n3", ""),  # that of two
        ("n3.b", "n3.b"),
        ("FD00::a", "fd00::A"),
        ("10", ""),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_long_and_short_and_capital_names_are_one(
    host: str, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    known = ["n1", "n2.site.org", "n3.a", "n3.b", "fd00::A", "10.0.0.1"]
    assert meant([host], known) == ({host: node} if node else {})


def test_slurm_tells_other_names_of_its_nodes(in_slurm: Path) -> None:
    nodes = ["a1", "a2", "v1", "v2"]
    assert meant(["a1", "A2"], nodes) == {"a1": "a1", "A2": "a2"}
    assert not in_slurm.exists()  # it is not asked about names that are known
    hosts = ["n1", "N1.site.org", "10.0.0.1", "n2", "ib2", "front", "x"]
    found = dict.fromkeys(hosts[:3], "a1") | dict.fromkeys(hosts[3:5], "a2")
    assert meant(hosts, nodes) == found
    assert meant(["a1"], ["n1.site.org"]) == {"a1": "n1.site.org"}
    assert in_slurm.read_text() == "--oneliner show nodes\n"


@pytest.mark.usefixtures("in_slurm")
def test_filters_and_orders_take_any_name_of_a_node() -> None:
    hosts = [Host("a1", (0, 1)), Host("a2", (0, 1))]
    for text in ("n1:0@N2", "A1:0@a2.site.org", "10.0.0.1:0@ib2"):
        assert named("--include", text, hosts, "the job") == {"a1": (0,), "a2": None}
    listed = [Host("n2", where="f:1"), Host("A1", where="f:2")]
    assert [host.name for host in as_listed(hosts, listed, "the job")] == ["a2", "a1"]


def test_a_slurm_that_does_not_answer_has_no_other_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    aliases._aliases.cache_clear()
    assert meant(["n1"], ["a1"]) == {}
    aliases._aliases.cache_clear()


@same_examples
@given(st.text(alphabet="NodeAmHs=.\n x1é"))
def test_whatever_scontrol_prints(text: str) -> None:
    assert all(name and node for name, node in parse(text))
