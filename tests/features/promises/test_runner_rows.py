"""The rows of `dsrun-check --promises`."""

from __future__ import annotations

import re

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.promises.runner import Site, own_options
from dsrun.launcher.features.promises.runner_rows import (
    ACT,
    CLIENT,
    READER,
    ROWS,
    PromiseRow,
    chosen,
)

from ...support.checkout import CHECKOUT

SITE = Site(own_options(("--host", "n1:2,n2:2", "--workdir", "/mine"), 2), "ssh", "/tmp/made")
PROGRAM = CHECKOUT / "launcher" / "features" / "promises" / "worker_program.py"


def test_all_rows_are_tried_or_those_that_are_named() -> None:
    assert chosen(()) == ROWS
    named = chosen(["sigkill,healthy", "exit"])
    assert [row.name for row in named] == ["healthy", "exit", "sigkill"]


@pytest.mark.parametrize("word", ["nope", "exit,", ""])
def test_an_unknown_row_is_refused_with_the_known_ones(word: str) -> None:
    with pytest.raises(UsageError, match=r"--promises: no such row: .*; expected some of healthy,"):
        chosen([word])


def test_names_are_unique() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_can_be_played(row: PromiseRow) -> None:
    assert row.promise.after < row.promise.within
    acts = re.findall(r'^    "(\w+)": ', PROGRAM.read_text(), re.MULTILINE)
    assert row.act in {*acts, ""}
    assert all(one in {ACT, READER, CLIENT} or one.startswith("SIG") for one in row.strikes)
    command = parse(SITE.words(row, "r.json"), {})
    assert command.options.workdir == "/tmp/made"
    assert (command.options.launcher == "openssh") == (CLIENT in row.strikes)
    assert command.program[0].startswith("/tmp/made/")


def test_a_client_that_is_not_there_cannot_be_killed() -> None:
    (client,) = chosen(["client"])
    assert SITE.skip(client) == ""
    assert "on this machine" in SITE._replace(launcher="local").skip(client)
    assert "connections of their own" in SITE._replace(launcher="pdsh").skip(client)
    assert SITE._replace(launcher="slurm").words(client, "r.json").count("openssh") == 0
