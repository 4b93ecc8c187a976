"""What is sent to the workers of a function."""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.api import payload
from dsrun.launcher.api.errors import LaunchError
from dsrun.launcher.api.payload import payload_of

from ..support.checkout import IMPORTABLE

if TYPE_CHECKING:
    from pathlib import Path


def test_a_payload_says_which_python_sends_it_and_has_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    sent = base64.b64decode(payload_of(int, ("10",), {"base": 2}))
    head, _, body = sent.partition(b"\n")
    said = json.loads(head)
    assert said["python"] == list(sys.version_info[:2])
    assert said["path"][0] == str(tmp_path)
    assert not any("site-packages" in one for one in said["path"])
    function, args, kwargs = pickle.loads(body)
    assert function(*args, **kwargs) == 2


@pytest.mark.parametrize(
    ("args", "kwargs", "where"),
    [
        ((1, threading.Lock()), {}, "argument 1"),
        ((), {"model": [threading.Lock()]}, "argument model[0]"),
    ],
)
def test_what_cannot_be_pickled_is_named(
    args: tuple[object, ...], kwargs: dict[str, object], where: str
) -> None:
    with pytest.raises(LaunchError) as caught:
        payload_of(print, args, kwargs)
    words = f"{where} cannot be sent to the nodes: cannot pickle '_thread.lock' object"
    assert str(caught.value) == words
    assert caught.value.exit_code == 2


def test_a_payload_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "LIMIT", 1000)
    with pytest.raises(LaunchError, match=r"^print: its arguments and .* are \d+ bytes") as caught:
        payload_of(print, (b"x" * 2000,), {})
    assert "more than 1000; have the ranks read large data from files" in str(caught.value)


def test_without_cloudpickle() -> None:
    text = """
        import sys
        sys.modules["cloudpickle"] = None
        from dsrun.launcher.api import LaunchError, launch
        try:
            launch(print, hosts="localhost")
        except LaunchError as error:
            print(error)
    """
    command = [sys.executable, "-c", "\n".join(line[8:] for line in text.split("\n"))]
    ran = subprocess.run(command, env=IMPORTABLE, capture_output=True, text=True, check=True)
    assert "cloudpickle, which sends functions, is not installed" in ran.stdout
