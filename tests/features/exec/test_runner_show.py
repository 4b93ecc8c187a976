"""What is printed of the results."""

from __future__ import annotations

import base64
import json
import os
import pty

import pytest

from dsrun.launcher.features.exec.runner_results import HostResult
from dsrun.launcher.features.exec.runner_show import as_json, show_failures, show_folded

from ...support import schemas
from ...support.standard_streams import streams

Shown = pytest.CaptureFixture[bytes]


def result(host: str, out: bytes = b"", err: bytes = b"", code: int | None = 0) -> HostResult:
    one = HostResult(host)
    one.outputs[1].add(out)
    one.outputs[2].add(err)
    one.code = code
    return one


def test_equal_outputs_are_printed_once_on_their_own_streams(capfdbinary: Shown) -> None:
    show_folded([result("n1", b"a\n"), result("n2", b"b\nc\n", b"bad"), result("n3", b"a\n")])
    out, err = capfdbinary.readouterr()
    assert out == b"n1, n3: a\n== n2 ==\nb\nc\n"
    assert err == b"n2: bad\n"


def test_bytes_stay_as_they_are_in_a_file(capfdbinary: Shown) -> None:
    data = bytes(range(256)) * 3000
    results = [result("n1", data), result("n2", data), result("n3", b"\0")]
    show_folded(results)
    for one in results:
        one.close()
    assert capfdbinary.readouterr().out == b"== n1, n2 (2 nodes) ==\n" + data + b"\nn3: \0\n"


def test_a_terminal_gets_nothing_that_could_harm_it() -> None:
    mine, theirs = pty.openpty()
    null = os.open(os.devnull, os.O_WRONLY)
    with streams(theirs, null):
        show_folded([result("n1", b"\x1b]0;title\x07\x1b[31mred\x1b[0m\x1b[2J\x9b2J\0 ok\n")])
    text = b""
    while b"ok" not in text:
        text += os.read(mine, 4096)
    for fd in (mine, theirs, null):
        os.close(fd)
    assert text.startswith(b"n1: \x1b[31mred\x1b[0m")
    assert b"title" not in text
    assert b"\x1b[2J" not in text
    assert b"\0" not in text


def test_failures_are_folded_and_escaped(capfdbinary: Shown) -> None:
    results = [result(f"n{number}", code=code) for number, code in enumerate((0, 3, 3, 3, 137))]
    for name in ("x1", "x2"):
        results.append(result(name, code=None))
        results[-1].fail(f"{name} says \x1b[2J", 69)
    show_failures(results, ["true"])
    out, err = capfdbinary.readouterr()
    assert out == b""
    assert err.decode().splitlines() == [
        "dsrun: n[1-3]: exit code 3",
        "dsrun: n4: exit code 137 (SIGKILL)",
        "dsrun: x1, x2: HOST says \\x1b[2J",
    ]


@pytest.mark.parametrize(
    ("argv", "hinted"), [(["ls | wc"], True), (["ls"], False), (["a b", "c"], False)]
)
def test_a_line_for_a_shell_is_recognised(
    argv: list[str], hinted: bool, capfdbinary: Shown
) -> None:
    show_failures([result("n1", code=127)], argv)
    assert (b"--shell" in capfdbinary.readouterr().err) is hinted


def test_json_has_everything_exactly() -> None:
    failed = result("n2", code=None)
    failed.fail("no answer", 69)
    value = json.loads(as_json([result("n1", "é".encode(), b"\xff"), failed]))
    assert schemas.faults("exec", value) == []
    assert value["exit_code"] == 69
    one, other = value["nodes"]
    assert (one["stdout"], one["stderr"]) == ("é", "�")
    assert base64.b64decode(one["stderr_base64"]) == b"\xff"
    assert "stdout_base64" not in one
    assert (other["exit_code"], other["error"]) == (None, "no answer")
