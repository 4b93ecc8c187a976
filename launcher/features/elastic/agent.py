"""torch's elastic agent for the workers of one node; the node launcher carries out its decisions.

It is a separate program, run by the workers' Python, which has torch:

    python agent.py SETTINGS

Standard input is a socket to the node launcher, over which this program and each of its shims send
a connection for their messages. The rounds come from dsrun's runner, or from a rendezvous of torch,
in which other nodes may run torchrun. Only public parts of torch are used: rendezvous handlers and
their registry, a LogsSpecs and LocalElasticAgent (torch 2.3 and newer).
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import sys
from importlib.metadata import entry_points
from typing import Any

logging.disable(logging.ERROR)


def unfit(error: ImportError) -> str:
    """Return the problem with this Python's torch, or a message that it is missing."""
    version = getattr(sys.modules.get("torch"), "__version__", "")
    if error.name == "torch" and not version:
        return f"{sys.executable} has no torch; torch's agent needs torch 2.3 or newer"
    if not version:
        return f"the torch of {sys.executable} cannot be imported: {error}"
    lacking = str(error).partition(" (/")[0]
    return f"torch's agent needs torch 2.3 or newer; {sys.executable} has {version} ({lacking})"


try:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]
    from torch.distributed.elastic.agent.server.api import RunResult, WorkerSpec
    from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
    from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs, Std
    from torch.distributed.elastic.rendezvous import (
        RendezvousClosedError,
        RendezvousHandler,
        RendezvousInfo,
        RendezvousParameters,
        RendezvousStoreInfo,
        RendezvousTimeoutError,
        rendezvous_handler_registry,
    )
    from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler
except ImportError as error:
    sys.exit(unfit(error))

MANY = 1 << 30
"""Maximum restarts by torch in the runner's rounds: the runner itself counts them."""

UNUSABLE = (ValueError, TypeError, AttributeError, LookupError, ImportError)
"""Exceptions caused by the options, or by the packages installed here."""


class Messages:
    """Messages to and from the node launcher, a line of JSON each."""

    def __init__(self, entry: socket.socket) -> None:
        """Send the node launcher the other end of a new connection, over `entry`."""
        self._socket, theirs = socket.socketpair()
        socket.send_fds(entry, [b'{"agent": true}'], [theirs.fileno()])
        theirs.close()
        self._rest = b""

    def send(self, **message: object) -> None:
        """Send a message."""
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def wait(self) -> dict[str, Any]:
        """Return the next message; end this process if the node launcher has ended."""
        while b"\n" not in self._rest:
            data = self._socket.recv(65536)
            if not data:
                os._exit(1)
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def waiting(self) -> bool:
        """Return whether a message, or the end of the connection, can be read at once."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return b"\n" in self._rest or bool(poll.poll(0))


class RoundHandler(RendezvousHandler):
    """Joins the rounds that the runner forms; the runner alone decides which nodes are in them."""

    def __init__(self, line: Messages, run_id: str) -> None:
        self._line = line
        self._run_id = run_id
        self._changed = False

    def get_backend(self) -> str:
        """Return its name."""
        return "dsrun"

    @property
    def use_agent_store(self) -> bool:
        """Make the workers use the agents' store, whose port is already taken."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Join the next round, and wait until it is formed."""
        # The first node of the round has the store; its port must be known before.
        own = TCPStore("0.0.0.0", 0, is_master=True, wait_for_workers=False)
        place = self._join(own.port)
        host, port = place["host"], place["port"]
        store = own if place["rank"] == 0 else TCPStore(host, port, wait_for_workers=False)
        where = RendezvousStoreInfo(host, port)
        return RendezvousInfo(store, place["rank"], place["nodes"], where)

    def _join(self, port: int) -> dict[str, Any]:
        self._line.send(join=port)
        found = self._line.wait()
        while "round" not in found:
            found = self._line.wait()
        self._changed = False
        place: dict[str, Any] = found["round"]
        return place

    def is_closed(self) -> bool:
        """Return False: there is always another round."""
        return False

    def set_closed(self) -> None:
        """Do nothing: the runner ends the job."""

    def num_nodes_waiting(self) -> int:
        """Return 1 if the runner wants another round."""
        while self._line.waiting():
            self._changed |= "change" in self._line.wait()
        return int(self._changed)

    def get_run_id(self) -> str:
        """Return the job's name."""
        return self._run_id

    def shutdown(self) -> bool:
        """Do nothing: the stores end with this process."""
        return True


class NoLogsSpecs(LogsSpecs):
    """No files for the shims: the node launcher handles the output of the workers."""

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Return no log files for any rank, and none to follow, which torch would poll."""
        none = dict.fromkeys(envs, "")
        return LogsDest(stdouts=none, stderrs=none, error_files=none)

    @property
    def root_log_dir(self) -> str:
        """Return no folder."""
        return ""


class NamedLogsSpecs(NoLogsSpecs):
    """Lets another LogsSpecs name the files, which the node launcher then writes."""

    def __init__(self, named: LogsSpecs) -> None:
        super().__init__()
        self._named = named

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Put the names of the files into the shims' environment; return none for any rank."""
        files = self._named.reify(envs)
        for local, env in envs.items():
            env["DSRUN_LOG_OUT"] = files.stdouts.get(local, "")
            env["DSRUN_LOG_ERR"] = files.stderrs.get(local, "")
        return super().reify(envs)


