"""The imports that the documentation shows to training code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..support.checkout import IMPORTABLE


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("from dsrun.accelerator import get_accelerator, set_accelerator", "dsrun.accelerator"),
        ("from dsrun.accelerator.data import ElasticSampler", "dsrun.accelerator.data.sampler"),
        (
            "from dsrun.accelerator.data import Shard, ShardQueue",
            "dsrun.accelerator.data.shard_queue",
        ),
        ("from dsrun.accelerator.roles import port, addrs", "dsrun.accelerator.roles"),
        (
            "from dsrun.accelerator.shards import Shard, ShardQueue",
            "dsrun.accelerator.data.shard_queue",
        ),
    ],
)
def test_a_documented_import_works_without_torch_and_the_launcher(line: str, module: str) -> None:
    name = line.rpartition(" ")[2]
    ran = subprocess.run(
        [sys.executable, "-c", f"{line}\nimport sys; print({name}.__module__, *sys.modules)"],
        env={**os.environ, **IMPORTABLE},
        capture_output=True,
        text=True,
        check=True,
    )
    defined_in, *modules = ran.stdout.split()
    assert defined_in == module
    assert not [one for one in modules if one.startswith(("torch", "numpy", "dsrun.launcher"))]


def test_a_missing_name_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Sampler'"):
        exec("from dsrun.accelerator.data import Sampler")
