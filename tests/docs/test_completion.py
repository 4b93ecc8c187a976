"""Completion as the shells do it: what Tab makes of a line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from docs.generate.commands import commands, kind, quote, summary, values
from docs.generate.completion import files
from dsrun.launcher.cli.help.rows import OptionRow
from dsrun.launcher.cli.option import named
from dsrun.launcher.cli.options import all_options, shared
from dsrun.launcher.cli.tool_options import OWN
from dsrun.launcher.control import local
from dsrun.launcher.features.elastic import command as elastic
from dsrun.launcher.features.jobs.command import VERBS

from ..support.kept_jobs import about, kept
from ..support.limits import HANG
from ..support.needs import need
from .shells import BASH_SCRIPTS, COMMANDS, LOOK, SHARE, Shell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

LINES = [
    ("dsrun --hostfi\t", ["--hostfile"]),
    ("dsrun --num_n\t", ["--num_nodes"]),
    ("dsrun --num-n\t", ["--num-nodes"]),
    ("dsrun --color ne\t", ["--color", "never"]),
    ("dsrun --color=ne\t", ["--color=never"]),
    ("dsrun --log-level=cr\t", ["--log-level=critical"]),
    ("dsrun --launcher mv\t", ["--launcher", "mvapich"]),
    ("dsrun --num-nodes=2 --rdzv-b\t c1\t", ["--num-nodes=2", "--rdzv-backend", "c10d"]),
    ("dsrun --help sl\t", ["--help", "slurm"]),
    ("dsrun -H ho\t", ["-H", "hostfile.txt"]),
    ("dsrun --hostfile ho\t", ["--hostfile", "hostfile.txt"]),
    ("dsrun --log_dir ho\t", ["--log_dir", "ho"]),
    ("dsrun --log_dir lo\t", ["--log_dir", "logs"]),
    ("dsrun --enable-each-rank-log=lo\t", ["--enable-each-rank-log=logs"]),
    ("dsrun --grace tr\t", ["--grace", "tr"]),
    ("dsrun tr\t", ["train.py"]),
    (
        "dsrun -q --no-python --num_gpus 2 tr\t",
        ["-q", "--no-python", "--num_gpus", "2", "train.py"],
    ),
    ("dsrun train.py --num_n\t", ["train.py", "--num_n"]),
    ("dsrun train.py ho\t", ["train.py", "hostfile.txt"]),
    ("dsrun -- --num_n\t", ["--", "--num_n"]),
    ("dsrun -H train.py --num_n\t", ["-H", "train.py", "--num_nodes"]),
    ("dsrun-topo --bind-m\t au\t", ["--bind-memory", "auto"]),
    ("dsrun-topo --hostfi\t", ["--hostfi"]),
    ("dsrun-elastic -c ho\t --w\t", ["-c", "hostfile.txt", "--world_size"]),
    ("dsrun-job sc\t JO\t 4", ["scale", "JOB", "4"]),
    ("dsrun-job sto\t", ["sto"]),
    ("dsrun-job rep\t --js\t JO\t", ["report", "--json", "JOB"]),
    ("dsrun-job rep\t --foll\t", ["report", "--foll"]),
    ("dsrun-job wai\t ENDE\t", ["wait", "ENDED"]),
    ("dsrun-job forget ENDE\t", ["forget", "ENDED"]),
    ("dsrun-job logs trai\t -f", ["logs", "train.py", "-f"]),
    ("dsrun-job rest\t JO\t --rol\t a", ["restart", "JOB", "--role", "a"]),
    ("dsrun-job sig\t JO\t USR1\t", ["signal", "JOB", "USR1"]),
    ("dsrun-job --now ki\t HOL\t", ["--now", "kill", "HOLD"]),
    ("dsrun-job kill JO\t --include n1:0@nod\t", ["kill", "JOB", "--include", "n1:0@nod"]),
    (
        "dsrun-job kill --include n1:0@x -H machines --exc\t nod\t",
        ["kill", "--include", "n1:0@x", "-H", "machines", "--exclude", "node-7"],
    ),
    (
        "dsrun -H machines --include n1:0@nod\t tr\t",
        ["-H", "machines", "--include", "n1:0@node-7", "train.py"],
    ),
    ("dsrun --hostfile=machines --host=nod\t", ["--hostfile=machines", "--host=node-7"]),
    ("dsrun -H machines --host n1:4,nod\t", ["-H", "machines", "--host", "n1:4,node-7"]),
    ("dsrun --profile bi\t", ["--profile", "big"]),
    ("dsrun --profile=bi\t tr\t", ["--profile=big", "train.py"]),
    ("dsrun --on HOL\t", ["--on", "HOLD"]),
    ("dsrun-hold --rel\t HOL\t", ["--release", "HOLD"]),
    ("dsrun-check --on=HOL\t --js\t tr\t", ["--on=HOLD", "--json", "train.py"]),
    ("dsrun-exec -H machines --stdin nod\t", ["-H", "machines", "--stdin", "node-7"]),
    ("dsrun-exec --copy tr\t --to lo\t --qui\t", ["--copy", "train.py", "--to", "logs", "--quiet"]),
    ("dsrun-exec ls --t\t", ["ls", "--t"]),
]
"""What is typed, and the arguments that the command gets.

