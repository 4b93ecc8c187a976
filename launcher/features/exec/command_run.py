"""Carry out a parsed dsrun-exec: choose how to reach the hosts, run, and show the results."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from functools import partial

from ...common import entry
from ...common.errors import OutputError, UsageError, reason
from ...common.loop import Loop
from ...common.records import NamedTuple
from ...common.wording import counted
from ...head.output.console import Console
from . import runner_show as show
from .command_transports import transport_of
from .runner_events import HostCommand
from .runner_execution import Execution, StopCause
from .runner_input_broadcast import from_blocks, from_descriptor
from .runner_results import exit_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from ...cli.tool_parser import ToolCommand
    from ...common.loop import Loop
    from .runner_events import Transport
    from .runner_execution import Execution
    from .runner_input_broadcast import InputBroadcast
    from .runner_results import HostResult

    Finish: TypeAlias = Callable[[], None]
    Receive: TypeAlias = Callable[[Execution], Finish]

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the command everywhere."""

BROKEN = StopCause("stopped: nobody reads its output", 128 + signal.SIGPIPE)
"""The cause of a stop when nobody reads our output any longer."""


def execute(command: ToolCommand) -> int:
    """Run the command on all hosts, show its output, and return the exit code.

    Raises:
        UsageError: hosts or files cannot be used as given.
        OutputError: a standard stream cannot be written.
    """
    loop = Loop()
    options = command.options
    level = "error" if options.quiet else options.log_level
    console = Console(loop, colour=options.color, level=level)
    try:
        with ExitStack() as stack:
            transport = transport_of(loop, command, console, stack)
            task = task_of(command, transport.hosts)
            execution = Execution(loop, transport, console, task.make_input, command.own["timeout"])
            finish = task.receive(execution) if task.receive else None
            console.on_broken_pipe = lambda: execution.stop(BROKEN)
            _handle_signals(loop, execution)
            execution.run(task.command)
            if finish is not None:
                finish()
            _tell(task, execution)
    finally:
        console.close()
    for number in ENDS:
        signal.signal(number, signal.SIG_DFL)
    return _show(command, [*execution.results.values()], execution.signal)


def _tell(task: Task, execution: Execution) -> None:
    """Print the successful copies."""
    well = [result for result in execution.results.values() if not result.exit_code]
    if task.done is not None and well and (text := task.done(well)):
        execution.console.log(text)


def _handle_signals(loop: Loop, execution: Execution) -> None:
    """Let signals end the command; a SIGHUP that was ignored at the start stays so (nohup)."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    numbers = [number for number in ENDS if not (ignored and number == signal.SIGHUP)]
    loop.on_signals(numbers, execution.on_signal)


def _show(command: ToolCommand, results: Sequence[HostResult], ended_by: int) -> int:
    """Print the results; return the exit code.

    Raises:
        OutputError: a standard stream cannot be written.
    """
    try:
        if command.own["json"]:
            entry.write(show.as_json(results))
        else:
            show.show_folded(results)
        show.show_failures(results, command.rest)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output: {reason(error)}") from None
    finally:
        for result in results:
            result.close()
    return 128 + ended_by if ended_by else exit_code(results)


class Task(NamedTuple):
    """A task for all hosts.

    Attributes:
        command: the command that runs on each host.
        make_input: makes the source of its input, or None.
        receive: passes the output to another receiver than the results, and returns a function to
            call at the end; None if the results keep the output.
        done: returns a message about the hosts where it went well, or ""; None if there is
            never a message.
    """

    command: HostCommand
    make_input: Callable[[Loop, Transport], InputBroadcast] | None = None
    receive: Receive | None = None
    done: Callable[[Sequence[HostResult]], str] | None = None


def task_of(command: ToolCommand, hosts: Sequence[str]) -> Task:
    """Return the task of a command line.

    Raises:
        UsageError: a file cannot be copied or fetched, or a host is unknown.
    """
    if command.own["copy"]:
        return _copy(command, hosts)
    if command.own["fetch"]:
        return _fetch(command, hosts)
    return _run(command, hosts)


def _run(command: ToolCommand, hosts: Sequence[str]) -> Task:
    own = command.own
    argv = command.rest if own["shell"] is None else ("sh", "-c", own["shell"])
    readers = _readers(own["stdin"], hosts)
    return Task(
        HostCommand(argv, command.options.workdir or "", readers),
        partial(from_descriptor, fd=0) if readers else None,
        _print if own["no_fold"] else None,
    )


def _readers(who: str, hosts: Sequence[str]) -> frozenset[str]:
    """Return the hosts on which the command reads our standard input.

    Raises:
        UsageError: --stdin names no host that takes part.
    """
    groups = {"none": frozenset[str](), "all": frozenset(hosts)}
    if who not in groups and who not in hosts:
        raise UsageError(f"--stdin {who}: expected all, none, or one of the hosts")
    return groups.get(who, frozenset([who]))


def _print(execution: Execution) -> Finish:
    """Print lines as they arrive, each with its host."""
    from .runner_lines import HostLines

    execution.receive(HostLines(execution.console, execution.transport).receivers)
    return lambda: None


def _copy(command: ToolCommand, hosts: Sequence[str]) -> Task:
    from . import runner_archive as archive

    to = command.own["to"]
    folder, files = archive.plan(command.rest, to)
    argv = archive.extract_argv(folder, files)
    copied: list[None] = []
    blocks = archive.blocks(files, lambda: copied.append(None))

    def done(well: Sequence[HostResult]) -> str:
        others = sum(not archive.shares(result.outputs[2].blocks()) for result in well)
        where = f" in {to} below the login's home folder" if to and not os.path.isabs(to) else ""
        text = f"copied {counted(len(copied), 'file')} to {counted(others, 'host')}{where}"
        return text if others else ""

    command_there = HostCommand(argv, "", frozenset(hosts))
    return Task(command_there, partial(from_blocks, blocks=blocks), done=done)


def _fetch(command: ToolCommand, hosts: Sequence[str]) -> Task:
    from . import runner_fetch as fetch

    folder = command.own["to"] or "."
    names = fetch.names(command.rest)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"--to {folder}: is not a folder")
    archives: list[fetch.FetchedArchives] = []

    def receive(execution: Execution) -> Finish:
        fetched = fetch.FetchedArchives(folder, names, hosts, execution.console.log)
        archives.append(fetched)
        execution.receive(fetched.receivers)
        return lambda: fetched.finish(execution.results)

    def done(well: Sequence[HostResult]) -> str:
        files = counted(sum(one.files for one in archives), "file")
        into = os.path.join(folder, well[0].host if len(well) == 1 else "")
        each = ", one folder per host" if len(well) > 1 else ""
        return f"fetched {files} from {counted(len(well), 'host')} into {into}{each}"

    return Task(HostCommand(fetch.pack_argv(command.rest)), receive=receive, done=done)
