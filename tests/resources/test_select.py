"""Include, exclude, and the cuts by number: which hosts and slots are left."""

import random
from collections.abc import Callable

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.resources.hostfile import Host, Slot, parse_hostfile, parse_hosts
from dsrun.launcher.resources.select import select

from ..support.cost import LINEAR, growth

HOSTS = parse_hostfile(
    b"worker-0 slots=4\nworker-1 slots=4\nw slots=2\nfe80::1 slots=2\nfe80::1:0 slots=1\n", "hosts"
)
OPEN = [Host("open", where="hosts:1"), Host("ids", ("GPU-a", "MIG-b", "MIG-c"))]
MANY = parse_hosts("node[00-63]:8")

THERE = "the hostfile has worker-0, worker-1, w, fe80::1, fe80::1:0"
SLOT_RULE = "expected a slot such as 2, a range such as 0-3 or an id such as GPU-8932f937"
NODE_RULE = "expected NODE or NODE:SLOT,SLOT (join several with @)"

Left = list[tuple[str, tuple[Slot, ...] | None]]


def fault_of(hosts: list[Host], include: str, exclude: str) -> str:
    try:
        assert select(hosts, include=include, exclude=exclude)
    except UsageError as fault:
        return str(fault)
    return ""


def left(hosts: list[Host]) -> Left:
    return [(host.name, host.slots) for host in hosts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("worker-1", [("worker-1", (0, 1, 2, 3))]),
        ("worker-1:3", [("worker-1", (3,))]),
        ("worker-1:3,1", [("worker-1", (3, 1))]),
        ("worker-1:0,2-3", [("worker-1", (0, 2, 3))]),
        ("worker-1:3@worker-0:0", [("worker-0", (0,)), ("worker-1", (3,))]),
        ("w@worker-0:0-1", [("worker-0", (0, 1)), ("w", (0, 1))]),
        ("worker-*:1", [("worker-0", (1,)), ("worker-1", (1,))]),
        ("worker-?:0@w", [("worker-0", (0,)), ("worker-1", (0,)), ("w", (0, 1))]),
        ("worker-[0-1]:2", [("worker-0", (2,)), ("worker-1", (2,))]),
        ("w*[0-1]:2", [("worker-0", (2,)), ("worker-1", (2,))]),
        ("fe80::1", [("fe80::1", (0, 1))]),
        ("fe80::1:1", [("fe80::1", (1,))]),
        ("fe80::1:0", [("fe80::1:0", (0,))]),
        ("[fe80::1]:0", [("fe80::1", (0,))]),
        ("[fe80::1]", [("fe80::1", (0, 1))]),
        ("fe80::*", [("fe80::1", (0, 1)), ("fe80::1:0", (0,))]),
        ("worker-0:1,1", [("worker-0", (1,))]),
        ("worker-0:3,1,3", [("worker-0", (3, 1))]),
        ("worker-0:1@worker-0:0,1", [("worker-0", (0, 1))]),
        ("worker-0:3@worker-1@worker-0:0", [("worker-0", (0, 3)), ("worker-1", (0, 1, 2, 3))]),
        ("worker-*:1@worker-0:0", [("worker-0", (0, 1)), ("worker-1", (1,))]),
        ("worker-0:1@worker-0", [("worker-0", (0, 1, 2, 3))]),
        ("w@w*:0@w", [("worker-0", (0,)), ("worker-1", (0,)), ("w", (0, 1))]),
    ],
)
def test_include_keeps_what_it_names(text: str, expected: Left) -> None:
    assert left(select(HOSTS, include=text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("worker-*@fe80::1@fe80::1:0", [("w", (0, 1))]),
        ("worker-*:1@worker-1@w:0,0@w:1@fe*@worker-0:0,2", [("worker-0", (3,))]),
        ("worker-0:1@worker-1:0-2@w:0-1@fe*", [("worker-0", (0, 2, 3)), ("worker-1", (3,))]),
    ],
)
def test_exclude_keeps_the_rest(text: str, expected: Left) -> None:
    assert left(select(HOSTS, exclude=text)) == expected


def test_a_device_id_on_a_counted_host_is_left_to_the_node() -> None:
    assert left(select([Host("a", (0, 1))], include="a:GPU-x")) == [("a", ("GPU-x",))]