JOB and HOLD stand for names of what runs, ENDED for a detached job that has ended.
"""


RUNS = {"JOB": f"J{os.urandom(4).hex()}", "HOLD": f"H{os.urandom(4).hex()}"}
"""The names of the job and of the hold, which no other test has."""

ENDED = about().job_id


def real(text: str) -> str:
    """Return what is typed or offered, with the names in place of the words for them."""
    names = {"ENDED": ENDED, "ENDE": ENDED[:-2], **RUNS, "HOL": RUNS["HOLD"][:-2]}
    for word, name in (names | {"JO": RUNS["JOB"][:-2]}).items():
        text = re.sub(rf"\b{word}\b", name, text)
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home folder with files, a folder and an ended job; and a job and a hold that run."""
    path = tmp_path_factory.mktemp("typed")
    (path / "hostfile.txt").touch()
    (path / "train.py").touch()
    (path / "logs").mkdir()
    (path / "machines").write_text("n1 slots=2\nnode-7 slots=2\n")
    (path / "dsrun.toml").write_text("[profile.big]\nnum_gpus = 2\n")
    kept({"XDG_STATE_HOME": str(path / ".local" / "state")})
    job, hold = local.listener(local.JOB, RUNS["JOB"]), local.listener(local.HOLD, RUNS["HOLD"])
    with closing(job), closing(hold):
        yield path


@pytest.fixture(scope="module", params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, folder: Path) -> Iterator[Shell]:
    need(request.param)
    shell = Shell(request.param, folder)
    yield shell
    shell.close()


@pytest.mark.parametrize(("line", "arguments"), LINES)
def test_tab_in_bash_and_zsh(shell: Shell, line: str, arguments: list[str]) -> None:
    expected = [real(word) for word in arguments]
    assert [word.rstrip("/") for word in shell.arguments(real(line))] == expected


# fish tells what it would offer, so no terminal is needed.
OFFERED = [
    ("dsrun --hostfi", "--hostfile"),
    ("dsrun --num_n", "--num_nodes"),
    ("dsrun --num-n", "--num-nodes"),
    ("dsrun --color ne", "never"),
    ("dsrun --color=ne", "--color=never"),
    ("dsrun --num-nodes=2 --rdzv-backend c1", "c10d"),
    ("dsrun --help sl", "slurm"),
    ("dsrun -H ho", "hostfile.txt"),
    ("dsrun --log_dir ho", ""),
    ("dsrun --log_dir lo", "logs/"),
    ("dsrun --grace tr", ""),
    ("dsrun -q --no-python --num_gpus 2 tr", "train.py"),
    ("dsrun train.py --num_n", ""),
    ("dsrun train.py ho", "hostfile.txt"),
    ("dsrun -- --num_n", ""),
    ("dsrun -H train.py --num_n", "--num_nodes"),
    ("dsrun-topo --bind_memory au", "auto"),
    ("dsrun-topo --hostfi", ""),
    ("dsrun-elastic -c ho", "hostfile.txt"),
    ("dsrun-job sca", "scale"),
    ("dsrun-job sto", ""),
    ("dsrun-job report --js", "--json"),
    ("dsrun-job report --foll", ""),
    ("dsrun-job scale JO", "JOB"),
    ("dsrun-job --now kill HOL", "HOLD"),
    ("dsrun-job forget ENDE", "ENDED"),
    ("dsrun-job logs trai", "train.py"),
    ("dsrun-job signal JOB USR1", "USR1"),
    ("dsrun-job kill JOB --grace 3 -H machines --include n1:0@nod", "n1:0@node-7"),
    ("dsrun --hostfile=machines --host=nod", "--host=node-7"),
    ("dsrun --profile bi", "big"),
    ("dsrun --on=HOL", "--on=HOLD"),
    ("dsrun-hold --release HOL", "HOLD"),
    ("dsrun-check --profile big tr", "train.py"),
    ("dsrun-exec -H machines --stdin nod", "node-7"),
    ("dsrun-exec --copy train.py --qui", "--quiet"),
    ("dsrun-exec ls --qui", ""),
]
"""What is typed, and the one word that is offered for the last one; "" for none."""


OF_VERBS = {f"dsrun-job {verb} --": verb for verb in VERBS}
"""What is typed to see the options of each verb."""


@pytest.fixture(scope="module")
def offered(folder: Path) -> dict[str, list[str]]:
    need("fish")
    setup = [f"source {SHARE}/fish/vendor_completions.d/{name}.fish" for name in COMMANDS]
    setup.append(f"function dsrun-job; {LOOK} $argv; end")
    every = [*(line for line, _ in OFFERED), *OF_VERBS]
    asked = [f"echo LINE; complete -C {quote(real(line))}" for line in every]
    ran = subprocess.run(
        [shutil.which("fish") or "fish", "--no-config", "-c", "\n".join([*setup, *asked])],
        cwd=folder, env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True, timeout=HANG,
    )  # fmt: skip
    assert ran.stderr == ""
    answers = ran.stdout.split("LINE\n")[1:]
    words = [[row.partition("\t")[0] for row in answer.splitlines()] for answer in answers]
    return dict(zip(every, words, strict=True))


