"""What torch and DeepSpeed tell of themselves; made-up ones, run by a Python of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from dsrun.launcher.features.quick_check import torch_report

from ...support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path

TORCH = """
import types
print("torch is loading")
__version__ = "2.4.0"
version = types.SimpleNamespace(debug=False, cuda=None, hip=None)
cuda = types.SimpleNamespace(is_available=lambda: False)
backends = None
distributed = types.SimpleNamespace(is_gloo_available=lambda: True, is_nccl_available=lambda: False)
"""


def told(folder: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-B", "-S", torch_report.__file__],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_torch_is_described_and_what_is_missing_said(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(TORCH)
    found = told(tmp_path)
    assert found["torch.version"] == "2.4.0"
    assert found["torch.path"] == str(tmp_path / "torch")
    assert (found["cuda.available"], found["torch.gloo"], found["torch.nccl"]) == (
        "False",
        "True",
        "False",
    )
    assert found["torch.threads"].startswith("AttributeError: ")
    assert found["deepspeed.version"] == "none"


def test_deepspeeds_operators_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "deepspeed"
    (folder / "ops/op_builder").mkdir(parents=True)
    (folder / "__init__.py").write_text("__version__ = '0.14'\n")
    (folder / "git_version_info.py").write_text(
        "torch_info = {'version': '2.4'}\ninstalled_ops = {'fused_adam': True}\n"
    )
    (folder / "ops/op_builder/all_ops.py").write_text(
        "class Op:\n    def is_compatible(self, verbose=False): return True\n"
        "class Bad:\n    def is_compatible(self, verbose=False): raise OSError\n"
        "ALL_OPS = {'fused_adam': Op(), 'aio': Op(), 'cpu': Bad()}\n"
    )
    found = told(tmp_path)
    assert found["torch.version"] == "none"
    assert found["deepspeed.op.aio"] == "compatible"
    assert found["deepspeed.op.cpu"] == "incompatible"
    assert found["deepspeed.op.fused_adam"] == "installed-compatible"
    assert found["deepspeed.torch"] == "{'version': '2.4'}"


def test_an_import_that_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open')\n")
    found = told(tmp_path)
    assert found["torch.import"] == "OSError: libcudart.so.12: cannot open"
