"""Prints the results of a command: equal outputs once, then the hosts on which it failed."""

from __future__ import annotations

import os

from ...common.text import own_lines, plain
from ...head.fleet.hosts import by_cause
from ...head.output.fold import fold, heading, ranges
from ...head.output.labels import Sanitizer
from .runner_results import code_words, exit_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .runner_json_types import Exec, HostOutputJson
    from .runner_results import Captured, HostResult


def show_folded(results: Sequence[HostResult]) -> None:
    """Print every different output once, with its hosts, on its original stream.

    Raises:
        OSError: a stream cannot be written.
    """
    for stream in (1, 2):
        by_host = {result.host: result.outputs[stream] for result in results}
        terminal = os.isatty(stream)
        for key, hosts in fold((host, output.key) for host, output in by_host.items()).items():
            if key != b"":
                for block in _block(hosts, by_host[hosts[0]], terminal=terminal):
                    write_all(stream, block)


def _block(hosts: Sequence[str], output: Captured, *, terminal: bool) -> Iterator[bytes]:
    """Yield one output with its hosts: on one line, if the output is one line."""
    blocks = output.blocks()
    first = next(blocks)
    one_line = first.find(b"\n") in {-1, len(first) - 1} and len(first) < 1024
    title = f"{ranges(hosts)}: " if one_line else f"== {heading(hosts)} ==\n"
    yield plain(title).encode()
    safe = Sanitizer()
    last = b""
    for block in (first, *blocks):
        last = block[-1:]
        yield safe.feed(block) if terminal else block
    yield b"" if last == b"\n" else b"\n"


def show_failures(results: Sequence[HostResult], argv: Sequence[str]) -> None:
    """Print the hosts that failed, with the exit code or the cause, on standard error."""
    codes = fold((r.host, r.code) for r in results if r.code)
    causes = {result.host: result.cause for result in results if result.cause}
    lines = [f"{ranges(hosts)}: {code_words(code)}" for code, hosts in codes.items() if code]
    if 127 in codes and len(argv) == 1 and " " in argv[0]:
        lines.append("use --shell for a shell command line, with pipes or spaces")
    for line in (*lines, *by_cause(causes)):
        write_all(2, own_lines(line).encode("utf-8", "backslashreplace"))


def as_json(results: Sequence[HostResult]) -> str:
    """Return everything as one JSON object, as docs/schemas/exec.schema.json describes it."""
    import json

    from ...common.formats import versioned

    fields: Exec = {"exit_code": exit_code(results), "nodes": [_output(one) for one in results]}
    return json.dumps(versioned("exec", fields)) + "\n"


def _output(result: HostResult) -> HostOutputJson:
    """Return outputs as text, and those that are not UTF-8 in base64."""
    stdout, stderr = (b"".join(result.outputs[stream].blocks()) for stream in (1, 2))
    made: HostOutputJson = {
        "node": result.host,
        "exit_code": result.code,
        "error": result.cause or None,
        "stdout": stdout.decode("utf-8", "replace"),
        "stderr": stderr.decode("utf-8", "replace"),
    }
    if made["stdout"].encode() != stdout:
        made["stdout_base64"] = _base64(stdout)
    if made["stderr"].encode() != stderr:
        made["stderr_base64"] = _base64(stderr)
    return made


def _base64(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode()


def write_all(fd: int, data: bytes) -> None:
    """Write all data, however long that takes.

    Raises:
        OSError: the stream cannot be written.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
