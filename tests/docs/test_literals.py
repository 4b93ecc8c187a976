"""Which strings of a module the collector looks at."""

from __future__ import annotations

import ast

import pytest

from docs.generate.literals import literals, placeholder, template


def found(source: str) -> list[str]:
    return [template(one) for one in literals(ast.parse(source))]


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("raise NodeError('no such host')", ["no such host"]),
        ("x = 'two ' 'parts'", ["two parts"]),
        ("x = f'two ' f'{a} parts'", ["two {a} parts"]),
        ("TABLE = {'a key': ('a row', 'of words')}", ["a key", "a row", "of words"]),
        ("def f(x: 'a type', y='a default') -> 'a type': ...", ["a default"]),
        ("x = f'{a if b else \"other words\"}: it'", ["{a}: it", "other words"]),
        ("x = f'{a:>{width}} and {b!r}'", ["{a} and {b}"]),
        ("words = ['no option', 'a list']", ["no option", "a list"]),
        ("notes = ['--host: none left', 'a list']", ["--host: none left", "a list"]),
    ],
)
def test_strings_for_a_person_are_found_once(source: str, texts: list[str]) -> None:
    assert found(source) == texts


@pytest.mark.parametrize(
    "source",
    [
        "'a module docstring'",
        "class A:\n    x = 1\n    'what x is'",
        "def f():\n    'a docstring'",
        "x: 'a type'",
        "if TYPE_CHECKING:\n    x = 'a type'",
        "text == 'some words'",
        "'some words' in text",
        "f'some {words}' != text",
        "table['some words']",
        "match x:\n    case 'some words': pass",
        "re.compile('some words')",
        "line.startswith(('some words', 'other words'))",
        "getattr(x, 'some words', None)",
        "name = option(1, 'some words', help='of help')",
        "NAMES = 'some words'.split()",
        "argv = ['ssh', '-o', 'some words']",
        "argv = ('srun', f'--nodes={n}', 'some words', *more)",
    ],
)
def test_strings_for_a_machine_are_not(source: str) -> None:
    assert found(source) == []


def test_what_is_called_with_words_is_looked_at_still() -> None:
    assert found("text('some words').startswith('other words')") == ["some words"]


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("host", "host"),
        ("self._host", "host"),
        ("', '.join(hosts)", "hosts"),
        ("reason(error)", "error"),
        ("self.name()", "name"),
        ("hosts[0]", "hosts"),
        ("a if b else c", "a"),
        ("a or b", "a"),
        ("seconds / 60", "seconds"),
        ("join(x for x in names)", "names"),
        ("f(*names)", "names"),
        ("a + b", "a"),
        ("{}", "value"),
        ("_", "value"),
    ],
)
def test_a_placeholder_is_named_for_its_value(expression: str, name: str) -> None:
    assert placeholder(ast.parse(expression, mode="eval").body) == name
