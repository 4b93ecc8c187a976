"""A worker that fails when it is told to: `fail.py FOLDER RANK`.

In FOLDER, which all hosts see, it makes the file `up-N`, N its rank, once it runs, or `again-N`
where that one is there. Rank RANK waits for the file `go`, notes its exit in `failed`, and exits 7;
the others would stay for a minute. With a RANK that is none, nobody fails. Each of these files has
the moment, on the clock that all hosts share.
"""

import os
import sys
import time

folder, failing = sys.argv[1:3]
rank = os.environ.get("RANK") or os.environ["OMPI_COMM_WORLD_RANK"]


def note(name: str) -> None:
    path = os.path.join(folder, name)  # noqa: PTH118 - a worker that is up at once
    with open(f"{path}.part", "w") as file:  # noqa: PTH123
        file.write(str(time.monotonic()))
    os.rename(f"{path}.part", path)  # noqa: PTH104


was_up = os.path.exists(os.path.join(folder, f"up-{rank}"))  # noqa: PTH110, PTH118
note(f"again-{rank}" if was_up else f"up-{rank}")
if rank == failing:
    while not os.path.exists(os.path.join(folder, "go")):  # noqa: PTH110, PTH118
        time.sleep(0.002)
    note("failed")
    os._exit(7)
time.sleep(60)
