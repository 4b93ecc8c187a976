"""The hostfile and the --host list: what they may say, and how they say what is wrong."""

import random
from collections.abc import Callable
from typing import TypeVar

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.resources.hostfile import Host, Slot, parse_hostfile, parse_hosts
from dsrun.launcher.resources.ranges import MAX_HOSTS, expand, parse_slots, show_slots
from dsrun.launcher.specs.host import repeats

from ..support.checkout import CHECKOUT
from ..support.cost import LINEAR, growth

T = TypeVar("T", str, bytes)

NO_ITEM = "an item is empty; expected hosts joined by commas, without spaces: n1,n2"
URL = "is a URL; give only the host name (and the ssh port with --ssh_port)"
NO_SLOTS = "leave out slots for one worker per device, or leave out the host (--exclude HOST)"
ZERO_RULE = (
    "a single number is the number of slots; write '0-0' for slot 0 alone, the host without ':0'"
    " for one worker per device, or leave out the host"
)
LABEL_RULE = "each part between dots has 1 to 63 characters"
NAME_RULE = "is not a host name (letters, digits, '.', '_', '-'; not only digits)"
COMMA = "no commas in a hostfile; write one host per line"
OPTIONS = "expected 'slots=N', 'max_slots=N', 'port=N' or 'block=NAME'"
SLOTS_RULE = "slots must be a number from 1 to 4096"
SLOT_RULE = "expected a slot such as 2, a range such as 0-3 or an id such as GPU-8932f937"


def hosts_of(line: str) -> list[Host]:
    return parse_hostfile(line.encode(), "hosts")


def fault_or_none(parse: Callable[[T], list[Host]], text: T) -> str | None:
    try:
        assert parse(text)
    except UsageError as fault:
        return str(fault)
    return None


def fault_of(data: bytes) -> str:
    with pytest.raises(UsageError) as caught:
        parse_hostfile(data, "hosts")
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("n1", Host("n1")),
        ("n1 slots=2", Host("n1", (0, 1))),
        ("\t n1\t slots=2 \t", Host("n1", (0, 1))),
        ("n1:2", Host("n1", (0, 1))),
        ("n1 slots=2 max_slots=2", Host("n1", (0, 1))),
        ("n1 max-slots=4 slots=2", Host("n1", (0, 1))),
        ("n1 slots=2 maxslots=4", Host("n1", (0, 1))),
        ("n1 max_slots=4", Host("n1")),
        ("n1 slots=02", Host("n1", (0, 1))),
        ("n1 slots=1# one", Host("n1", (0,))),
        ("me@n1 slots=1", Host("n1", (0,), user="me")),
        ("me@n1:1 port=2222", Host("n1", (0,), user="me", port=2222)),
        ("n1 slots=1 port=65535", Host("n1", (0,), port=65535)),
        ("[n1]:2222 slots=1", Host("n1", (0,), port=2222)),
        ("[n1] slots=1", Host("n1", (0,))),
        ("me@[::1]:2222", Host("::1", user="me", port=2222)),
        ("[::1] slots=1 port=22", Host("::1", (0,), port=22)),
        ("::1", Host("::1")),
        ("fe80::1%eth0 slots=1", Host("fe80::1%eth0", (0,))),
        ("::ffff:10.0.0.1 slots=1", Host("::ffff:10.0.0.1", (0,))),
        ("10.0.0.1:1", Host("10.0.0.1", (0,))),
        ("Node_1.Some-Where.org", Host("Node_1.Some-Where.org")),
        ("n1 slots=4096", Host("n1", tuple(range(4096)))),
    ],
)
def test_a_line_in_any_dialect(line: str, expected: Host) -> None:
    (host,) = hosts_of(line)
    assert (host.name, host.slots, host.user, host.port, host.where) == (
        expected.name,
        expected.slots,
        expected.user,
        expected.port,
        "hosts:1",
    )


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("node[8-11]:1", "node8 node9 node10 node11"),
        ("node[08-11]:1", "node08 node09 node10 node11"),
        ("node[001-002,7,0]:1", "node001 node002 node7 node0"),
        ("r[1-2]n[0-1].x:1", "r1n0.x r1n1.x r2n0.x r2n1.x"),
        ("[1-2]x:1", "1x 2x"),
        ("n[5]:1", "n5"),
        ("n[99-101]:1", "n99 n100 n101"),
    ],
)
def test_a_range_stands_for_all_its_hosts(line: str, names: str) -> None:
    hosts = hosts_of(f"me@{line} port=22")
    assert [host.name for host in hosts] == names.split()
    assert {(host.slots, host.user, host.port) for host in hosts} == {((0,), "me", 22)}


