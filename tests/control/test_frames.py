"""Frames, cut out of a stream of bytes."""

from __future__ import annotations

import ast
import io
import random
import re
from itertools import pairwise
from pathlib import Path

import pytest

from dsrun.launcher.control import frames

from ..support.checkout import CHECKOUT


def test_frames_cut_anywhere_come_out_the_same() -> None:
    chance = random.Random(5)
    sent = [(chance.randrange(256), chance.randbytes(chance.choice([0, 1, 9]))) for _ in range(60)]
    stream = b"".join(frames.pack(kind, body) for kind, body in sent)
    for _ in range(200):
        decoder = frames.Decoder()
        got = []
        at = 0
        while at < len(stream):
            step = chance.randrange(1, 40)
            got += decoder.feed(stream[at : at + step])
            at += step
        assert got == sent


def test_a_frame_is_kind_length_body() -> None:
    assert frames.pack(7, b"ab") == b"\x07\x00\x00\x00\x02ab"
    assert frames.pack_json(1, {"a": [1, None], "b": "é"}) == (
        b'\x01\x00\x00\x00\x1f{"a":[1,null],"b":"\\u00e9"}'[:1]
        + len(b'{"a":[1,null],"b":"\\u00e9"}').to_bytes(4, "big")
        + b'{"a":[1,null],"b":"\\u00e9"}'
    )


def test_a_frame_above_the_limit_is_refused_before_it_has_come() -> None:
    decoder = frames.Decoder(limit=8)
    assert decoder.feed(frames.pack(1, b"12345678")) == [(1, b"12345678")]
    with pytest.raises(frames.BadFrame, match=r"^a frame of 9 bytes \(limit 8\)$"):
        decoder.feed(frames.pack(1, b"123456789")[:5])
    with pytest.raises(frames.BadFrame, match="a frame of 4294967295 bytes"):
        frames.Decoder().feed(b"\x01\xff\xff\xff\xff")


def test_output_frames() -> None:
    for rank, stream, data in [(0, 1, b""), (2**32 - 1, 2, b"\x00\n\xff")]:
        ((kind, body),) = frames.Decoder().feed(frames.pack_output(rank, stream, data))
        assert kind == frames.OUTPUT
        assert frames.unpack_output(body) == (rank, stream, data)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "OUTPUT is too short"),
        (b"\0\0\0\0", "OUTPUT is too short"),
        (b"\0\0\0\0\0", "unknown stream 0"),
        (b"\0\0\0\0\4x", "unknown stream 4"),
    ],
)
def test_bad_output_frames(body: bytes, message: str) -> None:
    with pytest.raises(frames.BadFrame, match=f"^{message}$"):
        frames.unpack_output(body)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'"x"', b"null", b"\xff\xfe\xff", b"[" * 200_000, b"\x80\x04K\x01."]
)
def test_what_is_no_json_object(body: bytes) -> None:
    with pytest.raises(frames.BadFrame, match=r"^(not (a )?JSON|nested too deeply)"):
        frames.unpack_json(body)


@pytest.mark.parametrize("body", [b"", b"soon", b"nan", b"inf", b"\xff", b"1 2"])
def test_a_beat_that_carries_no_clock(body: bytes) -> None:
    with pytest.raises(frames.BadFrame, match=r"^not a clock reading$"):
        frames.unpack_beat(body)


def test_a_beat_carries_the_very_clock() -> None:
    assert frames.Decoder().feed(frames.pack_beat(0.1 + 0.2)) == [
        (frames.BEAT, b"0.30000000000000004")
    ]
    assert frames.unpack_beat(b"0.30000000000000004") == 0.1 + 0.2


def kinds_of_the_module() -> list[tuple[int, str]]:
    """Every kind as it stands in the source, where a name that is given twice is seen twice.

    A kind is a number without a docstring, which constants of other kinds have.
    """
    body = ast.parse(Path(frames.__file__).read_text(encoding="utf-8")).body
    return [
        (one.value.value, name.id)
        for one, after in pairwise(body)
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)
        if type(one.value.value) is int and not isinstance(after, ast.Expr)
        for name in one.targets
        if isinstance(name, ast.Name)
    ]


def test_every_kind_has_one_number_and_one_name_which_the_page_of_frames_tells() -> None:
    kinds = kinds_of_the_module()
    numbers, names = zip(*kinds, strict=True)
    assert (len(set(numbers)), len(set(names))) == (len(kinds), len(kinds))
    page = (CHECKOUT / "docs" / "frames.md").read_text(encoding="utf-8")
    told = re.findall(r"(?<=\| )(\d+) ([A-Z_]+)(?= \|)", page)
    assert {*kinds} == {(int(number), name) for number, name in told}