def test_what_is_not_named_stays_as_it_is() -> None:
    host = Host("a", (0, 1), user="me", port=2222, where="hosts:3")
    assert select([host, Host("b")], exclude="b") == [host]
    (chosen,) = select([host], include="a:1")
    assert chosen == Host("a", (1,), user="me", port=2222, where="hosts:3")
    assert select(HOSTS) == HOSTS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("open", [("open", None)]),
        ("open:7,5", [("open", (7, 5))]),
        ("open:GPU-x,MIG-y", [("open", ("GPU-x", "MIG-y"))]),
        ("ids:MIG-c,GPU-a", [("ids", ("MIG-c", "GPU-a"))]),
        ("ids:1", [("ids", ("MIG-b",))]),
    ],
)
def test_devices_by_id_and_hosts_not_yet_counted(text: str, expected: Left) -> None:
    assert left(select(OPEN, include=text)) == expected


def test_exclude_by_id_and_by_place() -> None:
    assert left(select(OPEN, exclude="open@ids:GPU-a")) == [("ids", ("MIG-b", "MIG-c"))]
    assert left(select(OPEN, exclude="ids:0-1")) == [("open", None), ("ids", ("MIG-c",))]


@pytest.mark.parametrize("flag", ["include", "exclude"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worker-9", f"no host 'worker-9' ({THERE})"),
        ("worker-9:0", f"'worker-9:0': no host 'worker-9' ({THERE})"),
        ("worker-[0-2]:0", f"'worker-[0-2]:0': no host 'worker-2' ({THERE})"),
        ("x*", f"no host 'x*' ({THERE})"),
        ("fe80::2", f"no host 'fe80::2' ({THERE})"),
        ("[fe80::2]:0", f"'[fe80::2]:0': no host 'fe80::2' ({THERE})"),
        ("w @worker-0", f"no host 'w ' ({THERE})"),
        ("w:9", "'w:9': no slot 9 on 'w' (it has 0-1)"),
        ("worker-0:0-4", "'worker-0:0-4': no slot 4 on 'worker-0' (it has 0-3)"),
        ("w:", f"'w:': {SLOT_RULE}, not ''"),
        ("w:0,,1", f"'w:0,,1': {SLOT_RULE}, not ''"),
        ("w:one", f"'w:one': {SLOT_RULE}, not 'one'"),
        ("w:-1", f"'w:-1': {SLOT_RULE}, not '-1'"),
        ("w:1-0", "'w:1-0': range '1-0': the first number is larger than the last"),
        ("w:0-99999999999", "'w:0-99999999999': slot 99999999999: expected at most 4095"),
        ("@", f"'@': {NODE_RULE}"),
        ("w@", f"'w@': {NODE_RULE}"),
        ("@w", f"'@w': {NODE_RULE}"),
        (":0", f"':0': {NODE_RULE}"),
        ("w:0@w:5", "'w:5': no slot 5 on 'w' (it has 0-1)"),
        ("worker-1@worker-0:1@5", f"no host '5' ({THERE})"),
        ("w[a]", "'w[a]': expected a number or a range such as 0-3, not 'a'"),
        ("w[0-1", "'w[0-1': unmatched bracket; expected a pattern such as n[1-4]"),
        ("w[0-999999]", "'w[0-999999]': more than 100000 hosts"),
    ],
)
def test_a_bad_filter_shows_the_bad_token(flag: str, text: str, message: str) -> None:
    include, exclude = (text, "") if flag == "include" else ("", text)
    assert fault_of(HOSTS, include, exclude) == f"--{flag}: {message}"


def test_one_device_named_by_id_and_by_place_counts_once() -> None:
    assert left(select(OPEN, include="ids:0,GPU-a@ids:MIG-b@open:9,GPU-x@open:7")) == [
        ("open", (7, 9, "GPU-x")),
        ("ids", ("GPU-a", "MIG-b")),
    ]


def test_slots_of_an_uncounted_host_cannot_be_excluded() -> None:
    with pytest.raises(UsageError) as caught:
        select(OPEN, exclude="open:0")
    assert str(caught.value) == (
        "--exclude: the number of slots of 'open' is not known; "
        "give it (hosts:1), or exclude the whole host"
    )


@pytest.mark.parametrize("text", ["*", "worker-*:0-3@w:1,0", "*[0-1]@w"])
def test_excluding_everything_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(HOSTS[:3], exclude=text)
    assert str(caught.value) == (
        "--exclude: no host is left (the hostfile has worker-0, worker-1, w)"
    )


def test_many_hosts_are_told_by_their_ends_and_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        select(MANY, include="nod12", source="--host")
    assert str(caught.value) == (
        "--include: no host 'nod12' (--host has node00 .. node63, 64 hosts, nearest node12)"
    )
    with pytest.raises(UsageError, match=r"\(the hostfile has node00 \.\. node63, 64 hosts\)$"):
        select(MANY, include="zzz")


