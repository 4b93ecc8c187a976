"""The simulated kernel does what Linux does: the same programs see the same on both."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.kernel import Kernel
from tests.simulation.scenarios import SCENARIOS, plain

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def real() -> Any:
    """Return what each scenario sees on Linux."""
    code = "from tests.simulation.scenarios import main; main()"
    path = f"{TOP}:{TOP / 'tests/import'}"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
        cwd=TOP,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(found.stdout)


@pytest.mark.parametrize("name", SCENARIOS)
def test_like_linux(name: str, real: Any) -> None:
    """Each scenario sees the same, with every seed."""
    for seed in range(8):
        kernel, found = Kernel(seed), []
        system = SimpleNamespace(**kernel.calls())
        scenario = SCENARIOS[name]
        host = kernel.host("a")
        host.has_names = True
        kernel.spawn(host, lambda: found.append(plain(scenario(system))))  # noqa: B023
        kernel.run()
        assert kernel.crashes == []
        assert found == [real[name]]
        kernel.close()
