"""Jobs as JSON values: every job comes back as it was, and nothing else does."""

from __future__ import annotations

import copy
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import frames
from dsrun.launcher.planning import rendezvous
from dsrun.launcher.planning.job import job_spec
from dsrun.launcher.planning.planner import make_plan
from dsrun.launcher.specs import codec
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.codec import decode, encode
from dsrun.launcher.specs.environment import ForwardedEnv
from dsrun.launcher.specs.field_types import fields
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, by_task, lay_out
from dsrun.launcher.specs.program import Program

PLAN = Plan(lay_out([Host("w0", (0, "GPU-1")), Host("w1")]), Program("x.py"), "ssh", None, None)
SPEC = JobSpec("j", PLAN, "/work", ForwardedEnv({"A": "1"}, ("B",), frozenset({"A", "C"})))

COMMANDS = (
    ["train.py"],
    ["--host", "w0:2,w1:2", "--launcher", "openssh", "train.py", "--x", "é \udcff\n", ""],
    ["--host", "w0,bob@w1:4", "--num_gpus", "2", "--master_addr", "10.0.0.1", "-m", "train"],
    ["--host", "localhost:2", "--bind_cores_to_rank", "--bind_core_list", "0-3", "train.py"],
    ["--host", "w[0-9]:8", "--elastic_training", "--min_elastic_nodes", "2", "train.py"],
    ["--host", "w0:2,w1:2", "--max_restarts", "3", "--no_restart_codes", "3,4", "train.py"],
    ["--standalone", "--nproc_per_node", "2", "--log_dir", "logs", "-t", "0:1,1:3", "train.py"],
    ["--rdzv_backend", "c10d", "--rdzv_endpoint", "h:1", "--nnodes", "1:2", "train.py"],
    ["--export", "TOKEN_KEY=x", "--console_ranks", "0", "--report_file", "r.json", "train.py"],
)


def there_and_back(spec: JobSpec) -> JobSpec:
    """As a hold gets it: as the bytes of a frame."""
    frame = frames.pack_json(frames.REQUEST, encode(spec))
    return decode(JobSpec, frames.unpack_json(frame[5:]))


def typed(value: Any) -> Any:
    """A value with all its types, which a comparison of tuples does not see."""
    if isinstance(value, tuple):
        return type(value).__name__, [typed(one) for one in value]
    if isinstance(value, dict):
        return {name: typed(one) for name, one in value.items()}
    return type(value).__name__, value


@pytest.mark.parametrize("argv", COMMANDS, ids=lambda argv: argv[-1 if len(argv) < 2 else 0])
def test_a_job_comes_back_as_it_was(
    argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    monkeypatch.setenv("TORCH_X", "é\udcff\ud7ff☃")
    command = rendezvous.apply(parse(argv, {}))
    spec = job_spec(make_plan(command), command.options)
    assert typed(there_and_back(spec)) == typed(spec)


def test_every_field_of_a_job_is_covered() -> None:
    spec = SPEC._replace(plan=by_task(SPEC.plan._replace(nodes=SPEC.plan.nodes[:1])))
    assert typed(there_and_back(spec)) == typed(spec)
    for shape in codec.SHAPES:
        assert fields(shape).keys() == set(shape.__annotations__)


def test_settings_alone() -> None:
    settings = BackendSettings(args=("-x", ""), port=22)
    assert decode(BackendSettings, encode(settings)) == settings


def test_many_hosts() -> None:
    hosts = [Host(f"w{number}", tuple(range(8))) for number in range(2000)]
    spec = SPEC._replace(plan=PLAN._replace(nodes=lay_out(hosts)))
    assert there_and_back(spec) == spec


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"workdir": 3}, r"invalid JobSpec: \.workdir: expected str"),
        ({"workdir": "\ud800"}, "a string cannot be encoded"),
        ({"plan": None}, r"\.plan: expected Plan"),
        ({"only": True}, r"\.only: expected int | None"),
        ({"only": 1 << 70}, r"\.only: expected int | None"),
        ({"core_lists": (("a",),)}, r"\.core_lists\[0\]: expected tuple\[str, str\]"),
        ({"core_lists": ["a"]}, r"\.core_lists\[0\]: expected tuple"),
        ({"travel": ForwardedEnv({"A": 1})}, r"\.travel\.values\['A'\]: expected str"),  # type: ignore[dict-item]
        ({"supervision": SPEC.supervision._replace(grace=float("inf"))}, r"grace: expected float"),
        ({"supervision": SPEC.supervision._replace(grace=float("nan"))}, r"grace: expected float"),
    ],
)
def test_a_job_that_is_none_is_not_sent(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        encode(SPEC._replace(**change))


def changed(*path: str, to: object) -> Any:
    """A job as JSON values, with the value at this path of fields changed."""
    message = whole = json.loads(json.dumps(encode(SPEC)))
    steps: list[Any] = [path[0]]
    value: Any = SPEC
    for name in path[1:]:
        steps.append(value._fields.index(name))
        value = getattr(value, name)
    for step in steps[:-1]:
        message = message[step]
    message[steps[-1]] = to
    return whole


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (None, "made by dsrun None, but this is"),
        ([], "made by dsrun None"),
        ({}, "made by dsrun None"),
        (changed("dsrun", to="0.0"), f"made by dsrun 0.0, but this is dsrun {__version__}"),
        (changed("dsrun", to=["x" * 999]), "made by dsrun .{40},"),
        ({"dsrun": __version__}, "expected the fields dsrun and JobSpec"),
        (encode(BackendSettings()), "expected the fields dsrun and JobSpec"),
        (changed("more", to=1), "expected the fields"),
        (changed("JobSpec", to=[]), "invalid JobSpec: expected JobSpec"),
        (changed("JobSpec", to={"job_id": "j"}), "invalid JobSpec: expected JobSpec"),
        (changed("JobSpec", "job_id", to=None), r"\.job_id: expected str"),
        (changed("JobSpec", "job_id", to="\ud800"), r"\.job_id: expected str"),
        (changed("JobSpec", "job_id", to=b"x"), r"\.job_id: expected str"),
        (changed("JobSpec", "plan", "nodes", to={}), r"\.plan\.nodes: expected tuple"),
        (changed("JobSpec", "plan", "nodes", to=[1]), r"\.plan\.nodes\[0\]: expected Node"),
        (changed("JobSpec", "only", to=1.0), r"\.only: expected int | None"),
        (changed("JobSpec", "travel", "secret", to=[[]]), r"secret\[0\]: expected str"),
        (changed("JobSpec", "travel", "values", to=[]), r"values: expected dict\[str, str\]"),
        (changed("JobSpec", "output", "stdin", to=0), r"\.output\.stdin: expected bool"),
    ],
)
def test_values_that_are_no_job(message: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        decode(JobSpec, message)


ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1 << 70, float("nan"), "", "x", "\ud800", b"", object()),
    *([], [[]], {}, {"a": []}, {1: 2}, [None, 1, "x"]),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return (container, key) of every value within."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], (dict, list)):
            found += places(value[key])
    return found


def test_whatever_is_sent_is_a_job_or_one_error() -> None:
    chance = random.Random(7)
    for _ in range(3000):
        message = json.loads(json.dumps(encode(SPEC)))
        for _ in range(chance.randint(1, 3)):
            container, key = chance.choice(places(message) or [({"all": "removed"}, "all")])
            if chance.random() < 0.2 and isinstance(container, dict):
                del container[key]
            else:
                container[key] = copy.deepcopy(chance.choice(ODD))
        with suppress(UsageError):
            spec = decode(JobSpec, message)
            assert there_and_back(spec) == spec
