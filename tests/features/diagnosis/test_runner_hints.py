"""What to try when a worker has failed in a way that is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrun.launcher.features.diagnosis.runner_hints import hint
from dsrun.launcher.head.report.report import WorkerFailure
from dsrun.launcher.specs.program import Program

from ...support.cost import LINEAR, growth


def failure(stderr: str, stdout: str = "") -> WorkerFailure:
    return WorkerFailure(1.0, 0, 0, "w0", 4321, 1, stderr=stderr, stdout=stdout)


def hints(ended: WorkerFailure, program: Program | None, folder: str) -> list[str]:
    found = hint(ended, program, folder)
    return [f"{found.sentence}: {found.advice}"] if found else []


HINT = "the script does not accept --local_rank: give --no_local_rank (LOCAL_RANK is set anyway)"


@pytest.mark.parametrize(
    ("stderr", "hinted"),
    [
        ("ls: unrecognized option '--local_rank=0'\nTry 'ls --help'", True),  # glibc
        ("ls: unrecognized option: local_rank=0\nBusyBox v1.36", True),  # musl
        ("nsys: unrecognised option '--local_rank=0'", True),
        ("bash: --local_rank=0: invalid option\nUsage: bash", True),
        ("node: bad option: --local_rank=0", True),
        ("Error: unknown flag: --local_rank\nUsage:", True),  # cobra
        ("error: unexpected argument '--local_rank' found\n\n  tip: to pass", True),  # clap
        ("error: Found argument '--local_rank' which wasn't expected", True),
        ("flag provided but not defined: -local_rank\nUsage of x:", True),  # Go
        ("Unknown option: local_rank\nusage: perl", True),
        ("error: unknown option `local_rank=0'", True),  # git
        ("find: unknown predicate `--local_rank=0'", True),
        ('Option "--local_rank=0" is unknown, try "ip -help".', True),
        ("curl: option --local_rank=0: is unknown", True),
        ("ERROR: UNKNOWN OPTION: LOCAL_RANK", True),
        ("ERROR: OPTION --LOCAL_RANK IS UNKNOWN", True),
        ("getopt.GetoptError: option --local_rank not recognized", True),
        ("ERROR: Could not consume arg: --local_rank=0", True),  # fire
        ("Unrecognized switch: --local_rank=0  (-h will show valid options).", True),  # perl
        ("awk: not an option: --local_rank=0", True),
        ("gcc: error: unrecognized command-line option \u2018--local_rank=0\u2019", True),
        ("Error: Got unexpected extra argument (--local_rank=0)", True),  # click
        ("arguments are not used by the HfArgumentParser: ['--local_rank=0']", True),
        ("KeyError: unknown device of local_rank 0", False),
        ("RuntimeError: CUDA error: invalid argument\n  at local_rank 0", False),
        ("sh: 0: Illegal option --", False),  # of something else that a script of Python's ran
        ("usage: t.py\nt.py: error: unrecognized arguments: --local_rank=0", True),
        ("t.py: error: unrecognized arguments: --x --local-rank=3", True),
        ("Error: No such option: --local_rank", True),
        ("t.py: error: unrecognized arguments: --rank=0", False),
        ("FATAL Flags parsing error:\n  Unknown command line flag 'local_rank'\n", True),
        ("ValueError: local_rank=0 of --local_rank has no device", False),
        ("ValueError: could not convert string to float: '--local_rank=0'", True),
        ("ValueError: invalid literal for int() with base 10: '--local_rank=0'", True),
        ("ValueError: could not convert string to float: 'local_rank'", False),  # of a table
    ],
)
def test_a_script_that_takes_no_local_rank(stderr: str, hinted: bool) -> None:
    assert hints(failure(stderr), None, "") == [HINT] * hinted
    assert hints(failure("", stderr), Program("x"), "") == [HINT] * hinted


@pytest.mark.parametrize(
    ("stderr", "stdout", "hinted"),
    [
        ("Traceback\n    if self.quitting: raise BdbQuit\nbdb.BdbQuit\n", "(Pdb) \n", True),
        ("Traceback\nEOFError: EOF when reading a line", "", True),
        ("", "--Return--\n> t.py(3)<module>()\n(Pdb) ", True),
        ("EOFError: EOF when reading a line\nRuntimeError: no answer", "", False),
        ("EOFError: Ran out of input", "the (Pdb) prompt", False),
    ],
)
def test_a_script_that_asks_and_has_nobody_to_answer(
    stderr: str, stdout: str, hinted: bool
) -> None:
    found = hints(failure(stderr, stdout), None, "")
    assert ["--stdin rank0" in text for text in found] == [True] * hinted


@pytest.mark.parametrize(
    ("stderr", "stdout", "hinted"),
    [
        ("/bin/sh: 0: Illegal option --", "", True),  # dash
        ("ping: invalid option -- '-'\n\nUsage", "", True),  # getopt without long options
        ("", "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.", True),
        ("error: unknown gnu long option\n\nUsage:\n ps [options]", "", True),
        ("hostname: unrecognized option: local_rank=0", "", True),
        ("", "what is --local_rank=3?", True),
        ("RuntimeError: invalid combination", "", False),
    ],
)
@pytest.mark.parametrize("passed", [True, False])
def test_an_executable_that_takes_no_local_rank(
    stderr: str, stdout: str, hinted: bool, passed: bool
) -> None:
    program = Program("x", no_python=True, local_rank=passed)
    assert hints(failure(stderr, stdout), program, "") == [HINT] * (hinted and passed)
    if not stdout and stderr.endswith(("--", "'-'\n\nUsage", "[options]")):
        assert hints(failure(stderr), Program("x"), "") == [], "a script may mean something else"


def test_a_script_that_does_not_take_what_torch_distributed_launch_passes() -> None:
    program = Program("x.py", rank_option="--local-rank")
    (text,) = hints(failure("x.py: error: unrecognized arguments: --local-rank=0"), program, "")
    assert text == (
        "the script does not accept --local-rank: leave --local_rank out (LOCAL_RANK is set"
        " anyway), or replace torchrun's options with --num_gpus, which passes --local_rank"
    )


def test_a_module_that_lies_in_the_workers_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my work"
    (folder / "models").mkdir(parents=True)
    (folder / "util.py").touch()
    lines = {
        "ModuleNotFoundError: No module named 'models.net'": "models",
        "ModuleNotFoundError: No module named 'util'\n": "util",
        "ModuleNotFoundError: No module named 'torch'": "",
        "ImportError: cannot import name 'x' from 'util'": "",
    }
    for stderr, module in lines.items():
        ended = failure(f"Traceback (most recent call last):\n{stderr}")
        text = (
            f"{module} is in {folder}, which python does not search for a script in another "
            f"folder: use --export 'PYTHONPATH={folder}'"
        )
        assert hints(ended, Program("scripts/t.py"), str(folder)) == [text] * bool(module)
        assert hints(ended, None, "") == []


@pytest.mark.parametrize(
    "piece", ["unknown option ", "-local-rank ", "local_rank: is unknown", "illegal option -", "-"]
)
@pytest.mark.parametrize("end", ["", " -local_rank"])
def test_no_output_is_searched_long(piece: str, end: str) -> None:
    program = Program("train.py", no_python=True, local_rank=True)

    def search(size: int) -> None:
        hint(failure("rank" + piece * (size // len(piece)) + end), program, "")

    assert growth(search, 1000) < LINEAR


def test_workers_of_a_role_that_share_its_port_are_named() -> None:
    """Not as a program that could be ended."""
    said = "OSError: [Errno 98] Address already in use"
    ended = failure(said)._replace(
        evidence=("shared: ranks 0 and 1 of srv; both listen on its port http (39259)",)
    )
    assert hints(ended, None, "") == [
        "ranks 0 and 1 of srv on w0 both listen on its port http (39259):"
        " workers = 1, or add LOCAL_RANK to the port"
    ]
    assert hints(failure(said), None, "") == []
