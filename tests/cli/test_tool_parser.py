"""Command lines with a command's own options and some of dsrun's."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.tool_options import OWN
from dsrun.launcher.cli.tool_parser import ToolCommand, parse
from dsrun.launcher.common.errors import UsageError


def parsed(*words: str, **environ: str) -> ToolCommand:
    return parse("dsrun-exec", words, environ, mixing=("copy",))


def test_own_and_shared_options_are_told_apart() -> None:
    command = parsed("-H", "hosts", "--num-nodes=2", "--json", "ls", "-l", "--to", "x")
    defaults = {name: row.default for name, row in OWN["dsrun-exec"].items()}
    assert command.own == {**defaults, "json": True}
    assert (command.options.hostfile, command.options.num_nodes) == ("hosts", 2)
    assert command.given == {"hostfile", "num_nodes", "json"}
    assert command.rest == ("ls", "-l", "--to", "x")


def test_an_option_of_dsrun_alone_is_told_from_an_unknown_one() -> None:
    with pytest.raises(UsageError, match=r"^--no_ssh: an option of dsrun, not of this"):
        parsed("--no_ssh", "ls")
    with pytest.raises(UsageError, match=r"^--jsn: unknown option \(did you mean --json\?\); see"):
        parsed("--jsn", "ls")


def test_two_dashes_end_the_options() -> None:
    assert parsed("--", "--json").rest == ("--json",)
    assert parsed("--copy", "a", "--", "--to").rest == ("a", "--to")


def test_some_options_let_words_and_options_mix() -> None:
    command = parsed("--copy", "a", "-", "--to", "dir", "b")
    assert (command.rest, command.own["to"]) == (("a", "-", "b"), "dir")


def test_variables_set_shared_options_alone() -> None:
    command = parsed("ls", DSRUN_HOSTFILE="hosts", DSRUN_TO="x", DSRUN_JSON="1", DSRUN_GRACE="3")
    assert command.options.hostfile == "hosts"
    assert command.own["to"] == ""
    assert command.own["json"] is False


def test_what_is_given_twice_is_joined_or_noted() -> None:
    command = parsed("--host", "a", "--host=b", "--to=x", "--to", "y")
    assert (command.options.host, command.own["to"]) == ("a,b", "y")
    assert command.notes == ("--to is given 2 times; only the last one counts",)
    assert parsed("-q", "--to=x", "--to", "y").notes == ()


def test_help_needs_nothing_else() -> None:
    assert parsed("-H", "hosts", "-h").help
    assert not parsed("ls", "-h").help


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--num_gpus", "2"],
            "--num_gpus: an option of dsrun, not of this command; see dsrun-exec --help",
        ),
        (["--nto", "2"], "did you mean --to"),
        (["--to"], "expected DIR after it"),
        (["--json=1"], "takes no value"),
        (["--num_nodes", "x"], "--num_nodes: expected"),
    ],
)
def test_bad_words_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parsed(*words)
