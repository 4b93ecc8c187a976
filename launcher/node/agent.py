"""torch's elastic agent for the workers of one node: it decides, the node launcher carries out.

A program of its own, run by the Python that the workers have, since torch is to be found there:

    python agent.py SETTINGS

Standard input is the desk: a socket at which this program and the stand-ins hand in a line of their
own to the node launcher. Of torch only what is public is used: a RendezvousHandler, a LogsSpecs and
LocalElasticAgent (torch 2.3 and newer).
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import sys
from typing import Any

try:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]
    from torch.distributed.elastic.agent.server.api import WorkerSpec
    from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
    from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs
    from torch.distributed.elastic.rendezvous import (
        RendezvousHandler,
        RendezvousInfo,
        RendezvousStoreInfo,
    )
except ImportError as error:
    sys.exit(f"{error} (an elastic job needs torch 2.3 or newer)")

MANY = 1 << 30
"""Restarts that torch is given: the job's own budget is kept by the runner."""


class Line:
    """Messages to and from the node launcher, a line of JSON each."""

    def __init__(self, desk: socket.socket) -> None:
        """Hand in the other end of a new line at the desk."""
        self._socket, theirs = socket.socketpair()
        socket.send_fds(desk, [b'{"agent": true}'], [theirs.fileno()])
        theirs.close()
        self._rest = b""

    def send(self, **message: object) -> None:
        """Send a message."""
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def wait(self) -> dict[str, Any]:
        """Return the next message; without a node launcher there is nothing left to do here."""
        while b"\n" not in self._rest:
            data = self._socket.recv(65536)
            if not data:
                os._exit(1)
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def waiting(self) -> bool:
        """Tell whether a message, or the end of the line, can be had at once."""
        return b"\n" in self._rest or bool(select.select([self._socket], [], [], 0)[0])


class Rounds(RendezvousHandler):
    """Joins the rounds that the runner forms; membership is the runner's alone."""

    def __init__(self, line: Line, run_id: str) -> None:
        self._line = line
        self._run_id = run_id
        self._changed = False

    def get_backend(self) -> str:
        """Return its name."""
        return "dsrun"

    @property
    def use_agent_store(self) -> bool:
        """Have the workers meet in the agents' store: its port is taken, and nobody else's."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Join the next round, and wait until it is formed."""
        # Whoever becomes the first of the round has the store; its port must be known before.
        own = TCPStore("0.0.0.0", 0, is_master=True, wait_for_workers=False)
        self._line.send(join=own.port)
        found = self._line.wait()
        while "round" not in found:
            found = self._line.wait()
        self._changed = False
        place = found["round"]
        host, port = place["host"], place["port"]
        store = own if place["rank"] == 0 else TCPStore(host, port, wait_for_workers=False)
        where = RendezvousStoreInfo(host, port)
        return RendezvousInfo(store, place["rank"], place["nodes"], where)

    def is_closed(self) -> bool:
        """Tell that there is always another round."""
        return False

    def set_closed(self) -> None:
        """Leave it to the runner to end the job."""

    def num_nodes_waiting(self) -> int:
        """Return 1 where the runner wants another round."""
        while self._line.waiting():
            self._changed |= "change" in self._line.wait()
        return int(self._changed)

    def get_run_id(self) -> str:
        """Return the job's name."""
        return self._run_id

    def shutdown(self) -> bool:
        """Do nothing: the stores go with this process."""
        return True


class NoLogs(LogsSpecs):
    """Stand-ins write nothing: the workers' output is the node launcher's."""

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Return no file for any rank."""
        none = dict.fromkeys(envs, "")
        return LogsDest(none, none, none, none, none)

    @property
    def root_log_dir(self) -> str:
        """Return no folder."""
        return ""


def main(settings: dict[str, Any]) -> int:
    """Run the agent until its workers have ended well, or the node launcher ends it."""
    logging.disable(logging.ERROR)
    line = Line(socket.socket(fileno=os.dup(0)))
    spec = WorkerSpec(
        role=settings["role"],
        local_world_size=settings["workers"],
        rdzv_handler=Rounds(line, settings["job"]),
        entrypoint=settings["standin"][0],
        args=tuple(settings["standin"][1:]),
        max_restarts=MANY,
        monitor_interval=settings["interval"],
    )
    result = LocalElasticAgent(spec, NoLogs(), exit_barrier_timeout=settings["barrier"]).run()
    line.send(ended=not result.is_failed())
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
