"""One node started without a runner elsewhere, as DeepSpeed's `launch` does with --world_info.

This process is the runner of a job with this node alone. The other nodes of --world_info only
count for the ranks; they are started separately.
"""

from __future__ import annotations

import os

from ...backends import LOCAL
from ...cli.parser import parse
from ...common import entry
from ...common.errors import UsageError
from ...head.job.start import launch, prepare
from ...planning import rendezvous
from ...planning.folders import interpreter
from ...planning.job import job_spec
from ...planning.launcher import is_auto
from ...planning.planner import (
    PlannedJob,
    backend_settings,
    check_rank_per_task,
    elastic_plan,
    passes_local_rank,
)
from ...resources import world_info
from ...specs.backend import DEFAULT_MASTER_PORT
from ...specs.host import Host
from ...specs.plan import Origin, Plan, lay_out
from ...specs.program import Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...cli.parser import Command


def start() -> None:
    """Run as the whole process: the entry point of `launcher.launch`."""
    entry.start(run)


def run(words: Sequence[str]) -> int:
    """Run this node's part of a job; return its exit code.

    Raises:
        DsrunError: an argument is invalid, or the node cannot run the job.
    """
    text, rest = _take_world_info(list(words))
    command = rendezvous.apply(parse(rest, os.environ))
    if command.rendezvous is not None:
        raise UsageError(
            f"{command.rendezvous.words} cannot be used with --world_info; use dsrun instead"
        )
    if not command.program:
        raise UsageError("launch: no script; expected --world_info=... [options] SCRIPT [ARGS...]")
    plan = _plan(command, text)
    rank = command.options.node_rank or 0
    if rank >= len(plan.nodes):
        raise UsageError(f"--node_rank {rank}: --world_info has {len(plan.nodes)} nodes")
    if command.options.master_port == 0 and len(plan.nodes) > 1:
        raise UsageError("--master_port 0: the other nodes cannot learn the port; name one")
    if command.options.shard_queue and len(plan.nodes) > 1:
        raise UsageError(
            "--shard_queue: needs one dsrun that is connected to all nodes; use dsrun --no_ssh"
        )
    planned = _planned(command, plan)
    start = prepare(plan, planned.backend, rank)
    return launch(job_spec(planned, command.options, rank), start)


def _planned(command: Command, plan: Plan) -> PlannedJob:
    options = command.options
    check_rank_per_task(plan, options)
    return PlannedJob(
        plan,
        Origin("--world_info", LOCAL, command.notes, is_auto(options)),
        backend_settings(plan.program, options),
        elastic_plan(options, plan.world_size),
    )


def _take_world_info(words: list[str]) -> tuple[str, list[str]]:
    """Separate --world_info, which only this program has, from the options of dsrun."""
    for at, word in enumerate(words):
        if word.startswith("--world_info="):
            return word.partition("=")[2], words[:at] + words[at + 1 :]
        if word == "--world_info" and at + 1 < len(words):
            return words[at + 1], words[:at] + words[at + 2 :]
        if not word.startswith("-"):
            break
    raise UsageError("launch: expected --world_info=... before the script")


def _plan(command: Command, text: str) -> Plan:
    options = command.options
    hosts = [Host(name, slots) for name, slots in world_info.decode(text).items()]
    script, *args = command.program
    return Plan(
        nodes=lay_out([host._replace(where="--world_info") for host in hosts]),
        program=Program(
            script,
            tuple(args),
            options.module,
            options.no_python,
            interpreter(options),
            passes_local_rank(options, default=True),
        ),
        launcher=LOCAL,
        master_addr=options.master_addr or "127.0.0.1",
        master_port=options.master_port or DEFAULT_MASTER_PORT,
    )