@pytest.mark.parametrize(("line", "word"), OFFERED)
def test_what_fish_offers(offered: dict[str, list[str]], line: str, word: str) -> None:
    assert offered[line] == ([real(word)] if word else [])


# -- against the parsers -----------------------------------------------------------------------

SHOWN = """
ask() {
    COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=($1) COMP_CWORD=$(($(set -- $1; echo $#) - 1))
    "_${COMP_WORDS[0]//-/_}"
    echo "${COMPREPLY[*]}"
}
"""


def in_bash(lines: list[str]) -> list[set[str]]:
    """Return what the scripts offer for the last word of each line."""
    asked = "\n".join(f"ask {quote(line)}" for line in lines)
    ran = subprocess.run(
        ["/bin/bash", "--norc", "-c", f"{BASH_SCRIPTS}{SHOWN}{asked}"],
        capture_output=True, text=True, check=True, timeout=HANG,
    )  # fmt: skip
    assert ran.stderr == ""
    return [set(line.split()) for line in ran.stdout.splitlines()]


def typed(names: Iterable[str]) -> set[str]:
    """Return the long names of options as they are typed."""
    return {f"--{name}" for name in names if not name.startswith("-")} | {"--help"}


def of_verb(verb: str) -> set[str]:
    """Return the options that the parser of dsrun-job takes with a verb."""
    table = named({**shared("job"), **OWN["dsrun-job"]})
    return typed(as_typed for as_typed, (name, _) in table.items() if name in VERBS[verb].options)


def test_bash_offers_the_options_that_the_parser_takes() -> None:
    tools = {name: named({**shared(name[6:]), **OWN[name]}) for name in OWN}
    known = {"dsrun": typed(named(all_options())) | {"--version"}}
    known |= {"dsrun-elastic": {name for name in elastic.NAMES if name.startswith("--")}}
    known |= {name: typed(table) for name, table in tools.items()}
    assert known.keys() == {*COMMANDS} - {"dsrun-topo"}, "its help has only those that it is about"
    assert in_bash([f"{name} --" for name in known]) == [*known.values()]


def test_bash_offers_verbs_and_of_each_the_options_that_it_takes() -> None:
    verbs, *options = in_bash(["dsrun-job --json l", *OF_VERBS])
    assert verbs == {verb for verb in VERBS if verb.startswith("l")}
    assert options == [of_verb(verb) for verb in VERBS]


def test_fish_offers_of_each_verb_the_options_that_it_takes(offered: dict[str, list[str]]) -> None:
    assert {verb: {*offered[line]} for line, verb in OF_VERBS.items()} == {
        verb: of_verb(verb) for verb in VERBS
    }


def test_zsh_knows_of_each_verb_the_options_that_it_takes() -> None:
    text = files()["share/zsh/site-functions/_dsrun-job"]
    cases = re.findall(r"^ +([a-z|]+)\) taken=\((.*)\) ;;$", text, re.MULTILINE)
    known = {verb: names.split() for verbs, names in cases for verb in verbs.split("|")}
    for verb in VERBS:
        found = {name for name in known[verb] if name.startswith("--")}
        assert {f"--{name[2:].replace('-', '_')}" for name in found} == of_verb(verb)


def test_values_are_offered_or_known_to_be_free() -> None:
    rows = [row for command in commands() for row in command.rows]
    offering = {one for one in rows if values(one) or one.offers or kind(one)}
    numbers = {one for one in rows if one.metavar in {"", "N", "N|MIN:MAX", "DURATION", "PORT"}}
    free = {one for one in rows if {*one.names} & FREE}
    assert {one.names for one in {*rows} - offering - numbers} == {one.names for one in free}
    assert not free & offering


FREE = {f"--{name}" for name in (
    *("sync_limit", "preload", "role", "export", "launcher_args", "master_addr", "program"),
    *("rdzv_endpoint", "rdzv_id", "rdzv_conf", "local_addr", "logs_specs", "console_ranks"),
    *("local_ranks_filter", "prefix", "event_log_handler", "debug", "expect", "requeue_on"),
    *("signals_to_handle", "no_restart_codes", "restart_on", "checkpoints", "warm_modules"),
    *("bind_core_list", "slots", "beside", "ports", "after", "ready", "ranks", "name", "shell"),
    *("container", "mount", "container_args", "first", "rest"),
)}  # fmt: skip
"""Options whose values nobody can list here."""


def test_every_command_has_a_script_for_every_shell() -> None:
    assert [command.name for command in commands()] == list(COMMANDS)
    assert len(files()) == 3 * len(COMMANDS)


def test_a_summary_is_the_first_sentence_and_short() -> None:
    assert summary(OptionRow(("-a",), "", "Do it. Then more.")) == "Do it"
    assert (
        summary(OptionRow(("-a",), "", "Take NAME=VALUE,... Or not."))
        == "Take NAME=VALUE,... Or not"
    )
    assert max(len(summary(row)) for command in commands() for row in command.rows) <= 72