@pytest.mark.parametrize(
    "data",
    [
        b"a slots=2\nb slots=2\n",
        b"a slots=2\nb slots=2",
        b"a slots=2\r\nb slots=2\r\n",
        b"\xef\xbb\xbfa slots=2\nb slots=2\n",
        b"a:2\nb:2\n",
        b"\n# first\n\na\tslots=2 # second\n   \n  # third\nb:2#\n",
        "# Rechner für alle: äöü 漢字\na:2\nb:2\n".encode(),
        b"[a]\tmax_slots=2\tslots=2\nb slots=2\n",
    ],
)
def test_the_same_hosts_in_many_dresses(data: bytes) -> None:
    hosts = parse_hostfile(data, "hosts")
    assert [(host.name, host.slots) for host in hosts] == [("a", (0, 1)), ("b", (0, 1))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("n1 slots=x", f":4: 'slots=x': {SLOTS_RULE}, not 'x'"),
        ("n1 slots=2xyz", f":4: 'slots=2xyz': {SLOTS_RULE}, not '2xyz'"),
        ("n1   slots=0", f":6: 'slots=0': {SLOTS_RULE}, not '0'; {NO_SLOTS}"),
        ("n1 slots=-1", f":4: 'slots=-1': {SLOTS_RULE}, not '-1'"),
        ("n1 slots=4097", f":4: 'slots=4097': {SLOTS_RULE}, not '4097'"),
        ("n1 slots=99999999999", f":4: 'slots=99999999999': {SLOTS_RULE}, not '99999999999'"),
        (f"n1 slots={'9' * 5000}", f":4: 'slots={'9' * 51}...': {SLOTS_RULE}, not '{'9' * 57}...'"),
        ("n1 slots=٣", f":4: 'slots=٣': {SLOTS_RULE}, not '٣'"),
        ("n1 slots=1_0", f":4: 'slots=1_0': {SLOTS_RULE}, not '1_0'"),
        ("n1:0-3", f":1: 'n1:0-3': {SLOTS_RULE}, not '0-3'"),
        ("n1:", f":1: 'n1:': {SLOTS_RULE}, not ''"),
        ("n1 slots = 2", ":4: 'slots = 2': write 'slots=2', without spaces"),
        ("n1 slots= 2", ":4: 'slots= 2': write 'slots=2', without spaces"),
        ("n1 max-slots =2", ":4: 'max-slots =2': write 'max_slots=2', without spaces"),
        ("n1 slots=", ":4: 'slots=': write 'slots=N', without spaces"),
        ("n1 slots", ":4: 'slots': write 'slots=N', without spaces"),
        ("worker-3 slot=8", f":10: 'slot=8': {OPTIONS}"),
        ("n1 8", f":4: '8': {OPTIONS}; write slots=8"),
        ("n1 slots=1 n2", f":12: 'n2': {OPTIONS}; write one host per line"),
        ("n1 user=bob", f":4: 'user=bob': {OPTIONS}; write USER@HOST"),
        ("n1 gpus=2", f":4: 'gpus=2': {OPTIONS}; write slots=N"),
        ("n1 slots=1 slots=2", ":12: 'slots=2': slots is given twice"),
        ("n1:1 slots=1", ":6: 'slots=1': slots is given twice"),
        ("[n1]:22 port=22", ":9: 'port=22': port is given twice"),
        ("n1 max_slots=3 max-slots=3", ":16: 'max-slots=3': max_slots is given twice"),
        ("n1 slots=4 max_slots=2", ": slots=4 is more than max_slots=2"),
        ("n1 maxslots=3 max-slots=3", ":15: 'max-slots=3': max_slots is given twice"),
        ("n1,n2 slots=4", f":1: 'n1,n2': {COMMA}"),
        ("n1, n2", f":1: 'n1,': {COMMA}"),
        ("n1:4,n2:4", f":1: 'n1:4,n2:4': {COMMA}"),
        ("n1 slots=4, port=22", f":4: 'slots=4,': {COMMA}"),
        ("n1 port=0", ":4: 'port=0': port must be a number from 1 to 65535, not '0'"),
        ("[::1]:ssh", ":1: '[::1]:ssh': port must be a number from 1 to 65535, not 'ssh'"),
        ("slots = 2", f":1: 'slots = 2' {NAME_RULE}"),
        ("-oProxyCommand=x slots=1", f":1: '-oProxyCommand=x' {NAME_RULE}"),
        ("me@-oProxyCommand=x", f":1: 'me@-oProxyCommand=x': '-oProxyCommand=x' {NAME_RULE}"),
        ("-lroot@n1", ":1: '-lroot@n1': '-lroot' is not a user name"),
        ("$(id) slots=1", f":1: '$(id)' {NAME_RULE}"),
        ("`id`", f":1: '`id`' {NAME_RULE}"),
        ("a;b slots=1", ":1: 'a;b': no ; in a hostfile; write one host per line"),
        ("../../etc", f":1: '../../etc' {NAME_RULE}"),
        ("..", f":1: '..' {NAME_RULE}"),
        ("h%x", f":1: 'h%x' {NAME_RULE}"),
        ("rechnerä", f":1: 'rechnerä' {NAME_RULE}"),
        (
            "n\x1b]0;x\x07",
            ":1: 'n\\x1b]0;x\\x07': unmatched bracket; expected a pattern such as n[1-4]",
        ),
        ("12", f":1: '12' {NAME_RULE}"),
        ("[1-4]", f":1: '[1-4]': '1-4' {NAME_RULE}"),
        ("h" * 300, f":1: '{'h' * 57}...' {NAME_RULE}"),
        ("@n1", ":1: '@n1': '' is not a user name"),
        ("a@b@n1", ":1: 'a@b@n1': 'a@b' is not a user name"),
        ("me@", f":1: 'me@': '' {NAME_RULE}"),
        ("h:1:2", ":1: 'h:1:2' is neither HOST:N nor an IPv6 address (--ssh_port sets a port)"),
        (
            "fd00::1:29500",
            ":1: 'fd00::1:29500' is neither HOST:N nor an IPv6 address (--ssh_port sets a port);"
            " write [fd00::1]:29500",
        ),
        ("h" * 70, f":1: '{'h' * 57}...' is not a host name: {LABEL_RULE}"),
        (f"n1.{'h' * 64}.org", f":1: 'n1.{'h' * 54}...' is not a host name: {LABEL_RULE}"),
        ("n1..org", f":1: 'n1..org' is not a host name: {LABEL_RULE}"),
        ("n1 slots=0", f":4: 'slots=0': {SLOTS_RULE}, not '0'; {NO_SLOTS}"),
        ("n1:0", f":1: 'n1:0': {SLOTS_RULE}, not '0'; {NO_SLOTS}"),
        ("::1::2", ":1: '::1::2' is neither HOST:N nor an IPv6 address (--ssh_port sets a port)"),
        (
            "fe80::1%$(id)",
            ":1: 'fe80::1%$(id)' is neither HOST:N nor an IPv6 address (--ssh_port sets a port)",
        ),
        (
            "fe80::1%",
            ":1: 'fe80::1%' is neither HOST:N nor an IPv6 address (--ssh_port sets a port)",
        ),
        ("h[1-99999999]", ":1: 'h[1-99999999]': more than 100000 hosts"),
        ("h[1-400]x[1-400]", ":1: 'h[1-400]x[1-400]': more than 100000 hosts"),
        ("h[4-1]", ":1: 'h[4-1]': range '4-1': the first number is larger than the last"),
        ("h[1-", ":1: 'h[1-': unmatched bracket; expected a pattern such as n[1-4]"),
        ("h1]", ":1: 'h1]': unmatched bracket; expected a pattern such as n[1-4]"),
        ("h[1[2]]", ":1: 'h[1[2]]': unmatched bracket; expected a pattern such as n[1-4]"),
        ("h[]", ":1: 'h[]': expected a number or a range such as 0-3, not ''"),
        ("h[a-c]", ":1: 'h[a-c]': expected a number or a range such as 0-3, not 'a-c'"),
        ("h[1,,2]", ":1: 'h[1,,2]': expected a number or a range such as 0-3, not ''"),
        (
            "h[001-16]",
            ":1: 'h[001-16]': range '001-16': the numbers differ in their leading zeros",
        ),
        ("h[1,1]", ":1: 'h[1,1]': names a host twice"),
    ],
)
def test_a_bad_line_says_where_and_what(line: str, message: str) -> None:
    assert fault_of(f"# comment\nok slots=1\n{line}\n".encode()) == f"hosts:3{message}"