def test_the_first_nodes_and_the_first_slots() -> None:
    assert left(select(HOSTS, num_nodes=1)) == [("worker-0", (0, 1, 2, 3))]
    assert left(select(HOSTS, num_nodes=2, num_gpus=1)) == [("worker-0", (0,)), ("worker-1", (0,))]
    assert left(select(OPEN, num_gpus=2)) == [("open", (0, 1)), ("ids", ("GPU-a", "MIG-b"))]
    assert select(HOSTS, num_nodes=5) == HOSTS


@pytest.mark.parametrize("count", [0, -1, 6])
def test_a_number_of_nodes_that_cannot_be(count: int) -> None:
    with pytest.raises(UsageError) as caught:
        select(HOSTS, num_nodes=count)
    assert str(caught.value) == f"--num_nodes: expected 1 to 5 ({THERE}), not {count}"


@pytest.mark.parametrize("count", [0, -1, 4097])
def test_a_number_of_slots_that_cannot_be(count: int) -> None:
    with pytest.raises(UsageError) as caught:
        select(HOSTS, num_gpus=count)
    assert str(caught.value) == f"--num_gpus: expected 1 to 4096, not {count}"


def test_more_slots_than_a_host_has() -> None:
    with pytest.raises(UsageError) as caught:
        select(HOSTS, num_gpus=4)
    assert str(caught.value) == "--num_gpus: 4 is more than the 2 slots of 'w' (hosts:3)"
    assert len(select(HOSTS, num_nodes=2, num_gpus=4)) == 2


@pytest.mark.parametrize(
    ("include", "exclude", "num_nodes", "num_gpus", "pair"),
    [
        ("w", "worker-0", None, None, ("--include", "--exclude")),
        ("w", "", 1, None, ("--include", "--num_nodes")),
        ("w", "", 0, None, ("--include", "--num_nodes")),
        ("w", "", None, 1, ("--include", "--num_gpus")),
        ("", "w", 1, None, ("--exclude", "--num_nodes")),
        ("", "w", None, 1, ("--exclude", "--num_gpus")),
    ],
)
def test_flags_that_contradict_each_other(
    include: str, exclude: str, num_nodes: int | None, num_gpus: int | None, pair: tuple[str, str]
) -> None:
    with pytest.raises(UsageError) as caught:
        select(HOSTS, include=include, exclude=exclude, num_nodes=num_nodes, num_gpus=num_gpus)
    assert str(caught.value) == f"conflicting options: {pair[0]} and {pair[1]}; give one of them"


def test_include_and_exclude_share_out_the_slots() -> None:
    rng = random.Random(93)
    everything = {(host.name, slot) for host in HOSTS for slot in host.slots or ()}
    for _ in range(500):
        picked = rng.sample(sorted(everything, key=str), rng.randrange(1, len(everything)))
        tokens: dict[str, list[str]] = {}
        for name, slot in picked:
            tokens.setdefault(name, []).append(str(slot))
        text = "@".join(f"[{name}]:{','.join(slots)}" for name, slots in tokens.items())
        inside, outside = (
            {(host.name, slot) for host in hosts for slot in host.slots or ()}
            for hosts in (select(HOSTS, include=text), select(HOSTS, exclude=text))
        )
        assert inside == set(picked)
        assert outside == everything - inside


def test_only_usage_errors_whatever_is_written() -> None:
    rng = random.Random(25)
    pieces = ["worker-", "w", "0", "1", ":", "@", ",", "-", "[", "]", "*", "?", "fe80::1", "GPU-a"]
    pieces += ["open", "ids", "\n", "\0", "é", "\udcff", "9" * 20, " ", "!"]
    chosen = 0
    for _ in range(20_000):
        text = "".join(rng.choices(pieces, k=rng.randrange(1, 9)))
        for include, exclude in ((text, ""), ("", text)):
            fault = fault_of(HOSTS + OPEN, include, exclude)
            chosen += not fault
            assert not fault or fault.startswith(("--include: ", "--exclude: "))
            assert fault.isprintable()
    assert 0 < chosen < 40_000


@pytest.mark.parametrize(
    ("include", "exclude"),
    [
        (lambda _: "worker-*:3,1", ""),
        (lambda size: f"worker-[0-{size - 1}]:0-3", ""),
        (lambda size: "@".join(f"worker-{number}:0,2" for number in range(size)), ""),
        (lambda _: "", "worker-*:7"),
    ],
    ids=["pattern", "range", "one by one", "exclude"],
)
def test_thousands_of_hosts_are_filtered_in_linear_time(
    include: Callable[[int], str], exclude: str
) -> None:
    hosts = parse_hosts("worker-[0-9999]:8")

    def choose(size: int) -> None:
        chosen = select(hosts[:size], include=include(size), exclude=exclude)
        assert len(chosen) == size

    assert growth(choose, 625) < LINEAR
