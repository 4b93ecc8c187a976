"""World info: there and back, DeepSpeed's own strings, and damage of all kinds."""

import base64
import json
import random
import subprocess
import sys
import textwrap
import tracemalloc
import zlib

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.head.run.start_message import world_of
from dsrun.launcher.resources.world_info import decode
from dsrun.launcher.specs.host import Host, Slot
from dsrun.launcher.specs.plan import Plan, by_task, encode_world, lay_out
from dsrun.launcher.specs.program import Program

from ..support.checkout import CHECKOUT
from ..support.cost import LINEAR, TIMES, growth

ARGUMENT_LIMIT = 131_071
WORLD: dict[str, tuple[Slot, ...]] = {"worker-1": (3, 1), "fe80::1%eth0": (0,), "a": ("GPU-8f", 2)}


def word(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def zipped(data: bytes) -> str:
    return "z." + word(zlib.compress(data))


def fault_or_none(text: str) -> str | None:
    try:
        assert all(decode(text).values())
    except UsageError as fault:
        return str(fault)
    return None


def test_there_and_back_in_order() -> None:
    assert list(decode(encode_world(WORLD)).items()) == list(WORLD.items())
    assert decode(f"{encode_world(WORLD)}\n") == WORLD


def test_a_plain_word_is_what_deepspeed_would_read() -> None:
    text = encode_world({"worker-0": (0, 1), "worker-1": (2,)})
    assert json.loads(base64.urlsafe_b64decode(text)) == {"worker-0": [0, 1], "worker-1": [2]}


@pytest.mark.parametrize(
    ("text", "world"),
    [
        ("eyJ3b3JrZXItMCI6IFswLCAxXSwgIndvcmtlci0xIjogWzAsIDFdfQ==", ("worker-0", "worker-1")),
        ("eyJsb2NhbGhvc3QiOiBbMCwgMV19", ("localhost",)),
    ],
)
def test_strings_as_deepspeed_writes_them(text: str, world: tuple[str, ...]) -> None:
    assert decode(text) == dict.fromkeys(world, (0, 1))


def test_a_large_world_is_compressed_and_fits_an_argument() -> None:
    world = {f"worker-{number}": tuple(range(8)) for number in range(10_000)}
    text = encode_world(world)
    assert text.startswith("z.")
    assert len(text) < ARGUMENT_LIMIT
    assert decode(text) == world


@pytest.mark.parametrize("hosts", [1, 100, 2_000])
def test_only_large_worlds_are_compressed(hosts: int) -> None:
    text = encode_world({f"worker-{number}": tuple(range(8)) for number in range(hosts)})
    assert text.startswith("z.") == (hosts == 2_000)
    assert len(text) <= 64 * 1024


JSON_FAULT = "damaged: it does not contain JSON"
SHAPE_FAULT = "expected {host: [device, ...], ...} with at least one host"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("hello world", "'hello world' is cut short or is not base64"),
        ("eyJhIjpbMF19\x1b", "'eyJhIjpbMF19\\x1b' is cut short or is not base64"),
        ("\udcff", "'\\udcff' is cut short or is not base64"),
        (word(b'{"a":[0]}')[:-1], "'eyJhIjpbMF1' is cut short or is not base64"),
        (word(b'{"a":[0]}')[:-4], JSON_FAULT),
        (word(b"\xff\xfe{"), JSON_FAULT),
        (word(b"[" * 100_000), JSON_FAULT),
        (word(b"[]"), SHAPE_FAULT),
        (word(b"{}"), SHAPE_FAULT),
        (word(b"3"), SHAPE_FAULT),
        (word(b"null"), SHAPE_FAULT),
        (word(b'{"a":{"b":[0]}}'), "host 'a' needs a list of at least one device"),
        (word(b'{"a":[]}'), "host 'a' needs a list of at least one device"),
        (word(b'{"a":3}'), "host 'a' needs a list of at least one device"),
        (word(b'{"a":[0],"a":[1]}'), "host 'a' is listed twice"),
        (word(b'{"a":[0,1,0]}'), "host 'a': slot 0 is listed twice"),
        (word(b'{"a":[-1]}'), "host 'a': expected device indices or ids, not '-1'"),
        (word(b'{"a":[4096]}'), "host 'a': expected device indices or ids, not '4096'"),
        (word(b'{"a":[true]}'), "host 'a': expected device indices or ids, not 'True'"),
        (word(b'{"a":[0.5]}'), "host 'a': expected device indices or ids, not '0.5'"),
        (word(b'{"a":[NaN]}'), "damaged: it does not contain JSON"),
        (word(b'{"a":["3"]}'), "host 'a': expected device indices or ids, not '3'"),
        (word(b'{"a":["0,1"]}'), "host 'a': expected device indices or ids, not '0,1'"),
        (word(b'{"a":[[0]]}'), "host 'a': expected device indices or ids, not list"),
        (word(b'{"a":[null]}'), "host 'a': expected device indices or ids, not NoneType"),
        (word(b'{"":[0]}'), "'' is not a host name"),
        (word(b'{"a b":[0]}'), "'a b' is not a host name"),
        (word(b'{"\\u001b[m":[0]}'), "'\\x1b[m' is not a host name"),
        ("z.", "damaged: it is cut short, or has trailing data"),
        ("z." + word(b"not compressed"), "damaged: it cannot be decompressed"),
        (
            "z." + word(zlib.compress(b"{}")[:-3]),
            "damaged: it is cut short, or has trailing data",
        ),
        (
            "z." + word(zlib.compress(b"{}") + b"x"),
            "damaged: it is cut short, or has trailing data",
        ),
        (zipped(b"{}"), SHAPE_FAULT),
    ],
)
def test_a_bad_word_is_refused_in_one_line(text: str, message: str) -> None:
    assert fault_or_none(text) == f"world_info: {message}"