@pytest.mark.parametrize(
    ("data", "slots", "times"),
    [
        (b"gpu07\ngpu07\ngpu07\nb\ngpu07\n", 4, 4),
        (b"gpu07 slots=1\nb\nGPU07 slots=1\n", 2, 2),
        (b"gpu07:2\ngpu07 slots=3\nb\n", 5, 2),
        (b"me@gpu07 port=22\nb\nme@gpu07 port=22\n", 2, 2),
        (b"gpu[07-08]\ngpu07\nb\n", 2, 2),
    ],
)
def test_lines_of_one_host_add_up(data: bytes, slots: int, times: int) -> None:
    hosts = parse_hostfile(data, "hosts")
    assert hosts[0].slots == tuple(range(slots))
    assert hosts[0].where == "hosts:1"
    assert [host.times for host in hosts] == [times] + [1] * (len(hosts) - 1)
    shown = f"gpu07 {times} times, {slots} slots"
    line = f"the file lists {shown}: the slots of each host are added up"
    assert repeats(hosts, "the file") == [line]


def test_what_is_told_of_many_hosts_stays_one_line() -> None:
    assert repeats(hosts_of("a\nb"), "x") == []
    assert repeats(parse_hosts("h[1-5],h[1-5]"), "--host") == [
        "--host lists h1 2 times, 2 slots, h2 2 times, 2 slots, h3 2 times, 2 slots,"
        " and 2 more hosts: the slots of each host are added up"
    ]


