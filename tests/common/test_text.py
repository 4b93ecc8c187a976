"""Text from elsewhere among our own words."""

from __future__ import annotations

import json

import pytest

from dsrun.launcher.common.text import DEPTH, one_line, plain, read_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc é 漢 \u200e", "a\tb\nc é 漢 \u200e"),
        ("\x1b[31mred\x1b[0m \x1b[2J", r"red \x1b[2J"),
        ("\x9b2J\x85\x7f\x07\r\0", r"\x9b2J\x85\x7f\x07\x0d\x00"),
        # Bytes that were no UTF-8 (PEP 383); two of them could make a control again.
        ("\udc9b2J\udcc2\udc9d0;\udce9", r"\x9b2J\xc2\x9d0;\xe9"),
        ("\ud800\udcff\udfff", r"\ud800\xff\udfff"),
        ("\u202a\u202e\u2066\u2069\u202f\u2065", "\\u202a\\u202e\\u2066\\u2069\u202f\u2065"),
    ],
)
def test_foreign_text_among_our_own_is_spelled_out(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert plain(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/a b/é漢.toml", "/a b/é漢.toml"),
        ("a\nb\tc\r\x1b[2J\x7f\x9b", r"a\nb\tc\r\x1b[2J\x7f\x9b"),
        ("\u202e\u2028\u200b\udcff", r"\u202e\u2028\u200b\udcff"),
    ],
)
def test_what_a_message_quotes_is_on_one_line(text: str, shown: str) -> None:
    assert one_line(text) == shown
    assert one_line(shown) == shown


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"\xff", b"nan", b"NaN", b"[Infinity]", b'{"a": -Infinity}', b"1e999"),
        *(b"-1e999", b"1" * 21, b"0." + b"1" * 100_000, b"1" * 100_000 + b".0"),
        *(b"[" * 200_000, b'{"a":' * 200_000, b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1)),
        b'{"a":' * 900 + b"1" + b"}" * 900,
    ],
)
def test_json_that_could_fail_later_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as found:
        read_json(data)
    assert len(str(found.value)) < 200


def test_json_as_dsrun_writes_it_is_read() -> None:
    value = {"a": [1, -2.5, True, None, "\ud83d\ude00 \udcff"], "b": 10**19}
    assert read_json(json.dumps(value)) == {
        **value,
        "a": [1, -2.5, True, None, "\U0001f600 \udcff"],
    }
    assert read_json(bytearray(b"[" * DEPTH + b"]" * DEPTH)) is not None
    assert read_json(b'{"a": 1, "a": 2}', lambda pairs: {"pairs": len(pairs)}) == {"pairs": 2}
