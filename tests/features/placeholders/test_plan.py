"""`--placeholders`, `--first` and `--rest`, from the options to whole jobs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.placeholders.plan import plan
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.program import Program

from ...support.checkout import CHECKOUT
from ...support.run_nodes import plan_of

SPEC = JobSpec("job", plan_of(2), "/work")


def ends(**options: object) -> tuple[tuple[str, ...], ...]:
    return plan(Options(**options), SPEC).workers.ends


def test_what_the_options_ask_for() -> None:
    assert ends() == ()
    assert ends(placeholders=True) == ((), ())
    assert ends(first="--a 'b c'", rest="d") == (("--a", "b c"), ("d",))


def test_words_that_cannot_be_split() -> None:
    with pytest.raises(UsageError, match=r"--rest .*No closing quotation"):
        ends(rest="'")


def test_a_mistake_is_refused() -> None:
    program = Program("t.py", ("--rank={rnak}",))
    spec = SPEC._replace(plan=SPEC.plan._replace(program=program))
    with pytest.raises(UsageError, match=r"\{rnak\} in the arguments: .* write \{rank\}"):
        plan(Options(placeholders=True), spec)
    assert plan(Options(), spec) == spec


WORKER = "import os, sys; print(*sys.argv[1:], os.environ.get('GIVEN'), sep='|')\n"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "t.py").write_text(WORKER)
    return subprocess.run(
        [sys.executable, str(CHECKOUT / "bin/dsrun"), "--prefix", "", "--no_local_rank", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_worker_has_its_own_words(tmp_path: Path) -> None:
    options = ("--num_gpus", "2", "--placeholders", "--first", "--head {host}", "--rest", "no")
    words = ("{rank}/{world_size}", "{local_rank}{node_rank}{nnodes}", "{hosts}", '{"a": 1}')
    ended = run(tmp_path, *options, "--export", "GIVEN=r{rank} {b}", "t.py", *words)
    assert ended.returncode == 0, ended
    assert sorted(ended.stdout.splitlines()) == [
        f'{rank}/2|{rank}01|localhost|{{"a": 1}}|--head|localhost|r{rank} {{b}}' for rank in (0, 1)
    ]


def test_without_the_option_words_are_as_they_are(tmp_path: Path) -> None:
    ended = run(tmp_path, "--num_gpus", "1", "t.py", "{rank}")
    assert ended.stdout == "{rank}|None\n"