def test_a_host_has_so_many_slots_at_most_in_all() -> None:
    assert fault_of(b"h slots=4000\nh slots=97\n") == "hosts:2: host 'h' has more than 4096 slots"


@pytest.mark.parametrize("second", ["n1", "me@n1 slots=2", "[n1]:2222 slots=2", "N1", "n[0-1]"])
def test_a_host_listed_twice_names_both_lines(second: str) -> None:
    name = "N1" if second == "N1" else "n1"
    assert fault_of(f"n1 slots=2\n\n{second}\n".encode()) == (
        f"hosts:3: host '{name}' is listed twice (first at hosts:1); "
        "write it once, with all its slots"
    )


@pytest.mark.parametrize("data", [b"", b"\n\n", b"# nothing\r\n", b"\xef\xbb\xbf"])
def test_a_file_without_hosts_is_refused(data: bytes) -> None:
    assert fault_of(data) == "hosts: names no hosts; expected lines such as 'worker-0 slots=8'"


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a\nb\0\n", 2),
        (b"a\nb\nc\xff\n", 3),
        ("a slots=2\n".encode("utf-16"), 1),
        ("a slots=2\n".encode("utf-16-le"), 1),
        ("# \xe9\n".encode("latin-1"), 1),
    ],
)
def test_a_file_that_is_not_text_is_refused(data: bytes, line: int) -> None:
    assert fault_of(data) == f"hosts:{line}: not plain text; save the file as UTF-8"


