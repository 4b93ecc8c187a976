"""Small programs whose results must be the same on Linux and on the simulated kernel.

Each takes the system calls and returns what it has seen. Run as a module, this prints what all of
them see on the real system, each in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from tests.simulation import scenarios_descriptors, scenarios_processes

SCENARIOS = {
    name: one
    for module in (scenarios_descriptors, scenarios_processes)
    for name, one in [*vars(module).items()]
    if callable(one) and one.__module__ == module.__name__
}


def plain(found: object) -> Any:
    """Return what a scenario has seen as JSON has it."""
    return json.loads(json.dumps(found, default=lambda one: one.decode("latin-1")))


def main() -> None:
    """Print what all scenarios see on the real system."""
    from dsrun.launcher.common import system

    seen = {}
    for name, scenario in SCENARIOS.items():
        reader, writer = os.pipe()
        if os.fork() == 0:
            signal.alarm(30)
            os.write(writer, json.dumps(plain(scenario(system))).encode())
            os._exit(0)
        os.close(writer)
        with system.open_file(reader, "rb") as file:
            seen[name] = json.loads(file.read() or b'"failed"')
        os.wait()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