def logs(name: str, log_dir: str, redirects: str, tee: str, ranks: str) -> LogsSpecs:
    """Return the LogsSpecs of an entry point, made as torchrun makes it.

    Raises:
        ValueError: there is no such entry point.
    """
    group = "torchrun.logs_specs"
    for point in entry_points(group=group, name=name):
        named = point.load()(
            log_dir=log_dir or None,
            redirects=Std.from_str(redirects),
            tee=Std.from_str(tee),
            local_ranks_filter=set(map(int, ranks.split(","))) if ranks else None,
        )
        return NamedLogsSpecs(named)
    raise ValueError(f"--logs_specs {name}: no such entry point of {group} is installed")


def rendezvous(rdzv: dict[str, Any]) -> RendezvousHandler:
    """Return torch's handler, made as torchrun makes it (torch/distributed/launcher/api.py).

    Raises:
        Exception: any exception of torch or a plugin.
    """
    if rdzv["most"] == 1:
        # One store for all rounds has keys of former rounds in it (torch 2.13), and workers that
        # are started again can take them for their own. No other node has to know of this.
        os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    parameters = RendezvousParameters(
        backend=rdzv["backend"],
        endpoint=rdzv["endpoint"],
        run_id=rdzv["run_id"],
        min_nodes=rdzv["least"],
        max_nodes=rdzv["most"],
        local_addr=rdzv["local_addr"] or None,
        **rdzv["conf"],
    )
    try:
        return get_rendezvous_handler(parameters)
    except ImportError as error:
        known = " (it comes with the package python-etcd)" if "'etcd'" in str(error) else ""
        raise ImportError(f"{error}{known}") from None
    except ValueError:
        # torch 2.5 knows no plugins, and newer ones only warn of one that does not load.
        for point in entry_points(group="torchrun.handlers", name=rdzv["backend"]):
            rendezvous_handler_registry.register(rdzv["backend"], point.load()())
            return get_rendezvous_handler(parameters)
        raise


def run(line: Messages, settings: dict[str, Any]) -> RunResult | None:
    """Run the agent to its end; return None if torch had no place for this node.

    Raises:
        Exception: any exception of torch or a plugin.
    """
    rdzv = settings["rendezvous"]
    handler = rendezvous(rdzv) if rdzv else RoundHandler(line, settings["job"])
    spec = WorkerSpec(
        role=settings["role"],
        local_world_size=settings["workers"],
        rdzv_handler=handler,
        entrypoint=settings["shim"][0],
        args=tuple(settings["shim"][1:]),
        max_restarts=rdzv["restarts"] if rdzv else MANY,
        monitor_interval=rdzv["interval"] if rdzv else settings["interval"],
    )
    files = logs(*settings["logs"]) if settings["logs"] else NoLogsSpecs()
    agent = LocalElasticAgent(spec, files, exit_barrier_timeout=settings["barrier"])
    try:
        result: RunResult | None = agent.run()
        return result
    except RendezvousTimeoutError:
        raise RendezvousTimeoutError(too_few(handler, rdzv)) from None
    except RendezvousClosedError:
        words = f"another node ended the job (--rdzv_id {rdzv['run_id']} is closed)"
        raise RendezvousClosedError(words) from None
    finally:
        handler.shutdown()


def too_few(handler: RendezvousHandler, rdzv: dict[str, Any]) -> str:
    """Return a text for too few nodes; the handlers differ in which timeout they use."""
    timeout = getattr(getattr(handler, "settings", None), "timeout", None)
    name, seconds = "timeout", float(rdzv["conf"]["timeout"])
    if timeout is not None:
        name, seconds = "join_timeout", timeout.join.total_seconds()
    return (
        f"fewer than {rdzv['least']} nodes joined within {seconds:g} s: is the command running on"
        f" the others, with the same --rdzv_id? --rdzv_conf {name}=SECONDS waits longer"
    )


def words(error: BaseException) -> str:
    """Return a torch exception in one line, with its cause."""
    pointer = " See inner exception for details."
    text = str(error) or type(error).__name__
    if pointer in text and error.__cause__ is not None:
        text = f"{text.replace(pointer, '')} {error.__cause__}"
    return text.strip().splitlines()[0]


def main(settings: dict[str, Any]) -> int:
    """Run the agent until its workers have ended well, or the node launcher ends it."""
    line = Messages(socket.socket(fileno=os.dup(0)))
    failure: dict[str, object] | None = None
    try:
        result = run(line, settings)
        if result is not None and result.is_failed():
            failure = {"reason": ""}
    except Exception as error:
        failure = {"reason": words(error), "unusable": isinstance(error, UNUSABLE)}
    line.send(ended=failure)
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
