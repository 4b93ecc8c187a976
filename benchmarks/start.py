"""One host, two workers that print a line: the whole run, from the command to its end.

    python benchmarks/start.py [--rounds 5]

The bare processes are what no launcher can be quicker than: a shell that starts two and waits.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import DSRUN, WORKERS, Measure, bar, command_time, take_turns
from benchmarks.peers import python_peer

HELLO = str(WORKERS / "hello.py")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Two printing workers on one host.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--deepspeed_rounds", type=int, default=3)
    options = parser.parse_args()
    fewer = {"deepspeed": options.deepspeed_rounds}
    figures = take_turns(contenders(), options.rounds, fewer)
    print(figures.table("1 host x 2", "dsrun"))
    bar("dsrun more than the bare processes, s", figures.excess("dsrun", "bare"), 0.12)
    bar("torchrun to dsrun", figures.ratio("torchrun", "dsrun"), 15, at_least=True)
    bar("deepspeed to dsrun", figures.ratio("deepspeed", "dsrun"), 40, at_least=True)


def contenders() -> dict[str, Measure]:
    worker = shlex.join([sys.executable, HELLO])
    torchrun, deepspeed = python_peer("torchrun"), python_peer("deepspeed")
    commands = {
        "bare": ["sh", "-c", f"{worker} & {worker} & wait"],
        "dsrun": [*DSRUN, "--launcher", "local", "--num_gpus", "2", HELLO],
        "torchrun": [torchrun, "--nproc_per_node", "2", HELLO],
        "deepspeed": [deepspeed, "--num_gpus", "2", HELLO],
    }
    env = {**os.environ, "PATH": f"{Path(deepspeed).parent}:{os.environ['PATH']}"}
    return {
        name: partial(command_time, argv, "worker here", 2, env=env)
        for name, argv in commands.items()
    }


if __name__ == "__main__":
    main()