def test_too_long_a_word_is_refused_unread() -> None:
    assert fault_or_none("A" * (90 * 1024 * 1024)) == "world_info: longer than 64 MiB"


def test_a_compressed_bomb_is_not_unpacked() -> None:
    # A flushed deflate block stands alone, so a thousand copies of one unpack to 1 GiB.
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = squeeze.compress(b" " * (1 << 20)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    bomb = b"\x78\x9c" + block * 1024
    tracemalloc.start()
    try:
        assert fault_or_none("z." + word(bomb)) == "world_info: longer than 64 MiB"
        assert tracemalloc.get_traced_memory()[1] < 200 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_ten_megabytes_of_nonsense_are_refused_in_linear_time() -> None:
    def refuse(size: int) -> None:
        assert fault_or_none("A" * size) == f"world_info: {JSON_FAULT}"

    assert growth(refuse, (10 << 20) // TIMES) < LINEAR


@pytest.mark.parametrize("large", [False, True], ids=["plain", "compressed"])
def test_damage_is_never_more_than_a_usage_error(large: bool) -> None:
    rng = random.Random(99)
    world = {f"w{number}": (0, 1, f"GPU-{number}") for number in range(4_000 if large else 3)}
    text = encode_world(world)
    assert text.startswith("z.") == large
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=.\n\0é"
    refused = 0
    rounds = 300 if large else 5_000
    for _ in range(rounds):
        start, end = sorted(rng.choices(range(len(text)), k=2))
        stop = rng.choice((start, start + 1, end))
        bad = text[:start] + rng.choice(letters) * rng.randrange(3) + text[stop:]
        fault = fault_or_none(bad)
        refused += fault is not None
        assert not fault or fault.isprintable()
    assert refused > rounds // 2


def test_only_usage_errors_whatever_json_it_holds() -> None:
    rng = random.Random(15)
    pieces = ['{"a":', "[", "]", "}", "0", "1", ",", '"GPU-a"', "null", "1e400", ":", '"', "-", " "]
    for _ in range(10_000):
        text = '{"a":[' + "".join(rng.choices(pieces, k=rng.randrange(6))) + "]}"
        wrap = rng.choice((word, zipped))
        fault = fault_or_none(wrap(text.encode()))
        assert fault is None or fault.startswith("world_info: ")


@pytest.mark.parametrize("count", [2, 3000])
def test_the_decoder_that_the_docs_show_reads_what_workers_are_given(count: int) -> None:
    plan = Plan(
        lay_out([Host(f"w{at}", (0, 1)) for at in range(count)]), Program("x"), "ssh", "m", 1
    )
    docs = CHECKOUT / "docs" / "environment.md"
    shown = docs.read_text(encoding="utf-8").partition("    import base64, json, os, zlib\n")[2]
    code = textwrap.dedent(shown.partition("\n\nThe defaults")[0])
    told = world_of(plan)
    assert told.startswith("z.") is (count > 1000)
    done = subprocess.run(
        [sys.executable, "-c", f"import base64, json, os, zlib\n{code}\nprint(json.dumps(world))"],
        env={"DSRUN_WORLD_INFO": told}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {f"w{at}": [0, 1] for at in range(count)}


def test_ranks_that_an_engine_starts_are_told_of_whole_hosts() -> None:
    plan = Plan(lay_out([Host("a", (0, 2)), Host("b", (1,))]), Program("x"), "slurm", "m", 1)
    assert decode(world_of(by_task(plan))) == {"a": (0, 2), "b": (1,)}
