"""dsrun-job stacks against jobs that a test serves."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common import entry
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import local
from dsrun.launcher.features.jobs import command
from dsrun.launcher.features.stacks import runner_view_messages as view_messages

from ...support import schemas
from ...support.local_control import serving
from ...support.own_names import own_names
from ...support.stacks import LOAD, ranks, view

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["own_names"]

pytestmark = pytest.mark.usefixtures("own_names")

VIEWS = ranks(view(0), view(1), view(2, LOAD))
SENTENCE = "ranks 0-1 wait in all_reduce (train.py:41); rank 2 (n1) is in load_batch (data.py:88)"


@contextmanager
def job(asked: list[dict[str, Any]], refusal: str = "") -> Iterator[str]:
    """Serve a job with three ranks; yield its name."""

    def stacks(caller: Any, request: dict[str, Any], _fds: Any) -> dict[str, Any]:
        asked.append(request)
        if refusal:
            raise UsageError(refusal)
        view_messages.send(caller, VIEWS.values())
        return {}

    with serving({"stacks": stacks}, local.JOB) as server:
        yield server.name


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = entry.main(command.run, ["stacks", *words])
    return (code, *capfd.readouterr())


def test_text(capfd: pytest.CaptureFixture[str]) -> None:
    asked: list[dict[str, Any]] = []
    with job(asked) as name:
        code, out, err = run(capfd, name)
        whole = run(capfd, name, "--all_threads", "--native", "--save", "--ranks", "0,1-2")[1]
    assert [code, err] == [0, ""]
    assert out.splitlines()[0] == SENTENCE
    assert "wrapper" not in out
    assert "wrapper" in whole
    how = [{name: one[name] for name in ("ranks", "native", "save")} for one in asked]
    assert how == [
        {"ranks": [], "native": False, "save": False},
        {"ranks": [0, 1, 2], "native": True, "save": True},
    ]


def test_json(capfd: pytest.CaptureFixture[str]) -> None:
    with job([]) as name:
        code, out, _ = run(capfd, name, "--json")
    told = json.loads(out)
    assert schemas.faults("stacks", told) == []
    assert [code, told["job_id"], told["sentence"], told["odd"]] == [0, name, SENTENCE, [2]]


def test_a_refusal_names_the_job(capfd: pytest.CaptureFixture[str]) -> None:
    with job([], "no worker is running: the job is starting") as name:
        code, out, err = run(capfd, name)
    text = f"dsrun: dsrun-job: job {name}: no worker is running: the job is starting\n"
    assert [code, out, err] == [2, "", text]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--ranks", "x"), "--ranks 'x': expected ranks such as 0,8-15"),
        (("--follow",), "--follow: not with stacks, only with logs"),
        (("--native=3",), "--native"),
    ],
)
def test_words_that_are_not_valid(
    capfd: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    with job([]) as name:
        code, _, err = run(capfd, name, *words)
    assert code == 2
    assert text in err
