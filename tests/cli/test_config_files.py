"""Options from configuration files: which file counts, and what is refused."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.config_files import RIVALS, config, parsed
from dsrun.launcher.cli.options import all_options, shared, table
from dsrun.launcher.cli.parser import configured, project_file
from dsrun.launcher.cli.show_config import text
from dsrun.launcher.cli.tool_parser import configured as tool_configured
from dsrun.launcher.cli.trust import NAME, is_trusted, trust
from dsrun.launcher.common.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsrun.launcher.cli.config_files import Config
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
    return config({str(path): False for path in paths}, profile, given, {})


# -- precedence -----------------------------------------------------------------------------------


def test_each_place_is_above_the_next(home: Path) -> None:
    project(home, "[default]", "grace = 2", "role = 'project'", "ssh_port = 2")
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


@pytest.mark.usefixtures("home")
def test_a_profile_without_any_file_is_unknown() -> None:
    assert refused("--profile=lab") == (
        "--profile lab: no such profile; no configuration file has one"
    )


def test_a_value_may_undo_that_of_a_lower_place(home: Path) -> None:
    person(home, "[default]", "num_nodes = 4", "quiet = true", "strict = true")
    project(home, "[default]", "num_nodes = -1", "quiet = false")
    found = command(DSRUN_STRICT="0")
    assert found.options.num_nodes is None
    assert not found.options.quiet
    assert not found.options.strict
    assert found.given == frozenset()
    project(home, "[default]", "num_nodes = 2")
    assert command("--num_nodes=-1").options.num_nodes is None


def test_options_that_may_be_repeated_take_lists(home: Path) -> None:
    person(home, "[default]", 'export = ["A=1", "B=2"]', 'host = "h0"')
    project(home, "[default]", "export = 'C=3'", 'host = ["h1:4", "h2:4"]', "requeue_on = [75]")
    options = command("--export=D=4").options
    assert options.export == ("A=1", "B=2", "C=3", "D=4")
    assert (options.host, options.requeue_on) == ("h1:4,h2:4", "75")


def test_names_are_as_on_the_command_line(home: Path) -> None:
    project(home, "[default]", "num-gpus = 3", "use_env = true", 'start_timeout = "2m"')
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
    project(home, "[default]", setting)
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
    assert project_file([""]) == ""
    write(home / "dsrun.toml", "[default]", "grace = 2")
    assert project_file(["src"]) == str(home / "dsrun.toml")
    assert project_file([str(home.parent)]) == str(home.parent / "dsrun.toml")


def test_a_current_folder_that_is_gone_has_no_project(home: Path) -> None:
    folder = home / "project" / "gone"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()
    assert project_file([""]) == ""


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
    project(home, "[default]", "ssh_port = 22", "grace = 5", "no_fold = true", "json = true")
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
        (["[default]", "", "num_gpu = 8"], ":3: num_gpu: unknown option (did you mean num_gpus?)"),
        (["[default]", "qqqq = 8"], ":2: qqqq: unknown option; see dsrun --help"),
        (["[profile.lab]", "H = 'hosts'"], ":2: H: unknown option"),
        (["[profile.lab]", "grase = 8"], ":2: grase: unknown option (did you mean grace?)"),
        (["[defualt]", "grace = 8"], ":1: defualt: not [default] or [profile.NAME] (did you mean"),
        (["# no table", "grace = 8"], ":2: grace: not [default] or [profile.NAME]; write it below"),
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
        (["[default]", "host = [true]"], ":2: host: expected a text or a list of them"),
        (["[default.host]", "a = 1"], ":1: host: expected a text or a list of them, not a table"),
        (["[default]", "color = 'red'"], ":2: color: expected one of auto, always, never"),
        (["[default]", "profile = 'lab'"], ":2: profile: only on the command line"),
        (["[default]", "trust = '.'"], ":2: trust: only on the command line"),
        (["[default]", "grace = "], ":2: not valid TOML: "),
        (["[default]", "grace = 1", "grace = 2"], "not valid TOML: "),
        (["[default]", f"host = {'[' * 5000}"], "not valid TOML: "),
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
    assert "not valid TOML" in refused()


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_can_change_is_refused(mode: int, home: Path) -> None:
    path = project(home, "[default]", "grace = 1")
    path.chmod(mode)
    assert refused().startswith(f"{path}: other users can change it; run chmod go-w {path}")
    path.chmod(0o644)
    path.parent.chmod(mode | 0o111)
    assert refused().startswith(f"{path.parent}: other users can change it")


def test_the_folder_that_a_link_leads_to_is_looked_at_as_well(home: Path) -> None:
    path = write(home / "open" / "real.toml", "[default]", "grace = 1")
    (home / "project" / "dsrun.toml").symlink_to(path)
    assert command().options.grace == 1.0
    path.parent.chmod(0o777)
    assert refused().startswith(f"{path.parent}: other users can change it")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(home: Path) -> None:
    path = project(home, "[default]", "grace = 1")
    os.chown(path, 12345, -1)
    assert refused().startswith(f"{path}: belongs to another user")


def test_what_is_no_file_is_refused(home: Path) -> None:
    path = home / "project" / "dsrun.toml"
    os.mkfifo(path)
    assert refused().startswith(f"{path}: is a pipe, not a file")
    path.unlink()
    path.mkdir()
    assert refused().startswith(f"{path}: is a directory")


# -- trust ----------------------------------------------------------------------------------------

RUNNING = {name for name, row in all_options().items() if row.runs_here}


def test_options_that_name_a_program_need_trust() -> None:
    commands = {name for name, row in all_options().items() if row.metavar in {"COMMAND", "ARGS"}}
    assert commands - RUNNING == {"health_command"}  # it runs on the nodes
    assert {"launcher_path", "python", "venv_script"} <= RUNNING


@pytest.mark.parametrize("name", sorted(RUNNING))
def test_a_project_may_run_programs_only_once_it_is_trusted(name: str, home: Path) -> None:
    path = project(home, "[profile.lab]", f"{name} = 'x'")
    assert refused() == (
        f"{path}:2: {name}: runs a program on this machine, and this file is not trusted; read it,"
        f" then type: dsrun --trust {path.parent}"
    )
    assert trust(".", {}) == str(path)
    assert getattr(command("--profile=lab").options, name) == "x"
    project(home, "[profile.lab]", f"{name} = 'y'")
    assert "is not trusted" in refused()


def test_a_person_may_set_them(home: Path) -> None:
    person(home, "[default]", "on_event = 'x'")
    project(home, "[default]", "health_command = 'y'")
    assert command().options.on_event == "x"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_trust_is_kept_where_nobody_else_can_change_it(home: Path) -> None:
    environ = {"XDG_STATE_HOME": str(home / "state")}
    path = project(home, "[default]", "on_event = 'x'")
    trust(str(path.parent), environ)
    other = write(home / "other" / "dsrun.toml", "[default]")
    trust(str(other.parent), environ)
    kept = home / "state" / "dsrun" / NAME
    assert (mode(kept), mode(kept.parent)) == (0o600, 0o700)
    assert [one.name for one in kept.parent.iterdir()] == [NAME]
    assert is_trusted(str(path), path.read_bytes(), environ)
    assert not is_trusted(str(path), b"", environ)
    assert not is_trusted(str(path), path.read_bytes(), {})
    kept.chmod(0o622)
    assert "other users can change it" in refused(**environ)
    kept.chmod(0o600)
    kept.parent.chmod(0o777)
    assert "other users can change it" in refused(**environ)


@pytest.mark.parametrize("kept", ["{", "[]", '{"x": 1}', ""])
def test_a_damaged_list_of_trusted_files_trusts_none(kept: str, home: Path) -> None:
    path = project(home, "[default]", "on_event = 'x'")
    trust(".", {})
    (home / ".local" / "state" / "dsrun" / NAME).write_text(kept)
    assert "is not trusted" in refused()
    trust(".", {})
    assert is_trusted(str(path), path.read_bytes(), {})


def test_only_a_valid_and_safe_file_can_be_trusted(home: Path) -> None:
    with pytest.raises(UsageError, match=r"^--trust src: no dsrun.toml there"):
        trust("src", {})
    path = project(home, "[default]", "on_evnt = 'x'")
    with pytest.raises(UsageError, match=r"did you mean on_event\?"):
        trust(".", {})
    project(home, "[default]", "on_event = 'x'").chmod(0o666)
    with pytest.raises(UsageError, match="other users can change it"):
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
    path = project(home, "[default]", "export = ['A=1']", "grace = 1", 'role = "a\\u001bb"')
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
        assert {"profile", "show_config", "no_config"} <= shared(tool).keys()
    assert {name for name, (_, row) in table().items() if row.only_typed} == {
        *("profile", "show_config", "no_config", "trust"),
    }
