"""A file of roles, and what is wrong with one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.cli.options import table
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.roles.plan_file import ALSO, MEANT, OWN, parsed, read
from dsrun.launcher.features.roles.plan_table import RoleTable

from ...support.properties import same_examples

ROLLOUT = """\
# Two programs.
[[role]]
name = "rollout"
nodes = 2
workers = 1
devices = 4
ports = ["http", "grpc"]
command = ["vllm", "serve", "M", "--port", "{port.http}", 3]
ready = "http:/health"
ready_timeout = "10m"
ends = "never"

[[role]]
name = "trainer"
hosts = ["h1", "h2:0-3"]
module = "train.main"
args = ["--rollout", "{rollout.addrs}", 0.5]
env = { A = "1", B = 2 }
after = ["rollout"]
slots = 0
elastic = true
ends = "job"
export = ["C=3"]
"""


def roles(text: str) -> list[RoleTable]:
    return parsed("rl.toml", text.encode())


def fault(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        roles(text)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_role_has_a_program_and_options() -> None:
    rollout, _ = roles(ROLLOUT)
    assert (rollout.name, rollout.where) == ("rollout", "rl.toml:2: role rollout")
    assert rollout.program == ("vllm", "serve", "M", "--port", "{port.http}", "3")
    assert rollout.values == {
        "module": False, "no_python": True, "num_nodes": 2, "num_gpus": 1, "devices": 4,
        "ports": "http,grpc", "ready": "http:/health", "ready_timeout": 600.0, "ends": "never",
    }  # fmt: skip
    assert rollout.origins["num_nodes"] == "rl.toml:4: nodes"
    assert rollout.origins["program"] == "rl.toml:8: command"


def test_keys_of_a_file_mean_options() -> None:
    _, trainer = roles(ROLLOUT)
    assert trainer.program == ("train.main", "--rollout", "{rollout.addrs}", "0.5")
    assert trainer.values == {
        "module": True, "no_python": False, "host": "h1,h2:0-3", "after": "rollout", "slots": "0",
        "elastic_training": True, "ends": "job", "export": ("A=1", "B=2", "C=3"),
    }  # fmt: skip
    assert trainer.origins["program"] == "rl.toml:17: args"
    assert trainer.origins["elastic_training"] == "rl.toml:21: elastic"


def test_a_role_may_be_a_script_and_inline() -> None:
    (one,) = roles('role = [{ name = "a", script = "t.py", ends = "job" }]')
    assert (one.program, one.where) == (("t.py",), "rl.toml:1: role a")
    assert one.values == {"module": False, "ends": "job"}


START = '[[role]]\nname = "a"\nscript = "t.py"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "rl.toml: no roles; write a table [[role]] for each"),
        ("role = []", "rl.toml: no roles; write a table [[role]] for each"),
        ("role = [1]", "rl.toml:1: role: expected a table [[role]]"),
        ('[role]\nname = "a"', "rl.toml:1: role: write [[role]], once for each role"),
        ('name = "a"', "rl.toml:1: name: write it below [[role]], the table of a role"),
        ("ends = 1", "rl.toml:1: ends: write it below [[role]], the table of a role"),
        (
            "\nroles = 1",
            "rl.toml:2: roles: expected only tables [[role]] (did you mean role?); options of the"
            " whole job go on the command line",
        ),
        (
            '[[role]]\nname = "a"\ndevices = 0',
            "rl.toml:3: devices: expected 1 to 4096 (slots 0: no device), not '0'",
        ),
        ("[[role]]\nnodes = 1", 'rl.toml:1: role: no name; write name = "..."'),
        ("[[role]]\nname = 1", "rl.toml:2: name: expected a string, not 1"),
        ('[[role]]\nname = "a"', "rl.toml:1: no program: expected one of script, module, command"),
        (
            f'{START}module = "m"',
            "rl.toml:4: script and module: expected one of script, module, command",
        ),
        (f"{START}args = 1", 'rl.toml:4: args: expected a list of words, ["...", "..."], not 1'),
        (f"{START}args = [[1]]", "rl.toml:4: args: expected strings and numbers, not a list"),
        (f"{START}args = [true]", "rl.toml:4: args: expected strings and numbers, not true"),
        (f'{START}args = ["a\\u0000"]', "rl.toml:4: args: a string with a zero byte"),
        (
            f"{START}env = 1",
            'rl.toml:4: env: expected a table of variables, { NAME = "..." }, not 1',
        ),
        (f"{START}[role.env]\nA = []", "rl.toml:4: env: expected strings and numbers, not a list"),
        (
            f"{START}node = 2",
            "rl.toml:4: node: unknown option (did you mean nodes?); see dsrun --help",
        ),
        (
            f"{START}comand = 2",
            "rl.toml:4: comand: unknown option (did you mean command?); see dsrun --help",
        ),
        (f'{START}nodes = "two"', "rl.toml:4: nodes: expected 1 to the number of hosts"),
        (f"{START}nodes = []", "rl.toml:4: nodes: expected a whole number, not a list"),
        (f'{START}ends = "x"', "rl.toml:4: ends: expected one of job, wait, never, not 'x'"),
        (f"{START}elastic = 1", "rl.toml:4: elastic: expected true or false, not 1"),
        (
            f"{START}nodes = 1\nnum_nodes = 1",
            "rl.toml:5: num_nodes: given twice, also at rl.toml:4: nodes",
        ),
        (
            f'{START}report_file = "r"',
            "rl.toml:4: report_file: an option of the whole job, not of a role; give it on the"
            " command line",
        ),
        (f'{START}program = "r"', "rl.toml:4: program: write script, module or command instead"),
        ('[[role]]\nname = "a"\ncommand = []', "rl.toml:3: command: empty; expected a program"),
        ('[[role]]\nname = "a"\nscript = ""', "rl.toml:3: script: expected a string, not ''"),
        ("[[role]]\nname = \n\n", "rl.toml:2: name has no value; give it one"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, expected: str) -> None:
    assert fault(text).startswith(expected)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"--roles {tmp_path}/none: no such file or directory"):
        read(str(tmp_path / "none"))
    (tmp_path / "some").write_text(START)
    assert [one.name for one in read(str(tmp_path / "some"))] == ["a"]


@given(st.binary(max_size=80) | st.text(max_size=80).map(lambda text: f"{START}{text}".encode()))
@same_examples
def test_any_bytes_are_roles_or_refused(data: bytes) -> None:
    with suppress(UsageError):
        assert parsed("rl.toml", data)


@pytest.mark.parametrize("key", MEANT)
def test_keys_of_other_files(key: str) -> None:
    text = f'[[role]]\nname = "a"\nscript = "t.py"\n{key} = "x"\n'
    with pytest.raises(UsageError) as caught:
        parsed("r.toml", text.encode())
    said = str(caught.value)
    assert said == f"r.toml:4: {key}: unknown key (did you mean {MEANT[key]}?)"
    assert MEANT[key] in {*ALSO, *OWN, *table()}
