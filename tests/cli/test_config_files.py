"""Options from configuration files: which file counts, and what is refused."""

from __future__ import annotations

import json
import os
import pwd
import re
import resource
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.config_files import RIVALS, config, parsed
from dsrun.launcher.cli.config_source import source
from dsrun.launcher.cli.options import Options, all_options, shared, table
from dsrun.launcher.cli.parser import configured, name_variables, project_files
from dsrun.launcher.cli.show_config import text
from dsrun.launcher.cli.tool_parser import configured as tool_configured
from dsrun.launcher.cli.trust import NAME, distrust, trust
from dsrun.launcher.common.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dsrun.launcher.cli.config_files import Config
    from dsrun.launcher.cli.option import Option
    from dsrun.launcher.cli.parser import Command


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, which is the current folder of a project below it."""
    folder = tmp_path / "home"
    (folder / "project" / "src").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder / "project")
    return folder


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def project(home: Path, *lines: str) -> Path:
    return write(home / "project" / "dsrun.toml", *lines)


def trusted(home: Path, *lines: str) -> Path:
    path = project(home, *lines)
    trust(str(path.parent), {})
    return path


def person(home: Path, *lines: str) -> Path:
    return write(home / ".config" / "dsrun" / "config.toml", *lines)


def command(*words: str, **environ: str) -> Command:
    return configured([*words, "train.py"], environ)


def refused(*words: str, **environ: str) -> str:
    with pytest.raises(UsageError) as caught:
        command(*words, **environ)
    message = str(caught.value)
    assert "\n" not in message
    return message


def merged(*paths: Path, profile: str = "", given: frozenset[str] = frozenset()) -> Config:
    return config(map(str, paths), [], Options(profile=profile), given, {})


# -- precedence -----------------------------------------------------------------------------------


def test_each_place_is_above_the_next(home: Path) -> None:
    trusted(home, "[default]", "grace = 2", "role = 'project'", "ssh_port = 2")
    person(home, "[default]", "grace = 1", "role = 'person'", "ssh_port = 1", "quiet = true")
    options = command("--grace=4", "--ssh_port=4", DSRUN_GRACE="3", DSRUN_ROLE="variable").options
    assert (options.grace, options.ssh_port) == (4.0, 4)
    assert (options.role, options.quiet) == ("variable", True)
    assert command().options.grace == 2.0


def test_a_profile_is_above_the_default_of_its_file_and_below_the_files_above(
    home: Path,
) -> None:
    upper = write(home / "upper.toml", "[default]", "grace = 3")
    lower = write(home / "lower.toml", "[default]", "grace = 1", "role = 'a'")
    with lower.open("a") as file:
        file.write("[profile.lab]\ngrace = 2\nrole = 'b'\n")
    assert merged(lower, profile="lab").values == {"grace": 2.0, "role": "b"}
    assert merged(lower).values == {"grace": 1.0, "role": "a"}
    found = merged(lower, upper, profile="lab")
    assert found.values == {"grace": 3.0, "role": "b"}
    assert found.origins == {"grace": f"{upper}:2", "role": f"{lower}:6"}


def test_a_profile_is_chosen_by_option_or_variable_from_any_file(home: Path) -> None:
    person(home, "[profile.lab]", "grace = 7")
    project(home, "[profile.big]", "grace = 8")
    assert command("--profile", "lab").options.grace == 7.0
    assert command(DSRUN_PROFILE="big").options.grace == 8.0
    assert command("--profile=lab", DSRUN_PROFILE="big").options.grace == 7.0
    assert refused("--profile=lap") == (
        "--profile lap: no such profile (did you mean lab?); known: big, lab"
    )
    person(home, '[profile."l\\u001b[2Jab\\ndsrun: fine"]')
    assert "known: big, l\\x1b[2Jab\\ndsrun: fine" in refused("--profile=lap")


@pytest.mark.usefixtures("home")
def test_a_profile_without_any_file_is_unknown() -> None:
    assert refused("--profile=lab") == (
        "--profile lab: no such profile; no configuration file defines one"
    )


def test_a_value_may_undo_that_of_a_lower_place(home: Path) -> None:
    person(home, "[default]", "num_nodes = 4", "quiet = true", "strict = true")
    trusted(home, "[default]", "num_nodes = -1", "quiet = false")
    found = command(DSRUN_STRICT="0")
    assert found.options.num_nodes is None
    assert not found.options.quiet
    assert not found.options.strict
    assert found.given == frozenset()
    project(home, "[default]", "num_nodes = 2")
    assert command("--num_nodes=-1").options.num_nodes is None


def test_options_that_may_be_repeated_take_lists(home: Path) -> None:
    person(home, "[default]", 'export = ["A=1", "B=2"]', 'host = "h0"')
    trusted(home, "[default]", "export = 'C=3'", 'host = ["h1:4", "h2:4"]', "requeue_on = [75]")
    options = command("--export=D=4").options
    assert options.export == ("A=1", "B=2", "C=3", "D=4")
    assert (options.host, options.requeue_on) == ("h1:4,h2:4", "75")


def test_names_are_as_on_the_command_line(home: Path) -> None:
    trusted(home, "[default]", "num-gpus = 3", "use_env = true", 'start_timeout = "2m"')
    options = command().options
    assert (options.num_gpus, options.no_local_rank, options.start_timeout) == (3, True, 120.0)


@pytest.mark.parametrize(
    ("setting", "words", "name"),
    [
        ("hostfile = 'hosts'", ["--host=h1"], "hostfile"),
        ("host = 'h1'", ["--hostfile=hosts"], "host"),
        ("on = 'last'", ["--host=h1"], "on"),
        ("hostfile = 'hosts'", ["--on=last"], "hostfile"),
        ("ssh_port = 22", ["--on=last"], "ssh_port"),
        ("on_busy = 'refuse'", [], "on_busy"),
        ("nproc_per_node = 2", ["--num_gpus=1"], "nproc_per_node"),
        ("exclude = 'h1'", ["--include=h2"], "exclude"),
        ("bind_to = 'core'", ["--numa_binding=node"], "bind_to"),
    ],
)
def test_an_option_gives_way_to_one_that_contradicts_it(
    setting: str, words: list[str], name: str, home: Path
) -> None:
    trusted(home, "[default]", setting)
    assert name not in command(*words).given


def test_a_file_gives_way_to_a_file_above_it(home: Path) -> None:
    lower = write(home / "lower.toml", "[default]", "hostfile = 'hosts'", "watch_hostfile = true")
    upper = write(home / "upper.toml", "[default]", "host = 'h1'")
    assert merged(lower, upper).values == {"host": "h1"}
    assert merged(lower, given=frozenset({"num_gpus"})).values.keys() == {
        "hostfile",
        "watch_hostfile",
    }


def test_rivals_are_options() -> None:
    assert {name for group in RIVALS for name in group} <= all_options().keys()


# -- where ----------------------------------------------------------------------------------------


def test_the_project_of_the_script_comes_before_the_current_folder(home: Path) -> None:
    project(home, "[default]", "grace = 1")
    write(home / "other" / "dsrun.toml", "[default]", "grace = 2")
    (home / "other" / "src").mkdir()
    (home / "loose").mkdir()
    for script, grace in (
        ("train.py", 1.0),
        ("src/train.py", 1.0),
        ("../other/src/train.py", 2.0),
        ("../loose/train.py", 1.0),
    ):
        assert configured([script], {}).options.grace == grace
    for flag in ("-m", "--no_python"):
        assert configured([flag, "../other/src/train.py"], {}).options.grace == 1.0


def test_nothing_above_the_home_folder_is_looked_at(home: Path) -> None:
    write(home.parent / "dsrun.toml", "[default]", "grace = 1")
    assert [*project_files([""])] == []
    write(home / "dsrun.toml", "[default]", "grace = 2")
    near = project(home, "[default]")
    assert [*project_files(["src"])] == [str(near), str(home / "dsrun.toml")]
    assert str(home.parent / "dsrun.toml") in project_files([str(home.parent)])


def test_a_current_folder_that_is_gone_has_no_project(home: Path) -> None:
    folder = home / "project" / "gone"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()
    assert [*project_files([""])] == []


def test_the_folder_of_a_person_may_be_elsewhere(home: Path) -> None:
    write(home / "xdg" / "dsrun" / "config.toml", "[default]", "grace = 5")
    person(home, "[default]", "grace = 6")
    assert command(XDG_CONFIG_HOME=str(home / "xdg")).options.grace == 5.0
    assert command(XDG_CONFIG_HOME="xdg").options.grace == 6.0


def test_files_can_be_ignored_and_are_inside_a_job(home: Path) -> None:
    project(home, "[default", "grace = 5")
    assert command("--no_config").options.grace == 30.0
    assert command(DSRUN_NO_CONFIG="1").options.grace == 30.0
    assert command(DSRUN_JOB_ID="1", DSRUN_PROFILE="lab").options.grace == 30.0
    assert configured(["--help"], {}).help


def test_other_commands_take_what_they_share(home: Path) -> None:
    trusted(home, "[default]", "ssh_port = 22", "grace = 5", "no_fold = true", "json = true")
    found = tool_configured("dsrun-exec", ["ls"], {})
    assert found.options.ssh_port == 22
    assert found.given == {"ssh_port"}
    assert found.own["json"] is False
    assert tool_configured("dsrun-hold", [], {}).options.grace == 5.0
    shown = tool_configured("dsrun-check", ["--show_config", "--strict"], {"DSRUN_QUIET": "1"})
    lines = [line.split("  # ") for line in shown.config.splitlines()]
    assert {one.strip(): place for one, place in lines} == {
        "ssh_port = 22": f"{home}/project/dsrun.toml:2",
        "strict = true": "command line",
        "quiet = true": "DSRUN_QUIET",
    }
    assert tool_configured("dsrun-check", ["--no_config"], {}).given == {"no_config"}


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["[default]", "script = 't.py'"],
            ":2: script: the script and its arguments belong on the com",
        ),
        (["[default]", "nodes = 2"], ":2: nodes: a key of a role, in a --roles file"),
        (["[default]", "", "num_gpu = 8"], ":3: num_gpu: unknown option (did you mean num_gpus?)"),
        (["[default]", "qqqq = 8"], ":2: qqqq: unknown option; see dsrun --help"),
        (["[profile.lab]", "H = 'hosts'"], ":2: H: unknown option"),
        (["[profile.lab]", "grase = 8"], ":2: grase: unknown option (did you mean grace?)"),
        (["[defualt]", "grace = 8"], ":1: defualt: not [default] or [profile.NAME] (did you mean"),
        (["# no table", "grace = 8"], ":2: grace: not [default] or [profile.NAME]; options go"),
        (["default = 3"], ":1: default: expected a table"),
        (["[profile]", "lab = 3"], ":2: lab: expected a table [profile.lab] of options"),
        (["[[profile]]"], ": profile: expected a table"),
        (["[profile.'']"], ": a profile without a name"),
        (["[default]", "grace = 'long'"], ":2: grace: expected a duration such as"),
        (["[default]", "grace = nan"], ":2: grace: expected a duration such as"),
        (["[default]", "grace = 2020-01-01"], ":2: grace: expected a number of seconds or"),
        (["[default]", "num_gpus = 1.5"], ":2: num_gpus: expected 1 to"),
        (["[default]", "num_gpus = true"], ":2: num_gpus: expected a whole number, not true"),
        (["[default]", "num_gpus = [1, 2]"], ":2: num_gpus: expected a whole number, not a list"),
        (["[default]", "quiet = 1"], ":2: quiet: expected true or false, not 1"),
        (["[default]", "quiet = 'yes'"], ":2: quiet: expected true or false, not 'yes'"),
        (["[default]", "host = [true]"], ":2: host: expected a string or a list of them"),
        (["[default.host]", "a = 1"], ":1: host: expected a string or a list of them, not a table"),
        (["[default]", "color = 'red'"], ":2: color: expected one of auto, always, never"),
        (["[default]", "profile = 'lab'"], ":2: profile: only on the command line"),
        (["[default]", "trust = '.'"], ":2: trust: only on the command line"),
        (["[default]", "trust_here = true"], ":2: trust_here: only on the command line"),
        (["[default]", "grace = "], ":2: grace has no value; "),
        (["[default]", "grace = 1", "grace = 2"], "grace is written twice, first on line 2"),
        (["[default]", f"host = {'[' * 5000}"], ":2: more than 64 nested brackets"),
        (
            ["[default]", f"grace = 0x{'f' * 5000}"],
            ":2: more than 256 characters in an unquoted word",
        ),
        (["", f"{'.'.join('a' * 66)} = 1"], ":2: more than 64 dots on a line outside quotes"),
        (["#" * (1 << 16)], ": larger than 65536 bytes; not read"),
        (['["a\\nb"]'], ":1: a\\nb: not [default] or [profile.NAME]"),
        (["[profile]", '"a\\nb" = 3'], ":1: a\\nb: expected a table [profile.a\\nb] of options"),
        (["[default]", '"a\\u202eb" = 3'], ":1: a\\u202eb: unknown option"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_its_line(
    lines: list[str], expected: str, home: Path
) -> None:
    path = project(home, *lines)
    assert re.match(rf"{re.escape(str(path))}(:\d+)?: ", refused())
    assert expected in refused()


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["[default]", "quiet = true", "[ profile . lab ]", "  'grace'=x"], 4),
        (["default.grace = x"], 1),
        (["profile.lab.grace = x"], 1),
        (["default = {grace = x}"], 1),
        (["[profile]", "other.quiet = true", "lab.grace = x"], 3),
        (["[profile.other]", "quiet = true", '[profile."lab"]', '"grace" = x'], 4),
    ],
)
def test_the_line_of_a_key_is_found_however_it_is_written(lines: list[str], line: int) -> None:
    data = "\n".join(lines).replace("x", "'wrong'").encode()
    with pytest.raises(UsageError, match=rf"^f:{line}: grace: expected a duration"):
        parsed("f", data)


def test_bytes_that_are_no_text_are_refused(home: Path) -> None:
    project(home).write_bytes(b"[default]\nrole = '\xff'\n")
    assert ":2: not plain text; save the file as UTF-8" in refused()


@pytest.mark.parametrize("mode", [0o622, 0o602, 0o620])
def test_a_file_of_a_person_that_others_can_change_is_refused(mode: int, home: Path) -> None:
    path = person(home, "[default]", "grace = 1")
    os.chown(path, -1, STRANGE)
    path.chmod(mode)
    assert refused().startswith(f"{path}: ")
    assert "can change it" in refused()
    assert refused().endswith("--no_config reads no configuration files")
    path.chmod(0o600)
    os.chown(path.parent, -1, STRANGE)
    path.parent.chmod(mode | 0o111)
    assert "can change it" in refused()


def test_what_is_no_file_is_refused(home: Path) -> None:
    path = home / "project" / "dsrun.toml"
    os.mkfifo(path)
    assert refused().startswith(f"{path}: is a pipe, not a file")
    path.unlink()
    path.mkdir()
    assert refused().startswith(f"{path}: is a directory")


# -- files of others ------------------------------------------------------------------------------

STRANGE = 4_123_456
"""A group and a user that this machine does not know."""

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def open_file(path: Path) -> Path:
    path.chmod(0o646)
    return path


def open_folder(path: Path) -> Path:
    path.parent.chmod(0o1777)
    return path.parent


def given_file(path: Path) -> Path:
    os.chown(path, STRANGE, -1)
    return path


def given_folder(path: Path) -> Path:
    os.chown(path.parent, STRANGE, -1)
    return path.parent


def linked_file(path: Path) -> Path:
    real = path.rename(path.parent.parent / "real.toml")
    path.symlink_to(real)
    open_file(real)
    return path


OF_OTHERS = [
    pytest.param(open_file, "everyone can change it"),
    pytest.param(open_folder, "everyone can change it"),
    pytest.param(linked_file, "everyone can change it"),
    pytest.param(given_file, f"belongs to another user (uid {STRANGE})", marks=AS_ROOT),
    pytest.param(given_folder, f"belongs to another user (uid {STRANGE})", marks=AS_ROOT),
]


@pytest.mark.parametrize(("spoil", "why"), OF_OTHERS)
def test_the_search_goes_on_above_a_file_of_others(
    spoil: Callable[[Path], Path], why: str, home: Path
) -> None:
    path = project(home, "[default]", "grace = 'wrong'", "on_event = 'x'")
    write(home / "dsrun.toml", "[default]", "grace = 4")
    culprit = spoil(path)
    found = command()
    assert (found.options.grace, len(found.skipped)) == (4.0, 1)
    said = f"{path}: not read, as other users could have written it: {culprit}: {why}"
    assert found.skipped[0].startswith(said)
    shared_alone = tool_configured("dsrun-check", [], {})
    assert shared_alone.notes == found.skipped
    assert tool_configured("dsrun-check", ["--quiet"], {}).notes == ()
    (home / "dsrun.toml").unlink()
    assert command().options.grace == 30.0
    with pytest.raises(UsageError, match=re.escape(f"{culprit}: {why}")):
        trust(str(path.parent), {})


@pytest.mark.parametrize(("spoil", "why"), OF_OTHERS)
def test_a_profile_that_may_be_in_a_file_of_others_is_an_error(
    spoil: Callable[[Path], Path], why: str, home: Path
) -> None:
    path = project(home, "[profile.lab]", "grace = 1")
    culprit = spoil(path)
    assert refused("--profile=lab").startswith(
        "--profile lab: no such profile; no configuration file defines one;"
        f" {path}: not read, as other users could have written it: {culprit}: {why}"
    )
    person(home, "[profile.lab]", "grace = 2")
    assert command("--profile=lab").options.grace == 2.0


@pytest.mark.parametrize(("spoil", "why"), OF_OTHERS)
def test_trust_here_in_a_file_of_others_is_an_error(
    spoil: Callable[[Path], Path], why: str, home: Path
) -> None:
    """A job without it, or with the file above it, is another one."""
    path = project(home, "[default]", "grace = 1")
    write(home / "dsrun.toml", "[default]", "grace = 4")
    culprit = spoil(path)
    said = f"{path}: not read, as other users could have written it: {culprit}: {why}"
    assert refused("--trust_here").startswith(f"--trust_here: {said}")


def test_trust_that_cannot_be_kept_leaves_nothing(home: Path, tmp_path: Path) -> None:
    path = project(home, "[default]", "python = 'x'")
    kept = tmp_path / "state/dsrun/trusted.json"
    kept.mkdir(parents=True)
    kept.parent.chmod(0o700)
    with pytest.raises(UsageError) as caught:
        trust(str(path.parent), {"XDG_STATE_HOME": str(tmp_path / "state")})
    assert str(caught.value) == f"--trust {path.parent}: {kept}: is a directory"
    assert list(kept.parent.iterdir()) == [kept]


def test_the_contents_of_a_file_of_others_do_not_matter(home: Path) -> None:
    path = home / "project" / "dsrun.toml"
    os.mkfifo(path)
    path.chmod(0o666)
    assert len(command().skipped) == 1


def share_file(path: Path) -> None:
    os.chown(path, -1, STRANGE)
    path.chmod(0o664)


def share_folder(path: Path) -> None:
    os.chown(path.parent, -1, STRANGE)
    path.parent.chmod(0o775)


@AS_ROOT
@pytest.mark.parametrize("share", [share_file, share_folder])
def test_what_a_group_can_change_is_read_and_not_trusted(
    share: Callable[[Path], None], home: Path
) -> None:
    path = project(home, "[default]", "grace = 1")
    share(path)
    assert (command().options.grace, command().skipped) == (1.0, ())
    path.write_text("[default]\non_event = 'x'\n")
    assert "this file is not trusted" in refused()
    environ = {"DSRUN_TRUST": str(path.parent)}
    assert "DSRUN_TRUST is ignored where other members of a group can write" in refused(**environ)
    assert command("--trust_here").options.on_event == "x"
    trust(str(path.parent), {})
    assert command().options.on_event == "x"
    path.write_text("[default]\non_event = 'y'\n")
    assert "this file is not trusted" in refused()


# -- trust ----------------------------------------------------------------------------------------

HARMLESS = {
    "include": "h1",
    "exclude": "h1",
    "num_nodes": 2,
    "segment": 2,
    "nnodes": "1:2",
    "num_gpus": 2,
    "nproc_per_node": "auto",
    "connect_timeout": 5,
    "start_timeout": "1m",
    "health_timeout": 5,
    "console_ranks": "0",
    "local_ranks_filter": [0, 1],
    "prefix": "{{{host:>12}|{rank:04d}}}> ",
    "log_level": "debug",
    "hang_timeout": 5,
    "within": 5,
    "every": 5,
    "grace": 5,
    "heartbeat_timeout": 5,
    "monitor_interval": 1,
    "min_elastic_nodes": 1,
    "max_elastic_nodes": 2,
    "max_restarts": 3,
    "restart_window": 5,
    "min_uptime": 5,
    "no_restart_codes": "2,64",
    "restart_on": "node",
    "min_wait": 5,
    "stop_without_progress": 2,
    "cool_down": 5,
    "gain_delay": 5,
    "change_delay": 5,
}
"""The options that a file may set without trust, each with a value."""


def value_of(row: Option) -> str:
    """Return a value of an option as TOML."""
    values = {"bool": "true", "int": "1", "seconds": "1"}
    return values.get(row.kind, f"'{row.choices[0] if row.choices else 'x'}'")


def test_the_options_that_need_no_trust() -> None:
    found = {name for name, row in all_options().items() if row.untrusted}
    assert found == HARMLESS.keys()
    assert [name for name in found if all_options()[name].kind == "bool"] == []


@pytest.mark.parametrize(("name", "value"), HARMLESS.items())
def test_what_is_harmless_needs_no_trust(name: str, value: object, home: Path) -> None:
    project(home, "[default]", f"{name} = {json.dumps(value)}")
    assert name in command("--expect=x").given


GUARDED = {
    name: row
    for name, row in all_options().items()
    if not (row.untrusted or row.only_typed or row.only_role)
}


@pytest.mark.parametrize("name", GUARDED)
def test_anything_else_needs_trust(name: str, home: Path) -> None:
    setting = f"{name} = {value_of(GUARDED[name])}"
    path = project(home, "[default]", "grace = 1", setting)
    assert refused() == (
        f"{path}:3: {name}: needs trust, and this file is not trusted; read it, then run:"
        f" dsrun --trust {path.parent}"
    )
    for tool in ("dsrun-exec", "dsrun-check", "dsrun-hold"):
        with pytest.raises(UsageError, match=f":3: {name}: needs trust"):
            tool_configured(tool, [], {})
    assert config([], [str(path)], Options(trust_here=True), frozenset(), {})


def test_all_that_needs_trust_is_named_in_one_line(home: Path) -> None:
    lines = ["[default]", "hostfile = 'h'", "grace = 1", "use_env = true", "[profile.lab]"]
    path = project(home, *lines, "'quiet' = true")
    assert refused() == (
        f"{path}:2: hostfile, {path}:4: use_env, {path}:6: quiet: need trust, and this file is not"
        f" trusted; read it, then run: dsrun --trust {path.parent}"
    )


@pytest.mark.parametrize(
    "label",
    [
        *(
            "\\u001b]0;x\\u0007{rank}",
            "\\u202e{rank}",
            "{rank}\\u2066",
            "\\u009b2J",
            "a\\nb",
            "\\u2028",
        ),
        *("{rank:>9999}", "{rank:{rank}}", "{rank.real}", "{rank!r}", "{rank"),
    ],
)
def test_a_label_that_is_more_than_text_needs_trust(label: str, home: Path) -> None:
    path = project(home, "[default]", f'prefix = "{label}"')
    assert refused().startswith(f"{path}:2: prefix: needs trust, and ")


def test_control_characters_need_trust_anywhere(home: Path) -> None:
    path = project(home, "[default]", 'include = ["h1", "h2\\u001b[2J"]')
    assert refused().startswith(f"{path}:2: include: needs trust, and ")


def test_trust_ends_with_a_change_of_what_needs_it_alone(home: Path) -> None:
    path = trusted(home, "[default]", "on_event = 'x'", "grace = 1", "[profile.lab]", "fold = true")
    project(home, "# new", "profile.lab.fold=true", "[default]", "num_gpus = 2", "on_event = 'x'")
    assert command("--profile=lab").options.on_event == "x"
    for lines in (
        ["[default]", "on_event = 'y'", "[profile.lab]", "fold = true"],
        ["[default]", "on_event = 'x'"],
        ["[default]", "on_event = 'x'", "fold = true"],
        ["[default]", "fold = true", "[profile.lab]", "on_event = 'x'"],
        ["[default]", "on_event = 'x'", "quiet = true", "[profile.lab]", "fold = true"],
    ):
        project(home, *lines)
        assert refused().endswith(f"dsrun --trust {path.parent}")


def test_of_two_names_of_an_option_the_order_counts(home: Path) -> None:
    names = ["log_dir = 'a'", "enable_each_rank_log = 'b'"]
    trusted(home, "[default]", *names)
    assert command().options.log_dir == "b"
    project(home, "[default]", *reversed(names))
    assert "need trust" in refused()


def test_trust_of_a_file_is_not_that_of_a_link_to_it(home: Path) -> None:
    path = trusted(home, "[default]", "on_event = './notify.sh'")
    (home / "b").mkdir()
    (home / "b" / "dsrun.toml").symlink_to("../project/dsrun.toml")
    os.chdir(home / "b")
    assert refused().endswith(f"dsrun --trust {home / 'b'}")
    assert "is not trusted" in refused(DSRUN_TRUST=str(path.parent))
    trust(".", {})
    assert command().options.on_event == "./notify.sh"
    (home / "b" / "dsrun.toml").unlink()
    write(home / "c" / "dsrun.toml", *path.read_text().splitlines())
    (home / "b" / "dsrun.toml").symlink_to("../c/dsrun.toml")
    assert "is not trusted" in refused()


def test_trust_in_this_environment_or_this_command(home: Path) -> None:
    path = project(home, "[default]", "on_event = 'x'")
    (home / "link").symlink_to(home / "project")
    for folders in (f"/no/such:{path.parent}", f"{home / 'link'}:", f"{path.parent}/src/.."):
        assert command(DSRUN_TRUST=folders).options.on_event == "x"
    for folders in ("", ":", str(home), str(path), f"{path.parent}/src"):
        assert "this file is not trusted" in refused(DSRUN_TRUST=folders)
    assert refused(DSRUN_TRUST=f"{path.parent}:.") == (
        "DSRUN_TRUST: expected absolute paths of folders, separated by colons, not '.'"
    )
    assert command("--trust_here").options.on_event == "x"
    assert tool_configured("dsrun-hold", ["--trust_here"], {}).given == {"trust_here"}
    assert not (home / ".local").exists()


def test_the_variable_is_no_option(home: Path) -> None:
    found = command(DSRUN_TRUST=str(home))
    assert (found.options.trust, found.notes, found.given) == (None, (), frozenset())
    message = "read it, then run: dsrun --trust /a"
    assert name_variables(message, [], {"DSRUN_TRUST": "/b"}) == message


def test_a_person_may_set_all(home: Path) -> None:
    person(home, "[default]", "on_event = 'x'", 'prefix = "\\u202e"')
    assert command().options.on_event == "x"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def is_trusted(path: Path, environ: Mapping[str, str]) -> bool:
    found = source(str(path))
    return not distrust(found, parsed(found.path, found.data), environ)


def test_trust_is_kept_where_nobody_else_can_change_it(home: Path) -> None:
    environ = {"XDG_STATE_HOME": str(home / "state")}
    path = project(home, "[default]", "on_event = 'x'")
    trust(str(path.parent), environ)
    other = write(home / "other" / "dsrun.toml", "[default]")
    trust(str(other.parent), environ)
    kept = home / "state" / "dsrun" / NAME
    assert (mode(kept), mode(kept.parent)) == (0o600, 0o700)
    assert [one.name for one in kept.parent.iterdir()] == [NAME]
    assert is_trusted(path, environ)
    assert not is_trusted(path, {})
    kept.chmod(0o622)
    assert "other users can change it" in refused(**environ)
    kept.chmod(0o600)
    kept.parent.chmod(0o777)
    assert "other users can change it" in refused(**environ)


@pytest.mark.parametrize(
    "kept",
    [
        *(b"", b"{", b"[]", b"null", b'{"x": 1}', b"\xff\xfe{", b"[" * 200_000, b'{"":' * 200_000),
        *(b"1" * 100_000, b'{"x": ' + b"[" * 900 + b"]" * 900 + b"}", b" " * (17 << 20)),
    ],
)
def test_a_damaged_list_of_trusted_files_trusts_none(kept: bytes, home: Path) -> None:
    path = trusted(home, "[default]", "on_event = 'x'")
    (home / ".local" / "state" / "dsrun" / NAME).write_bytes(kept)
    assert "is not trusted" in refused()
    trust(".", {})
    assert is_trusted(path, {})


def test_without_a_home_the_current_folder_is_none(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = trusted(home, "[default]", "on_event = 'x'")
    person(home, "[default]", "grace = 'wrong'")
    (home / "project" / "~").symlink_to(home)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)  # an account that nobody knows
    with pytest.raises(RuntimeError, match="home"):
        Path.home()
    assert "is not trusted" in refused()
    with pytest.raises(UsageError, match=r"^--trust \.: .* has no home folder.* or DSRUN_TRUST="):
        trust(".", {})
    assert command(DSRUN_TRUST=str(path.parent)).options.on_event == "x"


def test_what_is_no_list_of_trusted_files_trusts_none(home: Path) -> None:
    path = trusted(home, "[default]", "on_event = 'x'")
    kept = home / ".local" / "state" / "dsrun" / NAME
    kept.unlink()
    os.mkfifo(kept, 0o600)
    assert "is not trusted" in refused()
    trust(".", {})
    assert is_trusted(path, {})
    folder = kept.parent
    kept.unlink()
    folder.rmdir()
    folder.touch(mode=0o600)
    assert "is not trusted" in refused()


def test_only_a_valid_and_safe_file_can_be_trusted(home: Path) -> None:
    with pytest.raises(UsageError, match=r"^--trust src: no dsrun.toml there"):
        trust("src", {})
    path = project(home, "[default]", "on_evnt = 'x'")
    with pytest.raises(UsageError, match=r"did you mean on_event\?"):
        trust(".", {})
    project(home, "[default]", "on_event = 'x'").chmod(0o666)
    with pytest.raises(UsageError, match="everyone can change it"):
        trust(".", {})
    path.chmod(0o600)
    write(home / "blocked")
    with pytest.raises(UsageError, match=r"^--trust \.: .*blocked"):
        trust(".", {"XDG_STATE_HOME": str(home / "blocked")})


# -- --show_config --------------------------------------------------------------------------------


def shown(words: list[str], environ: Mapping[str, str]) -> dict[str, str]:
    found = configured(words, environ)
    typed = configured([*words, "--no_config"], {}).given - {"no_config"}
    lines = text(vars(found.options), found.given, typed, environ, found.origins).splitlines()
    return {one.strip(): place for one, _, place in (line.partition("  # ") for line in lines)}


def test_every_value_is_shown_with_its_origin(home: Path) -> None:
    path = trusted(home, "[default]", "export = ['A=1']", "grace = 1", 'role = "a\\u001bb"')
    environ = {"DSRUN_EXPORT": "B=2", "DSRUN_GRACE": "2", "PET_MAX_RESTARTS": "3"}
    assert shown(["--grace=3", "--export=C=3", "--show_config"], environ) == {
        'export = ["A=1", "B=2", "C=3"]': f"{path}:2, DSRUN_EXPORT, command line",
        "grace = 3.0": "command line",
        'role = "a\\u001bb"': f"{path}:4",
        "max_restarts = 3": "PET_MAX_RESTARTS",
    }


@pytest.mark.usefixtures("home")
def test_without_any_value_a_comment_is_shown() -> None:
    assert shown(["--show_config"], {}) == {"# all options have their default values": ""}


def test_the_options_about_files_are_shared() -> None:
    for tool in ("hold", "exec", "check"):
        assert {"profile", "show_config", "no_config", "trust_here"} <= shared(tool).keys()
    assert {name for name, (_, row) in table().items() if row.only_typed} == {
        *("profile", "show_config", "no_config", "trust", "trust_here"),
    }


def test_trust_that_does_not_fit_on_the_disk_leaves_nothing(home: Path) -> None:
    """A limit on the size of files stands for it."""
    path = project(home, "[default]", "grace = 2")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(UsageError, match=f"/dsrun/{NAME}: file too large"):
            trust(str(path.parent), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list((home / ".local/state/dsrun").iterdir())
