"""Which variables were read, and which were set."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.preload import node_environment as environment

if TYPE_CHECKING:
    from collections.abc import Callable

READS: dict[str, Callable[[], object]] = {
    "getenv": lambda: os.getenv("READ_NAME"),
    "get": lambda: os.environ.get("READ_NAME"),
    "in": lambda: "READ_NAME" in os.environ,
    "bytes": lambda: os.environb.get(b"READ_NAME"),
    "setdefault": lambda: os.environ.setdefault("READ_NAME", "x"),
    "pop": lambda: os.environ.pop("READ_NAME", None),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("value", [None, "5"])
def test_every_way_to_read_a_variable_is_noted(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], object], value: str | None
) -> None:
    monkeypatch.setenv("READ_NAME", "later restored")
    monkeypatch.delenv("READ_NAME")
    if value:
        monkeypatch.setenv("READ_NAME", value)
    with environment.observed() as names:
        read()
    assert names == {"READ_NAME"}


@pytest.mark.parametrize("everything", [dict, list, lambda one: one.copy(), lambda one: one | {}])
def test_who_goes_through_all_has_read_all(everything: Callable[[object], object]) -> None:
    with environment.observed() as names:
        everything(os.environ)
    assert names == {*os.environ}


def test_setting_is_not_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET_NAME", "1")
    with environment.observed() as names:
        os.environ["SET_NAME"] = "2"
        os.environ.update(SET_NAME="3")
    assert names == set()


def test_the_object_stays_the_same_and_is_the_usual_one_afterwards() -> None:
    before = os.environ
    with environment.observed():
        assert os.environ is before
    assert {type(os.environ), type(os.environb)} == {os._Environ}


def test_values_are_those_of_what_was_read_and_of_what_libraries_read() -> None:
    env = {b"READ": b"caf\xe9", b"OMP_PLACES": b"cores", b"OTHER": b"1"}
    expected = {"ABSENT": None, "OMP_PLACES": "cores", "READ": "caf\udce9"}
    assert environment.values({"READ", "ABSENT"}, env) == expected


def test_changes_are_what_to_set_and_what_to_remove() -> None:
    before = {b"A": b"1", b"B": b"2", b"C": b"3"}
    after = {b"A": b"1", b"B": b"9", b"D": b"4"}
    assert environment.changes(before, after) == {b"B": b"9", b"C": None, b"D": b"4"}


def test_a_process_gets_other_variables_and_the_changes() -> None:
    text = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from dsrun.launcher.features.preload import node_environment as environment
environment.replace({{b"A": b"1", b"B": b"2"}}, {{b"B": None, b"C": b"3", b"D": None}})
print(os.environ, os.environb, flush=True)
os.system("echo $A,$B,$C,$HOME")
"""
    env = {"HOME": "/none", "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, check=True)
    first, second = done.stdout.decode().splitlines()
    assert first == "environ({'A': '1', 'C': '3'}) environ({b'A': b'1', b'C': b'3'})"
    assert second == "1,,3,"


def test_the_initial_variables_are_those_before_python_has_set_one() -> None:
    text = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from dsrun.launcher.features.preload import node_environment as environment
os.environ["X"] = "1"
print(environment.initial())
"""
    env = {"LANG": "C", "A": "caf\udce9=\n"}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, check=True)
    assert done.stdout.decode().strip() == str({b"LANG": b"C", b"A": b"caf\xe9=\n"})


@pytest.mark.parametrize("data", [b"", b"a b", b"\xff\n", "é".encode()])
def test_bytes_travel_as_text(data: bytes) -> None:
    assert environment.data(environment.text(data)) == data


def import_of(name: str, text: str) -> set[str]:
    """Which variables count as read when a module of this name does this."""
    with environment.observed() as names:
        exec(text, {"__name__": name})
    return names


GOES_THROUGH = "import os; [k for k, v in os.environ.items() if k.startswith('TQDM_')]"


def test_a_module_known_to_heed_some_variables_has_read_these(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TQDM_DISABLE", "1")
    assert import_of("tqdm.utils", GOES_THROUGH) == {"TQDM_DISABLE"}
    assert import_of("other.utils", GOES_THROUGH) == {*os.environ}
    assert import_of("fsspec.config", "import os; dict(os.environ)") == set()


def test_one_that_reads_again_in_each_worker_has_read_none() -> None:
    text = "import os; os.environ.get('RANK')"
    assert import_of("torchmetrics.utilities.prints", text) == set()
    assert import_of("torchmetrics.utilities", text) == {"RANK"}
