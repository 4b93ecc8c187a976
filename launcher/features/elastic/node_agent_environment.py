"""The decisions of torch's agent about its workers, from the environment of its shims. Pure."""

from __future__ import annotations

from ...control.messages import Start
from ...control.round_messages import Ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Environment = Mapping[str, str]

LOGS = {1: "DSRUN_LOG_OUT", 2: "DSRUN_LOG_ERR"}
"""By stream, the variable with the path of its log file, set if --logs_specs names one."""

_OURS = {"LOCAL_RANK", "TORCHELASTIC_ERROR_FILE", *LOGS.values()}
_FILES = {*LOGS.values()}


def round_of(order: Start, environments: Sequence[Environment], number: int) -> Start:
    """Return a START for the round that torch's rendezvous has formed.

    Args:
        order: the START of this node, with its slots.
        environments: the environment of each shim, by local rank.
        number: the number of rounds so far, including this one.
    """
    first = environments[0]
    return order._replace(
        first_rank=int(first["RANK"]),
        world_size=int(first["WORLD_SIZE"]),
        node_rank=int(first["GROUP_RANK"]),
        nodes=int(first["GROUP_WORLD_SIZE"]),
        master_addr=first["MASTER_ADDR"],
        master_port=int(first["MASTER_PORT"]),
        generation=number,
        restarts=int(first["TORCHELASTIC_RESTART_COUNT"]),
        max_restarts=int(first["TORCHELASTIC_MAX_RESTARTS"]),
        agent_variables=tuple(map(dict, environments)),
    )


def of_agent(start: Start, environments: Sequence[Environment]) -> Start:
    """Return a START of the runner with the log files that torch's agent names, if any."""
    files = ({name: one[name] for name in _FILES & one.keys()} for one in environments)
    return start._replace(agent_variables=tuple(files))


def ranks(start: Start) -> Ranks:
    """Return the ranks of a round on this node."""
    return Ranks(
        start.first_rank,
        start.world_size,
        start.node_rank,
        start.nodes,
        start.master_addr,
        start.master_port,
        start.restarts,
        start.max_restarts,
    )


def variables(start: Start, local: int) -> dict[str, str]:
    """Return the variables that torch's agent sets for a worker; they override dsrun's own."""
    found = start.agent_variables[local] if start.agent_variables else {}
    return {name: value for name, value in found.items() if name not in _OURS}


def log_files(start: Start, local: int) -> dict[int, str]:
    """Return the log file of each stream for which the agent names one."""
    found = start.agent_variables[local] if start.agent_variables else {}
    return {stream: found[name] for stream, name in LOGS.items() if found.get(name)}
