"""Text from elsewhere among our own words."""

from __future__ import annotations

import pytest

from dsrun.launcher.common.text import one_line, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc é 漢 \u200e", "a\tb\nc é 漢 \u200e"),
        ("\x1b[31mred\x1b[0m \x1b[2J", r"red \x1b[2J"),
        ("\x9b2J\x85\x7f\x07\r\0", r"\x9b2J\x85\x7f\x07\x0d\x00"),
        # Bytes that were no UTF-8 (PEP 383); two of them could make a control again.
        ("\udc9b2J\udcc2\udc9d0;\udce9", r"\x9b2J\xc2\x9d0;\xe9"),
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
