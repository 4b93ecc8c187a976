"""Carry out a parsed dsrun-exec: choose how to reach the hosts, run, and show the results."""

from __future__ import annotations

import signal
from contextlib import ExitStack

from ...common import entry
from ...common.errors import OutputError, reason
from ...common.loop import Loop
from ...head.output.console import Console
from . import runner_show as show
from .command_tasks import task_of
from .command_transports import transport_of
from .runner_execution import Execution, StopCause
from .runner_results import exit_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...cli.tool_parser import ToolCommand
    from .command_tasks import Task
    from .runner_results import HostResult

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