def test_all_bad_lines_are_told_at_once() -> None:
    assert fault_of(b"a slots=x\nb slots=2\nc d\n").splitlines() == [
        f"hosts:1:3: 'slots=x': {SLOTS_RULE}, not 'x'",
        f"hosts:3:3: 'd': {OPTIONS}; write one host per line",
    ]


def test_ten_bad_lines_are_enough() -> None:
    lines = fault_of(b"$\n" * 30).splitlines()
    assert lines[:10] == [f"hosts:{number}:1: '$' {NAME_RULE}" for number in range(1, 11)]
    assert lines[10:] == ["hosts: 10 bad lines; the rest was not read"]


def test_the_number_of_hosts_has_a_limit() -> None:
    half = MAX_HOSTS // 2
    full = f"a[1-{half}]\nb[1-{half}]\n"
    assert len(hosts_of(full)) == len(expand(f"a[1-{half}]b[1-2]")) == MAX_HOSTS
    assert fault_of(f"{full}c\n".encode()) == "hosts:3: more than 100000 hosts"


def test_the_example_shows_what_it_says() -> None:
    path = CHECKOUT / "hostfile.example"
    hosts = {host.name: host for host in parse_hostfile(path.read_bytes(), path.name)}
    assert len(hosts) == 52
    eight = tuple(range(8))
    assert hosts["mpich-0"].slots == hosts["rack2-node3"].slots == hosts["node07"].slots == eight
    assert hosts["plain-0"].slots is None
    assert [hosts[f"worker-{n}"].port for n in (2, 3, 4)] == [None, 2222, 2222]
    assert hosts["worker-2"].user == "ml"
    assert hosts["2001:db8::7"].port == 2222


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h1:4", [("h1", (0, 1, 2, 3))]),
        ("h1:0-3", [("h1", (0, 1, 2, 3))]),
        ("h2:2-3,h4", [("h2", (2, 3)), ("h4", None)]),
        ("h1:0+2+5", [("h1", (0, 2, 5))]),
        ("h1:5+0-1", [("h1", (5, 0, 1))]),
        ("h1:0-0+4095", [("h1", (0, 4095))]),
        ("h1:GPU-89+MIG-GPU-1f/1/0", [("h1", ("GPU-89", "MIG-GPU-1f/1/0"))]),
        ("h1, h2:1", [("h1", None), ("h2", (0,))]),
        ("h[1-2,4]:1,k", [("h1", (0,)), ("h2", (0,)), ("h4", (0,)), ("k", None)]),
        ("[fe80::1]:2,::1", [("fe80::1", (0, 1)), ("::1", None)]),
        ("[::1]", [("::1", None)]),
        ("h1,h2,h1", [("h1", (0, 1)), ("h2", None)]),
        ("h1:4,h1:2", [("h1", (0, 1, 2, 3, 4, 5))]),
    ],
)
def test_the_host_list(text: str, expected: list[tuple[str, tuple[Slot, ...] | None]]) -> None:
    hosts = parse_hosts(text)
    assert [(host.name, host.slots) for host in hosts] == expected
    assert {host.where for host in hosts} == {"--host"}


