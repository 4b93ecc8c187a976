"""What is decided before the start of a job: facts held together, the master, what is shown."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control.messages import Hello
from dsrun.launcher.head.fleet.checks import choose_master, master_candidates, problems
from dsrun.launcher.head.fleet.startup import waiting_line
from dsrun.launcher.head.run.policy import rules
from dsrun.launcher.resources.hostfile import Host
from dsrun.launcher.specs.plan import Node, lay_out

# -- the facts held together --------------------------------------------------------------------


def hello(**more: object) -> Hello:
    facts: dict[str, object] = {
        "dsrun": "1",
        "hostname": "real",
        "machine": "m",
        "python": "/py",
        "accelerator": "cuda",
        "devices": (),
        "slots": 1,
        "port": None,
        "addresses": (),
        "problems": (),
        "clock": 0.0,
    }
    return Hello(**{**facts, **more})  # type: ignore[arg-type]


NODES = lay_out([Host("w0", (0,), where="hosts:1"), Host("w1", (0,), where="hosts:2"), Host("w2")])


@pytest.mark.parametrize(
    ("hellos", "found"),
    [
        ([hello(machine="a"), hello(machine="b"), hello(machine="c")], []),
        (
            [
                hello(machine="a", problems=("no such folder: /x", "no python at /py")),
                hello(machine="b"),
                hello(machine="c", problems=("port 1 is taken",)),
            ],
            ["w0: no such folder: /x", "w0: no python at /py", "w2: port 1 is taken"],
        ),
        (
            [hello(machine="a"), hello(machine="a"), hello(machine="a")],
            [
                "w1 (hosts:2): the same machine as w0; list it once, all slots together",
                "w2: the same machine as w0; list it once, all slots together",
            ],
        ),
        (
            [hello(machine="a"), hello(machine="b", accelerator="cpu"), hello(machine="c")],
            [
                "the hosts have different accelerators (cuda: w0, w2; cpu: w1);"
                " choose with --include"
            ],
        ),
    ],
)
def test_what_stands_in_the_way(hellos: list[Hello], found: list[str]) -> None:
    assert problems(NODES, dict(enumerate(hellos))) == found


@pytest.mark.parametrize(
    ("host", "given", "alone", "candidates"),
    [
        ("w0", None, False, ("w0", "10.0.0.1", "fd00::1", "real")),
        ("10.0.0.1", None, False, ("10.0.0.1", "fd00::1", "real")),
        ("localhost", None, False, ("10.0.0.1", "fd00::1", "real")),
        ("127.0.0.1", None, False, ("10.0.0.1", "fd00::1", "real")),
        ("::1", None, False, ("10.0.0.1", "fd00::1", "real")),
        ("w0", None, True, ("127.0.0.1",)),
        ("w0", "mine", True, ("mine",)),
        ("w0", "mine", False, ("mine",)),
    ],
)
def test_addresses_of_the_master_to_try(
    host: str, given: str | None, alone: bool, candidates: tuple[str, ...]
) -> None:
    (node,) = lay_out([Host(host, (0,))])
    said = hello(addresses=("10.0.0.1", "fd00::1"))
    assert master_candidates(node, said, given, alone) == candidates


@pytest.mark.parametrize(
    ("verdicts", "address", "reasons"),
    [
        ({"w1": ["", ""], "w2": ["", ""]}, "a", []),
        ({"w1": ["", ""], "w2": ["refused", ""]}, "b", []),
        (
            {"w1": ["", ""], "w2": ["refused", "no answer"]},
            "",
            ["w2: cannot reach the master at a:7 (refused); b:7 (no answer)"],
        ),
        (
            {"w1": ["", "x"], "w2": ["y", ""]},
            "",
            ["no address of the first host is reached by all: a, b"],
        ),
    ],
)
def test_the_master_is_the_first_address_that_all_reach(
    verdicts: dict[str, list[str]], address: str, reasons: list[str]
) -> None:
    assert choose_master(["a", "b"], verdicts, 7) == (address, reasons)


@pytest.mark.parametrize(
    ("total", "waiting", "text"),
    [
        (64, ["node7", "node9", "node41"], "61/64 hosts, waiting for node7, node9, node41"),
        (5, list("abcde"), "0/5 hosts, waiting for a, b, c, d, e"),
        (9, list("abcdefg"), "2/9 hosts, waiting for a, b, c, d, e and 2 more"),
    ],
)
def test_who_is_waited_for(total: int, waiting: list[str], text: str) -> None:
    assert waiting_line(total, waiting) == text


# -- what is shown of whom ----------------------------------------------------------------------

BOTH = {1, 2}


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (Options(), {(0, 0): BOTH, (9, 1): BOTH}),
        (Options(console_ranks="0,8-15"), {(0, 0): BOTH, (1, 1): set(), (9, 1): BOTH}),
        (Options(local_ranks_filter="0"), {(0, 0): BOTH, (8, 0): BOTH, (9, 1): set()}),
        (
            Options(console_ranks="8,9", local_ranks_filter="1"),
            {(0, 0): set(), (8, 0): set(), (9, 1): BOTH, (1, 1): set()},
        ),
        (Options(tee="3"), {(0, 0): BOTH}),
        (Options(redirects="3"), {(0, 0): set()}),
        (Options(redirects="1", log_dir="l"), {(0, 0): {2}, (9, 1): {2}}),
        (Options(redirects="2", log_dir="l"), {(0, 0): {1}}),
        # What is teed is shown, as with torchrun.
        (Options(redirects="3", log_dir="l", tee="2"), {(0, 0): {2}}),
        (Options(redirects="3", log_dir="l"), {(0, 0): set()}),
        (Options(redirects="0:1,1:3", log_dir="l"), {(0, 0): {2}, (9, 1): set(), (2, 2): BOTH}),
        (Options(redirects="2,0:0", log_dir="l"), {(0, 0): BOTH, (9, 1): {1}}),
    ],
)
def test_streams_that_are_shown(options: Options, shown: dict[tuple[int, int], set[int]]) -> None:
    made = rules(options, "j")
    assert {key: made.shown(*key) for key in shown} == shown


NODE = Node(2, Host("w2", (0, 1)), 4, (0, 1))


@pytest.mark.parametrize(
    ("form", "label"),
    [
        ("{host}:{rank}| ", "w2:5| "),
        ("", ""),
        ("[{job}] n{node_rank} l{local_rank} {rank:03d} {{}} ", "[j] n2 l1 005 {} "),
    ],
)
def test_labels(form: str, label: str) -> None:
    assert rules(Options(prefix=form), "j").label(NODE, 5, 1) == label


def test_the_rest_of_the_rules() -> None:
    made = rules(Options(grace=2.0, heartbeat_timeout=3.0, stdin="rank0", connect_timeout=4.0), "j")
    assert (made.grace, made.lease, made.stdin, made.connect_timeout) == (2.0, 3.0, True, 4.0)
    assert (made.start_timeout, made.graceful_term_ok) == (300.0, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            Options(redirects="4", log_dir="l"),
            "--redirects '4': expected 0 to 3, or LOCAL_RANK:0-3 joined by commas",
        ),
        (
            Options(tee="x:1", log_dir="l"),
            "--tee 'x:1': expected 0 to 3, or LOCAL_RANK:0-3 joined by commas",
        ),
        (
            Options(prefix="{hots}"),
            "--prefix '{hots}': expected text with any of"
            " {host} {rank} {local_rank} {node_rank} {job} {role}",
        ),
        *(
            (
                Options(prefix=form),
                f"--prefix {form!r}: expected text with any of"
                " {host} {rank} {local_rank} {node_rank} {job} {role}",
            )
            for form in ("{", "{}", "{0}", "{rank!x}", "{rank.x}", "{rank[0]}", "{host:d}")
        ),
    ],
)
def test_output_options_that_are_not_understood(options: Options, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        rules(options, "j")
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["x", "3-1", "0,0", "-1", "0,,1", "GPU-1"])
def test_ranks_that_are_no_numbers(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--console_ranks .*: expected ranks such as 0,8-15"):
        rules(Options(console_ranks=text), "j")
    with pytest.raises(UsageError, match=r"^--local_ranks_filter .*: expected ranks such as"):
        rules(Options(local_ranks_filter=text), "j")
