"""Slurm's compressed lists, as Slurm itself reads and writes them."""

import os
import random
import subprocess
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.resources.nodelist import expand_nodelist, task_counts
from dsrun.launcher.resources.ranges import MAX_HOSTS

from ..support.cost import LINEAR, growth
from ..support.needs import need

NAME_RULE = "is not a host name (letters, digits, '.', '_', '-'; not only digits)"
HOSTS_RULE = "expected hosts such as node[01-16],login1"


def scontrol(*words: str, folder: Path) -> list[str]:
    """The lines that scontrol prints; it reads lists by itself, but wants a configuration."""
    need("scontrol")
    config = folder / "slurm.conf"
    config.write_text("ClusterName=none\nSlurmctldHost=localhost\n")
    environ = {**os.environ, "SLURM_CONF": str(config)}
    ran = subprocess.run(
        ["scontrol", *words], env=environ, capture_output=True, text=True, check=True
    )
    return ran.stdout.splitlines()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("plain", "plain"),
        ("n2,n1", "n2 n1"),
        ("n[1-3]", "n1 n2 n3"),
        ("a[01-03,7],b-[1-2]x,plain", "a01 a02 a03 a7 b-1x b-2x plain"),
        ("c[1-2]d[3-4]", "c1d3 c1d4 c2d3 c2d4"),
        ("n[08-11,3,002]", "n08 n09 n10 n11 n3 n002"),
        ("n[99-101]", "n99 n100 n101"),
        ("n[5]", "n5"),
        ("[1-2]x", "1x 2x"),
        ("n1-3", "n1-3"),
        ("n[1-2] ,m", "n1 n2 m"),
        ("n1,,n2,", "n1 n2"),
        ("gpu-[1-2].site.org", "gpu-1.site.org gpu-2.site.org"),
        # The lower end says how many digits there are, whatever the upper one looks like.
        ("n[001-12]", " ".join(f"n{number:03}" for number in range(1, 13))),
        ("n[01-3]", "n01 n02 n03"),
        ("n[1-03]", "n1 n2 n3"),
    ],
)
def test_a_list_stands_for_its_hosts(text: str, names: str) -> None:
    assert expand_nodelist(text) == names.split()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"'': {HOSTS_RULE}"),
        (" , ", f"' , ': {HOSTS_RULE}"),
        ("a,n[1-", "'n[1-': unmatched bracket; expected a pattern such as n[1-4]"),
        ("n1]", "'n1]': unmatched bracket; expected a pattern such as n[1-4]"),
        ("n[1[2]]", "'n[1[2]]': unmatched bracket; expected a pattern such as n[1-4]"),
        ("n[]", "'n[]': expected a number or a range such as 0-3, not ''"),
        ("n[1,,2]", "'n[1,,2]': expected a number or a range such as 0-3, not ''"),
        ("n[a-b]", "'n[a-b]': expected a number or a range such as 0-3, not 'a-b'"),
        ("n[3-1]", "'n[3-1]': range '3-1': the first number is larger than the last"),
        ("ok,-oProxyCommand=x", f"'-oProxyCommand=x' {NAME_RULE}"),
        ("$(id)", f"'$(id)' {NAME_RULE}"),
        ("n 1", f"'n 1' {NAME_RULE}"),
        ("[1-2]", f"'[1-2]': '1' {NAME_RULE}"),
        ("n[1-99999999]", "'n[1-99999999]': more than 100000 hosts"),
        ("a[1-60000],b[1-60000]", "more than 100000 hosts"),
    ],
)
def test_a_bad_list_names_the_variable_and_the_text(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand_nodelist(text)
    assert str(caught.value) == f"SLURM_JOB_NODELIST: {message}"


def test_the_error_names_the_variable_that_was_read() -> None:
    with pytest.raises(UsageError, match=r"^SLURM_STEP_NODELIST: "):
        expand_nodelist("n[", "SLURM_STEP_NODELIST")


def test_what_slurm_writes_is_read_as_it_was(tmp_path: Path) -> None:
    rng = random.Random(64)
    for _ in range(25):
        names = list(dict.fromkeys(host_name(rng) for _ in range(rng.randrange(1, 40))))
        (text,) = scontrol("show", "hostlist", ",".join(names), folder=tmp_path)
        assert expand_nodelist(text) == names


def test_lists_are_read_as_slurm_reads_them(tmp_path: Path) -> None:
    rng = random.Random(65)
    for _ in range(25):
        text = ",".join(some_hosts(rng) for _ in range(rng.randrange(1, 6)))
        assert expand_nodelist(text) == scontrol("show", "hostnames", text, folder=tmp_path)


def host_name(rng: random.Random) -> str:
    digits = rng.randrange(1, 4)
    return f"{rng.choice(['n', 'gpu-', 'r1c'])}{rng.randrange(10**digits):0{digits}}"


def some_hosts(rng: random.Random) -> str:
    """One item of a list, with a bracket or two, of ranges of which some have zeros in front."""
    brackets = ""
    for _ in range(rng.randrange(1, 3)):
        low = rng.randrange(20)
        span = f"{low:0{rng.randrange(1, 4)}}-{low + rng.randrange(9)}"
        brackets += f"{rng.choice('xyz')}[{span},{rng.randrange(200, 300)}]"
    return rng.choice(["plain", brackets])


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("1", [1]),
        ("2(x3),1", [2, 2, 2, 1]),
        ("3,1(x2)", [3, 1, 1]),
        ("72(x2),36", [72, 72, 36]),
        ("0", [0]),
    ],
)
def test_counts(text: str, counts: list[int]) -> None:
    assert task_counts(text) == counts


@pytest.mark.parametrize("text", ["", "x", "2(x", "2(3)", "2x3", "1,", "-1", "2(x-1)", "٣"])
def test_bad_counts_name_the_variable_and_the_text(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        task_counts(text)
    expected = f"SLURM_TASKS_PER_NODE: '{text}': expected counts such as 2(x3),1"
    assert str(caught.value) == expected


def test_no_more_counts_than_there_may_be_hosts() -> None:
    assert len(task_counts(f"1(x{MAX_HOSTS})")) == MAX_HOSTS
    with pytest.raises(UsageError, match="more than 100000 nodes"):
        task_counts("1(x999999999)")


def test_counts_written_back_are_the_same() -> None:
    rng = random.Random(66)
    for _ in range(200):
        counts = rng.choices([1, 2, 8], k=rng.randrange(1, 30))
        runs = [(count, len(list(run))) for count, run in groupby(counts)]
        text = ",".join(f"{count}(x{times})" if times > 1 else f"{count}" for count, times in runs)
        assert task_counts(text) == counts


@pytest.mark.parametrize(
    "text",
    [
        lambda size: f"n[0000-{size - 1}]",
        lambda size: f"a[0-{size // 25 - 1}]b[0-24]",
        lambda size: ",".join(f"n{number}" for number in range(size)),
    ],
    ids=["range", "product", "names"],
)
def test_thousands_of_hosts_are_read_in_linear_time(text: Callable[[int], str]) -> None:
    def read(size: int) -> None:
        assert len(expand_nodelist(text(size))) == size

    assert growth(read, 625) < LINEAR


@pytest.mark.parametrize("word", ["[", "n[1", "a", "]", "[1-", "(x"])
def test_a_long_bad_list_takes_linear_time(word: str) -> None:
    def refuse(size: int) -> None:
        text = word * (size // len(word))
        for read in (expand_nodelist, task_counts):
            with pytest.raises(UsageError):
                read(text)

    assert growth(refuse, 20_000) < LINEAR
