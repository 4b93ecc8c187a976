"""The facts of nodes as text."""

from __future__ import annotations

import re

from dsrun.launcher.control.messages import Hello
from dsrun.launcher.features.quick_check import runner_tables as tables
from dsrun.launcher.features.quick_check.runner_answers import Answer
from dsrun.launcher.features.quick_check.runner_tables import GREEN, RED, CheckedState

from ...support.node_facts import GPUS, facts

OK, BAD = CheckedState("ok", GREEN), CheckedState("1 error", RED)


def answer(hostname: str, slots: tuple[str, ...] = (), **changes: object) -> Answer:
    kind = "cuda" if slots else "cpu"
    hello = Hello("1", hostname, "m", "/usr/bin/py", kind, slots, 2, None, (), (), 1.0)
    return Answer(hello=hello._replace(facts=facts(**changes)))


def test_nodes_with_equal_lines_share_one() -> None:
    answers = {name: answer(name) for name in ("n1", "n2", "n3")}
    answers |= {"n4": answer("n4", python="3.12.1"), "n5": Answer(error="gone")}
    states = dict.fromkeys(answers, OK) | {"n5": BAD}
    lines = tables.table(answers, states, colour=False)
    assert [line.split()[0] for line in lines] == ["NODE", "n[1-3]", "n4", "n5"]
    assert lines[1].split()[1:4] == ["3.11.2", "2.4.0+cu121", "-"]
    assert lines[1].endswith("ok")
    assert lines[3].split()[1:] == ["-"] * 9 + ["1", "error"]


def test_states_have_colours() -> None:
    plain = tables.table({"n1": answer("n1")}, {"n1": BAD}, colour=False)
    coloured = tables.table({"n1": answer("n1")}, {"n1": BAD}, colour=True)
    assert coloured[1].endswith("\x1b[31m1 error\x1b[0m")
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in coloured] == plain


def test_devices_are_counted_by_model() -> None:
    with_gpus = answer("n1", ("0", "1"), devices=GPUS)
    mixed = answer("n2", ("0", "1"), devices=(GPUS[0], GPUS[1]._replace(name="A100")))
    lines = tables.table({"n1": with_gpus, "n2": mixed}, {"n1": OK, "n2": OK}, colour=False)
    assert "2 x H100" in lines[1]
    assert "2 x cuda" in lines[2]


def test_text_of_nodes_is_made_plain() -> None:
    bad = answer("n1", python="\x1b]0;x\x07" + "y" * 100)
    (_, line) = tables.table({"n1": bad}, {"n1": OK}, colour=False)
    assert "\x1b" not in line
    told = tables.values(bad._replace(report={"o\x1bs": "z\x1b[31m" * 1000}))
    assert not [text for item in told.items() for text in item if "\x1b" in text]
    assert max(map(len, told.values())) <= tables.LONGEST


def test_only_what_differs_is_compared() -> None:
    told = {
        name: tables.values(answer(name, limits={"nofile": nofile, "memlock": -1}))
        for name, nofile in (("n1", 1024), ("n2", 1024), ("n3", 20))
    }
    assert tables.differing(told) == ["limit.nofile:", "  n1, n2: 1024", "  n3: 20"]
    assert tables.differing({"n1": told["n1"], "n2": told["n2"]}) == []
    del told["n2"]["version.numpy"]
    assert tables.differing(told)[:3] == ["version.numpy:", "  n1, n3: 1.26.4", "  n2: none"]


def test_everything_has_common_values_once() -> None:
    told = {name: tables.values(answer(name)) for name in ("n1", "n2")}
    told["n2"]["os"] = "x"
    lines = tables.everything(told)
    assert lines[0] == "n1, n2 (2 nodes):"
    assert "  version.torch: 2.4.0+cu121" in lines
    assert "  limit.nofile: 1024" in lines
    assert lines[lines.index("differing:") :] == [
        "differing:",
        "  hostname:",
        "    n1: n1",
        "    n2: n2",
        "  os:",
        "    n1: none",
        "    n2: x",
    ]
    assert tables.everything({}) == []


def test_the_python_of_each_node_is_named_with_where_it_comes_from() -> None:
    answers = {name: answer(name) for name in ("n1", "n2", "n3")} | {"n4": Answer(error="gone")}
    assert tables.pythons(answers, ".venv") == ["n[1-3]: workers run on /usr/bin/py (.venv)"]
    hello = answers["n2"].hello
    assert hello is not None
    answers["n2"] = Answer(hello=hello._replace(python="/x\x1b[1m/py"))
    answers["n3"] = Answer(hello=hello._replace(python=""))
    assert tables.pythons(answers, "dsrun") == [
        "n1: workers run on /usr/bin/py (dsrun's own)",
        "n2: workers run on /x/py (dsrun's own)",
    ]
    assert tables.values(answers["n1"])["python.path"] == "/usr/bin/py"
