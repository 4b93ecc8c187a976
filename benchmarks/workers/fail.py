"""A worker that fails when it is told to: `fail.py FOLDER RANK`.

In FOLDER, which all hosts see, it makes the file `up-N`, N its rank, once it runs. Rank RANK waits
for the file `go`, notes the moment of its exit in `failed`, on the clock that all share, and exits
7; the others would stay for a minute. With a RANK that is none, nobody fails.
"""

import os
import sys
import time

folder, failing = sys.argv[1:3]
rank = os.environ.get("RANK") or os.environ["OMPI_COMM_WORLD_RANK"]


def note(name: str, text: str) -> None:
    path = os.path.join(folder, name)  # noqa: PTH118 - a worker that is up at once
    with open(f"{path}.part", "w") as file:  # noqa: PTH123
        file.write(text)
    os.rename(f"{path}.part", path)  # noqa: PTH104


note(f"up-{rank}", str(os.getpid()))
if rank == failing:
    while not os.path.exists(os.path.join(folder, "go")):  # noqa: PTH110, PTH118
        time.sleep(0.002)
    note("failed", str(time.monotonic()))
    os._exit(7)
time.sleep(60)
