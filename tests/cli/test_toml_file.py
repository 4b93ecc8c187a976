"""Options in TOML files: values, and lines."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.cli import toml_file
from dsrun.launcher.common.errors import UsageError

from ..support.cost import calls
from ..support.properties import same_examples

TEXT = """\
top = 1
[default]
grace = 3

[[role]]
name = "a"
[role.env]
A = "1"

[[ role ]]
"name" = "b"
"""


def test_every_key_has_its_line() -> None:
    _, lines = toml_file.read("x.toml", TEXT.encode())
    keys = [("top",), ("default", "grace"), ("role", "0"), ("role", "0", "env", "A")]
    assert [toml_file.line(lines, key) for key in keys] == [1, 3, 5, 8]
    assert toml_file.line(lines, ("role", "1", "name")) == 11
    assert toml_file.line(lines, ("role", "1", "ends")) == 10, "that of its table"
    assert toml_file.line(lines, ("other",)) == 1


def test_what_is_no_toml_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"x\.toml:2: b has no value; give it one"):
        toml_file.read("x.toml", b"a = 1\nb = \n")


@pytest.mark.parametrize(
    "data", [b"a = 1\n# \xff", b"a = 1\nb = '\0'", "a = 1\n# é".encode("latin-1")]
)
def test_what_is_no_text_is_refused_with_its_line(data: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        toml_file.read("x.toml", data)
    assert str(caught.value) == "x.toml:2: not plain text; save the file as UTF-8"


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    document, lines = toml_file.read("x.toml", b"\xef\xbb\xbf[a]\r\nb = 1\r\n")
    assert document == {"a": {"b": 1}}
    assert lines["a", "b"] == 2


def test_a_file_decides_which_options_it_takes() -> None:
    def unfit(row: object) -> str:
        return "" if row is not None else "no"

    found = toml_file.setting("x:1", "nodes", 2, unfit, {"nodes": "num_nodes"})
    assert (found.name, found.key, found.value) == ("num_nodes", "nodes", 2)
    with pytest.raises(UsageError, match="x:1: grace: not here"):
        toml_file.setting("x:1", "grace", 2, lambda _: "not here")
    with pytest.raises(UsageError, match=r"x:1: nods: unknown option \(did you mean nodes\?\)"):
        toml_file.setting("x:1", "nods", 2, unfit, {"nodes": "num_nodes"})


DOTS = ".".join("a" * 66)
"""A key with more dots than a line may have."""


@pytest.mark.parametrize(
    "text",
    [
        f"{'.'.join('a' * 65)} = 1",
        f"a = [{', '.join(['0.5'] * 64)}]",
        f"a = '{DOTS}' # {DOTS}",
        f'"{DOTS}" = "{DOTS}\\"{DOTS}"',
        f'a = """{DOTS}\n{DOTS}\\""" {DOTS}"""""',
        f"a = '{DOTS}\"'\nb = '''{DOTS}''{DOTS}'''''",
        "\n".join(f"a.b{at} = 1" for at in range(100)),
        f"a = {'[' * 64}{']' * 64}",
        f"a = '{'[' * 99}' # {'[' * 99}",
        "\n".join(f"[a{at}]" for at in range(100)),
        f"a = 0x{'f' * 254}",
        f"{'a' * 256} = '{'b' * 999}'",
    ],
)
def test_what_costs_little_is_read(text: str) -> None:
    assert toml_file.read("x.toml", text.encode())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"\n{DOTS} = 1", "2: more than 64 dots on a line outside quotes"),
        (f"[{DOTS}]", "1: more than 64 dots"),
        (".".join(['"a.b"'] * 66) + " = 1", "1: more than 64 dots"),
        (f"a = {{ {DOTS} = 1 }}", "1: more than 64 dots"),
        (f"a = 1 # '\n'#' = 1\nb = '#'\n{DOTS} = 1", "4: more than 64 dots"),
        (f'a = """\n"""\nb = ["""""""", {{ {DOTS} = 1 }}]', "3: more than 64 dots"),
        (f"a = ['''b''''', {{ {DOTS} = 1 }}]", "1: more than 64 dots"),
        (f'a = ["\\\\", {{ {DOTS} = 1 }}]', "1: more than 64 dots"),
        (f"a = {'[' * 65}", "1: more than 64 nested brackets"),
        (f"a = {'[{a=' * 33}", "1: more than 64 nested brackets"),
        ("a = [\n" + '["]",\n' * 99, "65: more than 64 nested brackets"),
        (f"a = {'9' * 257}", "1: more than 256 characters in an unquoted word"),
        (f"a = 0x{'f' * 255}", "1: more than 256 characters"),
        (f"{'a' * 257} = 1", "1: more than 256 characters"),
    ],
)
def test_what_costs_much_is_refused_before_it_is_read(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=rf"^x\.toml:{why}"):
        toml_file.read("x.toml", text.encode())


@pytest.mark.parametrize(
    "part",
    [
        *('"""\n\\', '\\"""\n', '"', "'", "'''", "#", "\\", "a", "a.b=1\n", "[a]\n", "[[a]]\n"),
        *(" ", '["\\u0061".b]\n', "a=[\n", "a={b=1},\n", "\r\n", ".\n", "]", "a=1e1\n"),
    ],
)
def test_the_cost_is_in_proportion_to_the_size(part: str) -> None:
    def costs(size: int) -> int:
        def work() -> None:
            with suppress(UsageError):
                toml_file.read("x.toml", (part * (size // len(part))).encode())

        return calls(work)

    costs(1000)  # imports
    assert costs(8_000) < 10 * max(costs(2_000), 1000)


@given(st.binary(max_size=80) | st.text("ab.=[]{}\"'\\\n# ,1-", max_size=120).map(str.encode))
@same_examples
def test_any_bytes_are_toml_or_refused(data: bytes) -> None:
    with suppress(UsageError):
        document, lines = toml_file.read("x.toml", data)
        assert all(toml_file.line(lines, (key,)) > 0 for key in document)


def test_a_key_without_a_line_of_its_own_has_that_of_what_is_around_it() -> None:
    _, lines = toml_file.read("x.toml", b'a = 1\n[b."c"]\nd.e = 1\n')
    keys = [("b",), ("b", "x"), ("b", "c", "d"), ("b", "c", "d", "e"), ("b", "c", "f")]
    assert [toml_file.line(lines, key) for key in keys] == [2, 2, 3, 3, 2]


def test_what_cannot_be_printed_is_escaped_in_errors() -> None:
    with pytest.raises(UsageError, match=r"^x:1: a\\nb\\x1b: unknown option; see"):
        toml_file.setting("x:1", "a\nb\x1b", 2, lambda _: "")
