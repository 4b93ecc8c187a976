"""Versions of libraries, from the files of made-up installations."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dsrun.launcher.features.quick_check.node_interpreter import Interpreter, cache, versions

if TYPE_CHECKING:
    from pathlib import Path

TORCH = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.4.0+cu121'
debug = False
cuda: Optional[str] = '12.1'
git_version = 'abc'
hip: Optional[str] = None
"""


def installed(folder: Path, *names: str) -> str:
    """Make a folder of packages with metadata of these names."""
    for name in names:
        (folder / name).mkdir(parents=True)
    return str(folder)


def found(root: Path, *folders: str, **environ: str) -> dict[str, str]:
    return versions(Interpreter("/py", "3.9", folders), environ, f"{root}/")


def test_metadata_and_torchs_own_file_have_the_versions(tmp_path: Path) -> None:
    names = ("torch-2.4.0.dist-info", "numpy-1.26.4.dist-info", "Flash.Attn-2.5.dist-info")
    more = (
        "deepspeed-0.14.0-py3.10.egg-info",
        "nvidia_nccl_cu12-2.20.5.dist-info",
        "six-1.dist-info",
    )
    folder = installed(tmp_path / "a", *names, *more)
    parts = {"deepspeed": "0.14.0", "flash_attn": "2.5", "nccl": "2.20.5", "numpy": "1.26.4"}
    assert found(tmp_path, folder) == {**parts, "torch": "2.4.0"}
    (tmp_path / "b/torch").mkdir(parents=True)
    (tmp_path / "b/torch/version.py").write_text(TORCH)
    assert found(tmp_path, folder, str(tmp_path / "b")) == {
        **parts,
        "torch": "2.4.0+cu121",
        "cuda": "12.1",
    }


def test_torch_in_a_folder_that_a_path_file_names(tmp_path: Path) -> None:
    for name, line in (("a", "../b\n"), ("c", f"import x\n# y\n\n{tmp_path}/b\n")):
        (tmp_path / name).mkdir()
        file = {"a": "torch.egg-link", "c": "extra.pth"}[name]
        (tmp_path / name / file).write_text(line)
    assert found(tmp_path, str(tmp_path / "a")) == {}
    (tmp_path / "b/torch").mkdir(parents=True)
    (tmp_path / "b/torch/version.py").write_text(TORCH)
    for name in "ac":
        other = installed(tmp_path / f"{name}2")
        assert found(tmp_path, str(tmp_path / name), other)["torch"] == "2.4.0+cu121"


def test_the_first_folder_wins(tmp_path: Path) -> None:
    first = installed(tmp_path / "a", "numpy-1.0.dist-info")
    second = installed(tmp_path / "b", "numpy-2.0.dist-info", "triton-3.0.dist-info")
    assert found(tmp_path, first, second) == {"numpy": "1.0", "triton": "3.0"}
    assert found(tmp_path, second, first) == {"numpy": "2.0", "triton": "3.0"}


def test_a_change_of_a_folder_is_seen(tmp_path: Path) -> None:
    folder = installed(tmp_path / "a", "numpy-1.0.dist-info")
    assert found(tmp_path, folder) == {"numpy": "1.0"}
    (tmp_path / "a/numpy-1.0.dist-info").rename(tmp_path / "a/numpy-2.0.dist-info")
    os.utime(folder, ns=(1, 1))
    assert found(tmp_path, folder) == {"numpy": "2.0"}


def test_libraries_and_drivers_are_told_by_files(tmp_path: Path) -> None:
    system, other = tmp_path / "usr/lib64", tmp_path / "other"
    for folder, version in ((system, "2.18.5"), (other, "2.19.3")):
        folder.mkdir(parents=True)
        (folder / f"libnccl.so.{version}").touch()
        (folder / "libnccl.so.2").symlink_to(f"libnccl.so.{version}")
    driver = tmp_path / "sys/module/nvidia/version"
    driver.parent.mkdir(parents=True)
    driver.write_text("535.129.03\n")
    assert found(tmp_path) == {"driver": "535.129.03", "nccl": "2.18.5"}
    preferred = {"LD_LIBRARY_PATH": f"/none:{other}"}
    assert found(tmp_path, **preferred)["nccl"] == "2.19.3"
    packages = installed(tmp_path / "a", "nvidia_nccl_cu12-2.20.5.dist-info")
    both = found(tmp_path, packages, **preferred)
    assert (both["nccl"], both["nccl_preferred"]) == ("2.20.5", "2.19.3")


def test_what_was_read_is_kept_until_the_folder_changes(tmp_path: Path) -> None:
    folder = installed(tmp_path / "a", "torch-2.4.0.dist-info")
    assert found(tmp_path, folder) == {"torch": "2.4.0"}
    (tmp_path / "a/torch-2.4.0.dist-info").rename(tmp_path / "a/torch-2.5.0.dist-info")
    os.utime(folder, (1e9, 1e9))
    assert found(tmp_path, folder) == {"torch": "2.5.0"}
    assert len(cache) == 1