# -- messages -----------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"\0" * 7, b"\0" * 9])
def test_what_is_no_count(body: bytes) -> None:
    with pytest.raises(frames.BadFrame, match=r"^not a count$"):
        frames.unpack_credit(body)
    assert frames.unpack_credit(frames.pack_credit(frames.INPUT_ACK, 1 << 40)[5:]) == 1 << 40


@pytest.mark.parametrize("body", [b"", b"\x0f\x0f"])
def test_what_is_no_signal(body: bytes) -> None:
    with pytest.raises(frames.BadFrame, match=r"^not a signal$"):
        frames.unpack_signal(body)
    assert frames.unpack_signal(b"\x0f") == 15


def test_questions_and_answers_come_back() -> None:
    ((kind, body),) = frames.Decoder().feed(frames.pack_shard_request(7, 3, 12, b"{}"))
    assert (kind, frames.unpack_shard_request(body)) == (frames.SHARD_REQUEST, (7, 3, 12, b"{}"))
    ((kind, body),) = frames.Decoder().feed(frames.pack_shard_answer(12, b"{}"))
    assert (kind, frames.unpack_shard_answer(body)) == (frames.SHARD_ANSWER, (12, b"{}"))


def test_an_empty_question_ends_a_line_and_a_short_one_is_refused() -> None:
    assert frames.unpack_shard_request(bytes(12)) == (0, 0, 0, b"")
    assert frames.unpack_shard_answer(bytes(4)) == (0, b"")
    with pytest.raises(frames.BadFrame, match=r"^SHARD_REQUEST is too short$"):
        frames.unpack_shard_request(bytes(11))
    with pytest.raises(frames.BadFrame, match=r"^SHARD_ANSWER is too short$"):
        frames.unpack_shard_answer(bytes(3))


def test_numbers_that_take_long_to_read_are_refused() -> None:
    most = 10 ** (frames.DIGITS - 1)
    assert frames.unpack_json(b'{"a": %d}' % most) == {"a": most}
    with pytest.raises(frames.BadFrame, match="a number with 21 digits"):
        frames.unpack_json(b'{"a": %d}' % (most * 10))
    for name in (b"NaN", b"Infinity", b"-Infinity"):
        with pytest.raises(frames.BadFrame, match=f"^{name.decode()} is not a number$"):
            frames.unpack_json(b'{"a": %s}' % name)


def test_a_clock_has_bounds() -> None:
    below = float(frames.MOST) / 2
    assert frames.unpack_beat(repr(below).encode()) == below
    assert frames.unpack_beat(repr(-below).encode()) == -below
    for beyond in (float(frames.MOST), -float(frames.MOST)):
        with pytest.raises(frames.BadFrame, match=r"^not a clock reading$"):
            frames.unpack_beat(repr(beyond).encode())


def test_the_limits() -> None:
    mib = 1 << 20
    assert (64 * mib, 4 * mib) == (frames.FRAME_LIMIT, frames.NODE_LIMIT)
    assert (frames.NOISE_LIMIT, frames.AUTH_LIMIT) == (1 << 16, 1 << 12)
    assert (frames.MOST, frames.DIGITS) == (2**62, 20)
    assert frames.Decoder().limit == frames.FRAME_LIMIT


def test_a_decoder_keeps_nothing_that_it_has_given_out() -> None:
    decoder = frames.Decoder()
    whole = frames.pack(1, b"abc")
    assert decoder.feed(whole + whole[:6]) == [(1, b"abc")]
    assert decoder.feed(whole[6:]) == [(1, b"abc")]
    assert decoder.feed(b"") == []
    assert decoder.feed(frames.pack(2)) == [(2, b"")]


def test_one_frame_is_read_and_nothing_behind_it() -> None:
    sent = io.BytesIO(frames.pack(frames.NOTE, b"first") + frames.pack(frames.BEAT))
    assert frames.read_one(sent.read) == (frames.NOTE, b"first")
    assert frames.read_one(sent.read) == (frames.BEAT, b"")


@pytest.mark.parametrize(
    "data", [b"", b"\1\0\0", b"\1\xff\xff\xff\xff", frames.pack(1, b"body")[:-1]]
)
def test_what_is_no_whole_frame(data: bytes) -> None:
    with pytest.raises(frames.BadFrame, match=r"^not "):
        frames.read_one(io.BytesIO(data).read)