def test_a_user_in_the_host_list() -> None:
    assert parse_hosts("me@h:2") == [Host("h", (0, 1), user="me", where="--host")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"'': {NO_ITEM}"),
        ("h,", f"'h,': {NO_ITEM}"),
        ("h,,k", f"'h,,k': {NO_ITEM}"),
        ("h k", "'h k': several hosts are joined by commas: n1,n2"),
        ("h;k", "'h;k': several hosts are joined by commas: n1,n2"),
        ("h slots=4", "'h slots=4': several hosts are joined by commas: n1,n2"),
        ("h=4", "'h=4': the slots of a host are written n1:4"),
        ("h{1..4}", "'h{1..4}': a range is written in square brackets: n[1-4]"),
        ("http://h:22", f"'http://h:22': {URL}"),
        ("ssh://me@h", f"'ssh://me@h': {URL}"),
        ("h:0-3,4", "'4': is not a host name; slots are joined by '+', as in 'h:0-3+5'"),
        ("h:0", f"'h:0': {ZERO_RULE}"),
        ("h:00", f"'h:00': {ZERO_RULE}"),
        (
            "fd00::1:29500",
            "'fd00::1:29500' is neither HOST:N nor an IPv6 address (--ssh_port sets a port);"
            " write [fd00::1]:29500",
        ),
        ("h" * 60 + "1234", f"'{'h' * 57}...' is not a host name: {LABEL_RULE}"),
        ("h:0,4-5", f"'h:0': {ZERO_RULE}"),
        ("h:", f"'h:': {SLOT_RULE}, not ''"),
        ("h:0++1", f"'h:0++1': {SLOT_RULE}, not ''"),
        ("h:x", f"'h:x': {SLOT_RULE}, not 'x'"),
        ("h:3-1", "'h:3-1': range '3-1': the first number is larger than the last"),
        ("h:0-3+2", "'h:0-3+2': slot 2 is listed twice"),
        ("h:4090-4096", "'h:4090-4096': slot 4096: expected at most 4095"),
        ("h:0-99999999", "'h:0-99999999': slot 99999999: expected at most 4095"),
        ("h:5000", f"'h:5000': {SLOTS_RULE}, not '5000'"),
        ("a,a:2", "host 'a' is listed twice; write it once, with all its slots"),
        ("a,-oX", f"'-oX' {NAME_RULE}"),
        ("h[1,2", "'h[1,2': unmatched bracket; expected a pattern such as n[1-4]"),
        ("h:1:2", "'h:1:2' is neither HOST:N nor an IPv6 address (--ssh_port sets a port)"),
        ("[h]x", "'[h]x': expected a number or a range such as 0-3, not 'h'"),
    ],
)
def test_a_bad_host_list_says_what(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_hosts(text)
    assert str(caught.value) == f"--host: {message}"


@pytest.mark.parametrize("slots", [(0,), (0, 1, 2, 5), (3, 1), ("GPU-a", 2, 3, "MIG-b/1"), ()])
def test_shown_slots_read_back(slots: tuple[Slot, ...]) -> None:
    assert (parse_slots(show_slots(slots)) if slots else ()) == slots


def test_shown_slots_are_short() -> None:
    assert show_slots((3, 0, 1, 2, "GPU-a", 7)) == "3,0-2,GPU-a,7"


def test_a_name_without_brackets_stands_for_itself() -> None:
    assert expand("worker-*") == ["worker-*"]


def test_only_usage_errors_whatever_is_written() -> None:
    rng = random.Random(86)
    pieces = ["n", "1", "[", "]", "-", ",", ":", "@", "=", " ", "\t", "slots", "port", "0", "::"]
    pieces += [
        "GPU-a",
        "+",
        "%",
        "#",
        "\n",
        "\r",
        "\0",
        "é",
        "\ufeff",
        "\u2028",
        "$",
        "9" * 20,
        "²",
    ]
    refused = 0
    for _ in range(20_000):
        text = "".join(rng.choices(pieces, k=rng.randrange(1, 12)))
        for parse in (hosts_of, parse_hosts):
            fault = fault_or_none(parse, text)
            refused += fault is not None
            assert fault is None or fault.startswith(("hosts:", "--host:"))
            assert fault is None or all(map(str.isprintable, fault.split("\n")))
    assert 0 < refused < 40_000


def test_only_usage_errors_whatever_the_bytes() -> None:
    rng = random.Random(89)
    for _ in range(2_000):
        data = bytearray(b"\xef\xbb\xbfme@n[1-3]:4 port=22\r\n[::1]:22 slots=2 # x\n")
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        fault = fault_or_none(lambda data: parse_hostfile(data, "hosts"), bytes(data))
        assert fault is None or all(map(str.isprintable, fault.split("\n")))


@pytest.mark.parametrize(
    "data",
    [
        lambda size: b"".join(b"worker-%d slots=8\n" % number for number in range(size)),
        lambda size: b"worker-[0-%d] slots=8\n" % (size - 1),
    ],
    ids=["lines", "range"],
)
def test_thousands_of_hosts_are_read_in_linear_time(data: Callable[[int], bytes]) -> None:
    def read(size: int) -> None:
        assert len(parse_hostfile(data(size), "hosts")) == size

    assert growth(read, 625) < LINEAR


@pytest.mark.parametrize("word", ["a", "[", "[a", " ", "a =", "h[1,2", "=", "@", ":"])
def test_a_long_line_takes_linear_time(word: str) -> None:
    def refuse(size: int) -> None:
        text = word * (size // len(word))
        for parse in (hosts_of, parse_hosts):
            with pytest.raises(UsageError):
                parse(text)

    assert growth(refuse, 20_000) < LINEAR


def test_hosts_may_be_in_blocks() -> None:
    hosts = hosts_of("n[1-2] slots=2 block=b-1.x\nn3 block=b2")
    assert [host.block for host in hosts] == ["b-1.x", "b-1.x", "b2"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("n1 block=a block=b", "hosts:1:12: 'block=b': block is given twice"),
        ("n1 block=", "hosts:1:4: 'block=': block must be a name of letters, digits and . _ -"),
        ("n1 block=a/b", "hosts:1:4: 'block=a/b': block must be a name of letters"),
        ("n1 block=a\nn1 block=b", "hosts:2: host 'n1' is listed twice (first at hosts:1)"),
    ],
)
def test_blocks_that_are_not_valid(line: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        hosts_of(line)
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize("heading", ["[workers]", "[all:children]", " [gpu:vars] # x"])
def test_a_heading_is_no_host(heading: str) -> None:
    with pytest.raises(UsageError, match=r"hosts:1: '\[.*\]' is a heading, as in Ansible's files"):
        parse_hostfile(f"{heading}\nn1\n".encode(), "hosts")
    assert [host.name for host in parse_hostfile(b"[gpu01]\n[a] slots=2\n", "hosts")] == [
        "gpu01",
        "a",
    ]


def test_variables_of_ansible_are_no_slots() -> None:
    with pytest.raises(UsageError, match="Ansible's variables are not read: write USER@ADDRESS"):
        parse_hostfile(b"n1 ansible_host=10.0.0.1\n", "hosts")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts:\n  - n1\n", "looks like YAML; expected one host per line: n1 slots=8"),
        ('{"n1": 4}', "looks like JSON or TOML; expected one host per line"),
        ("[[role]]\nname = 'a'\n", "looks like JSON or TOML; expected one host per line"),
        (
            "Host n1\n  HostName 1.2.3.4\n",
            "looks like an ssh configuration; expected one host per",
        ),
        ("n{1..4}\n", "1:1: 'n{1..4}': a range is written in square brackets: n[1-4]"),
        ("n1..n4\n", "1:1: 'n1..n4': a range is written in square brackets: n[1-4]"),
        ("n1;n2\n", "1:1: 'n1;n2': no ; in a hostfile; write one host per line"),
    ],
)
def test_what_is_another_file_is_told_in_one_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_hostfile(text.encode(), "hosts")
    assert str(caught.value).partition("hosts:")[2].strip().startswith(said)
    assert "\n" not in str(caught.value)
