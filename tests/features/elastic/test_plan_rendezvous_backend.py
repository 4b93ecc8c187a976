"""A rendezvous backend that torch does not have is refused without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.cli.parser import Command
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.elastic import plan_rendezvous_backend as rendezvous_backend

if TYPE_CHECKING:
    from pathlib import Path


def check(backend: str, **given: object) -> None:
    options = Options().changed(rdzv_backend=backend, **given)
    rendezvous_backend.check(Command(options, ("src/train.py",), frozenset()))


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that has the backend `zeus`."""
    folder = tmp_path / "zeus-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: zeus\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[torchrun.handlers]\nzeus = zeus:handler\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(("name", "meant"), [("c10", "c10d"), ("etcd2", "etcd"), ("q", "")])
def test_a_misspelt_one_is_refused(name: str, meant: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(name)
    assert f"--rdzv_backend {name}: torch has no such backend; expected c10d, " in str(
        refused.value
    )
    assert str(refused.value).endswith(f"did you mean {meant}?") is bool(meant)


@pytest.mark.usefixtures("plugin")
def test_a_plugin_is_known() -> None:
    check("zeus")
    with pytest.raises(UsageError, match=r"static, zeus, or .*; did you mean zeus\?$"):
        check("zeuss")


@pytest.mark.parametrize("name", rendezvous_backend.TORCHS_OWN)
def test_torchs_own(name: str) -> None:
    check(name)


@pytest.mark.parametrize(
    "given", [{"python": "/py"}, {"venv_script": "/v"}, {"export": ["PYTHONPATH=/packages"]}]
)
def test_what_another_python_has_is_left_to_torch(given: dict[str, object]) -> None:
    check("zeus", **given)


@pytest.mark.usefixtures("repo")
@pytest.mark.parametrize("no_python", [True, False])
def test_what_the_python_of_the_project_has_is_left_to_torch(no_python: bool) -> None:
    check("zeus", no_python=no_python)


@pytest.mark.usefixtures("own")
def test_without_a_project_dsruns_own_python_is_looked_at() -> None:
    with pytest.raises(UsageError, match="torch has no such backend"):
        check("zeus", workdir="/")
