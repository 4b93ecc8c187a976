"""The parser: accepted spellings, refused options, and the messages."""

from __future__ import annotations

import pytest

from dsrun.launcher.cli.options import all_options, table
from dsrun.launcher.cli.parser import Command, name_variables, other_variables, parse
from dsrun.launcher.cli.peers import REFUSED
from dsrun.launcher.common.errors import UsageError

OPTIONS = all_options()


def parsed(*words: str, **environ: str) -> Command:
    return parse([*words, "train.py"], environ)


@pytest.mark.parametrize(
    ("words", "environ", "grace"),
    [
        ((), {}, 7.0),
        (("--grace=5",), {}, 5.0),
        (("--shutdown_timeout=5",), {}, 5.0),
        ((), {"DSRUN_GRACE": "6"}, 6.0),
        ((), {"PET_SHUTDOWN_TIMEOUT": "8"}, 8.0),
        ((), {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": ""}, 30.0),
    ],
)
def test_torchs_variable_is_the_default_of_the_grace(
    words: tuple[str, ...], environ: dict[str, str], grace: float
) -> None:
    command = parsed(*words, **{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "7", **environ})
    assert command.options.grace == grace


def test_a_default_that_is_no_duration_is_named_by_its_variable() -> None:
    with pytest.raises(UsageError, match="TORCH_ELASTIC_SHUTDOWN_TIMEOUT: expected a duration"):
        parsed(TORCH_ELASTIC_SHUTDOWN_TIMEOUT="x")


def set_by(command: Command) -> dict[str, object]:
    """Return the options that differ from their defaults."""
    return {
        name: value
        for name, field in OPTIONS.items()
        if (value := getattr(command.options, name)) != field.default
    }


def error_of(*words: str, **environ: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse([*words, "train.py"], environ)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["--num_gpus", "2"], {"num_gpus": 2}),
        (["--num-gpus", "2"], {"num_gpus": 2}),
        (["--num_gpus=2"], {"num_gpus": 2}),
        (["--num-gpus=2"], {"num_gpus": 2}),
        (["--num-accelerators=2"], {"num_gpus": 2}),
        (["--num_gpus", "2", "--num_gpus=3"], {"num_gpus": 3}),
        (["-H", "hosts"], {"hostfile": "hosts"}),
        (["-Hhosts"], {"hostfile": "hosts"}),
        (["-H=hosts"], {"hostfile": "hosts"}),
        (["-H", "-odd"], {"hostfile": "-odd"}),
        (["--hostfile", "--"], {"hostfile": "--"}),
        (["--hostfile="], {}),
        (["--hostfile=a=b"], {"hostfile": "a=b"}),
        (["-ia:0@b"], {"include": "a:0@b"}),
        (["-e", "a", "-q", "-m"], {"exclude": "a", "quiet": True, "module": True}),
        (["-r", "3", "-t1"], {"redirects": "3", "tee": "1"}),
        (["--grace", "1.5"], {"grace": 1.5}),
        (["--shutdown-timeout=7"], {"grace": 7.0}),
        (["--shutdown-timeout=1m30s"], {"grace": 90.0}),
        (["--start_timeout", "1h30m"], {"start_timeout": 5400.0}),
        (["--export", "A", "--export=B=c=d"], {"export": ("A", "B=c=d")}),
        (["--env-file", "x", "--env_file", "y"], {"env_file": ("x", "y")}),
        (["--prefix", ""], {"prefix": ""}),
        (["--launcher_args", "-o A=b -v"], {"launcher_args": "-o A=b -v"}),
        (["--color", "never"], {"color": "never"}),
        (["--color", "NEVER"], {"color": "never"}),
        (["--log_level", "WARNING"], {"log_level": "warning"}),
        (["--no_local_rank", "--no-ssh-check"], {"no_local_rank": True, "no_ssh_check": True}),
    ],
)
def test_spellings(words: list[str], expected: dict[str, object]) -> None:
    command = parsed(*words)
    assert set_by(command) == expected
    assert command.program == ("train.py",)


def test_every_option_by_every_name_and_both_spellings() -> None:
    samples = {"int": "7", "seconds": "7", "str": "7", "list": "7"}
    typed = {"int": 7, "seconds": 7.0, "str": "7", "list": ("7",), "bool": True}
    for name, (field, spec) in table().items():
        words = {name} if name.startswith("-") else {f"--{name}", f"--{name.replace('_', '-')}"}
        value = spec.choices[-1] if spec.choices else samples.get(spec.kind, "")
        for word in words:
            given = [word] if spec.kind == "bool" else [word, value]
            expected = spec.choices[-1] if spec.choices else typed[spec.kind]
            assert set_by(parsed(*given)) == {field: expected}, word


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (["train.py", "--num_gpus", "2", "-h", "--", "-q"], None),
        (["train.py", "--", "--depth=12"], ("train.py", "--depth=12")),
        (["train.py", "--", "--", "x", "--"], ("train.py", "--", "x", "--")),
        (["train.py", "--"], ("train.py",)),
        (["-m", "pkg.mod", "--", "--depth=12"], ("pkg.mod", "--depth=12")),
        (["-q", "--", "train.py", "--", "x"], ("train.py", "--", "x")),
        (["--", "--odd.py", "--", "x"], ("--odd.py", "--", "x")),
        (["-q", "--", "train.py"], ("train.py",)),
        (["-q", "--"], ()),
        (["-"], ("-",)),
        (["-m", "pkg.mod", "--help"], ("pkg.mod", "--help")),
        (["", "a"], ("", "a")),
        (["train.py", "", " ", "a b", "$x", "\udcff", "'"], None),
        (["train.py", "--export", "A"], None),
    ],
)
def test_everything_after_the_script_is_passed_to_it(
    argv: list[str], program: tuple[str, ...] | None
) -> None:
    command = parse(argv, {})
    assert command.program == (tuple(argv) if program is None else program)
    assert not command.help
    assert not command.given - {"quiet", "module"}


@pytest.mark.parametrize(
    "words",
    [
        "s.py -- --x", "s.py -- -- --x", "s.py --", "s.py a -- b", "s.py --x -- b", "-- s.py -- b",
        "-- s.py", "-m mod -- --x", "--no-python cmd -- -x",
    ],
)  # fmt: skip
def test_two_dashes_mean_what_they_mean_for_torchrun(words: str) -> None:
    run = pytest.importorskip("torch.distributed.run")
    peer = run.get_args_parser().parse_args(words.split())
    assert parse(words.split(), {}).program == (peer.training_script, *peer.training_script_args)


@pytest.mark.parametrize(
    ("words", "page"),
    [
        (["-h"], "short"),
        (["--help"], "all"),
        (["-q", "--help", "--no_such"], "all"),
        (["--help="], "all"),
        (["--help", "hosts"], "hosts"),
        (["-q", "--help=hosts", "x.py"], "hosts"),
        (["-h", "hosts", "x.py"], "hosts"),
    ],
)
def test_a_page_of_the_help_is_requested(words: list[str], page: str) -> None:
    assert parse(words, {}).help == page


@pytest.mark.parametrize("words", [["--help", "nope"], ["-h", "nope"], ["--help=nope"]])
def test_an_unknown_topic_is_refused_with_those_that_exist(words: list[str]) -> None:
    topics = "hosts, output, elastic, cores, slurm"
    assert error_of(*words) == f"--help nope: unknown topic; expected one of {topics}"


@pytest.mark.parametrize("words", [["-V"], ["--version"], ["-q", "--version", "--no_such"]])
def test_the_version_is_requested(words: list[str]) -> None:
    assert parse(words, {}).version


@pytest.mark.parametrize(
    ("words", "environ", "notes"),
    [
        (["--start-method", "spawn"], {}, ["--start_method has no effect: workers are always"]),
        (["--event-log-handler=null"], {}, ["--event_log_handler has no effect: --report_file"]),
        (
            [],
            {"DSRUN_NUM_GPU": "2", "DSRUN_XYZ": "", "NUM_GPU": ""},
            [
                "DSRUN_NUM_GPU has no effect: unknown variable (did you mean DSRUN_NUM_GPUS?)",
                "DSRUN_XYZ has no effect: unknown variable; see dsrun --help",
            ],
        ),
        ([], {"DSRUN_JOBID": ""}, ["DSRUN_JOBID has no effect: unknown variable (did you mean"]),
        # Variables that a worker gets, when it runs dsrun itself.
        ([], dict.fromkeys(other_variables(), "1"), []),
    ],
)
def test_what_has_no_effect_is_noted(
    words: list[str], environ: dict[str, str], notes: list[str]
) -> None:
    shown = parse([*words, "x"], environ).notes
    assert [note.startswith(start) for note, start in zip(shown, notes, strict=True)] == [
        True for _ in notes
    ]


LISTS = {
    "host": "n1:2,n2:2", "include": "n1@n2:0", "exclude": "n1@n2:0", "preload": "torch,numpy",
    "launcher_args": "-t 60", "console_ranks": "0,3", "local_ranks_filter": "0,1",
    "requeue_on": "3,4", "no_restart_codes": "3,4", "restart_on": "node,network",
    "warm_modules": "torch,numpy", "bind_core_list": "0-3,5", "debug": "0,3",
    "rdzv_conf": "timeout=60,join_timeout=5", "signals_to_handle": "SIGTERM,SIGUSR1",
    "slots": "0,2-3", "ports": "http,grpc", "after": "rollout,reward",
    "container_args": "--privileged --init", "first": "--head x", "rest": "--tail y",
}  # fmt: skip


def test_lists_that_are_given_piece_by_piece_are_joined() -> None:
    assert {name for name, spec in OPTIONS.items() if spec.separator} == LISTS.keys()
    for name, whole in LISTS.items():
        pieces = whole.split(OPTIONS[name].separator)
        assert len(pieces) > 1
        command = parsed(*(word for one in pieces for word in (f"--{name}", one)))
        assert set_by(command) == {name: whole}
        assert command.notes == ()


@pytest.mark.parametrize(
    ("words", "environ", "expected"),
    [
        (["--host=n2"], {"DSRUN_HOST": "n1"}, {"host": "n2"}),
        (["--host=n2", "--host=n3"], {"DSRUN_HOST": "n1"}, {"host": "n2,n3"}),
        (["-in1", "--include", "n2"], {}, {"include": "n1@n2"}),
        # A variable that is not set is no reason to train on fewer hosts.
        (["--host=", "--host=n2"], {}, {"host": ",n2"}),
        (["--host=n1", "--host="], {}, {"host": ""}),
        (["--launcher_args=-v", "--launcher_args="], {}, {}),
        (["--bind_core_list=1", "--bind_core_list=None", "--bind_core_list=3"], {},
         {"bind_core_list": "3"}),
    ],
)  # fmt: skip
def test_what_a_piece_of_a_list_is_added_to(
    words: list[str], environ: dict[str, str], expected: dict[str, object]
) -> None:
    assert set_by(parsed(*words, **environ)) == expected


@pytest.mark.parametrize(
    ("words", "environ", "noted"),
    [
        (["--expect=a", "--expect=b"], {}, "--expect is given 2 times; only the last one counts"),
        (["-Ha", "-Hb", "--hostfile=c"], {}, "--hostfile is given 3 times; only the last one coun"),
        (
            ["--num_gpus=2", "--num_accelerators=3"],
            {},
            "--num_gpus is given 2 times; only the last",
        ),
        (["--num_gpus=2", "--num_gpus=-1"], {}, "--num_gpus is given 2 times; only the last one"),
        (["--num_gpus=2", "--num-gpus", "2"], {}, ""),
        (["--num_gpus=2"], {"DSRUN_NUM_GPUS": "3"}, ""),
        (["--export=A", "--export=B", "-q", "-q"], {}, ""),
    ],
)
def test_an_option_that_counts_once_is_never_dropped_in_silence(
    words: list[str], environ: dict[str, str], noted: str
) -> None:
    notes = parsed(*words, **environ).notes
    assert len(notes) == bool(noted)
    assert "".join(notes).startswith(noted)


def test_use_env_means_no_local_rank() -> None:
    assert set_by(parsed("--use-env")) == {"no_local_rank": True}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--num_gpuss", "2"],
            "--num_gpuss: unknown option (did you mean --num_gpus?); see dsrun ",
        ),
        (["--numgpu", "2"], "--numgpu: unknown option (did you mean --num_gpus?)"),
        (["--expor", "A"], "--expor: unknown option (did you mean --export?)"),
        (["--watch"], "--watch: unknown option (did you mean --watch_hostfile?)"),
        (
            ["--rdzv=x"],
            "--rdzv: unknown option (did you mean --rdzv_backend, --rdzv_endpoint, --rd",
        ),
        (
            ["--max=2"],
            "--max: unknown option (did you mean --max_elastic_nodes or --max_restarts?)",
        ),
        (["--batch_size=32"], "--batch_size: unknown option; see dsrun --help"),
        (["--lr", "1"], "--lr: unknown option; see dsrun --help"),
        (["-include", "n1"], "-include: a long option has two dashes: --include"),
        (["-tee=3"], "-tee=3: a long option has two dashes: --tee"),
        (["--host_file=x"], "--host_file: unknown option (did you mean --hostfile?); see dsrun "),
        (["-hostfile", "x"], "-hostfile: unknown option (did you mean --hostfile?)"),
        (["--env", "A=1"], "--env: unknown option (did you mean --export?)"),
        (["-np", "2"], "-np: unknown option (mpirun's: a total; --num_gpus N is the number per h"),
        (
            ["-mca", "a", "b"],
            "-mca: unknown option (mpirun's: with --launcher openmpi, --launcher_ar",
        ),
        (["-N", "2"], "-N: unknown option (did you mean --num_nodes?)"),
        (["--report=r"], "--report: unknown option (did you mean --report_file?)"),
        (["--xyzzy"], "--xyzzy: unknown option; see dsrun --help"),
        (["--H", "x"], "--H: unknown option"),
        (["---hostfile", "x"], "---hostfile: unknown option"),
        (["--=x"], "--: unknown option"),
        (["-x"], "-x: unknown option (did you mean --export?); see dsrun --help"),
        (["-1"], "-1: unknown option; see dsrun --help"),
        (["-qm"], "-q: takes no value, not 'm'"),
        (["--quiet=1"], "--quiet: takes no value, not '1'"),
        (
            ["--num_gpus", "two"],
            "--num_gpus: expected 1 to 4096 (default: all slots), not 'two'",
        ),
        (["--num_gpus=1.5"], "--num_gpus: expected 1 to 4096 (default: all slots), not '1.5'"),
        (["--num-gpus=-3"], "--num-gpus: expected 1 to 4096 (default: all slots), not '-3'"),
        (["--stdin", "all"], "--stdin: expected one of none, rank0, not 'all'"),
        (
            ["--stdin=rank1"],
            "--stdin: expected one of none, rank0, not 'rank1' (did you mean rank0?)",
        ),
        (
            ["--num_gpus=all"],
            "--num_gpus: expected 1 to 4096 (default: all slots), not 'all'; leave",
        ),
    ],
)
def test_refused(words: list[str], message: str) -> None:
    fault = error_of(*words)
    assert fault.startswith(message)
    assert "\n" not in fault


@pytest.mark.parametrize(
    ("words", "whole", "expected"),
    [
        (["--nproc_per", "2"], "nproc_per_node", "2"),
        (["--nproc-per=2"], "nproc_per_node", "2"),
        (["--stand"], "standalone", True),
        (["--log_d", "x"], "log_dir", "x"),
        (["--num_gpu=2"], "num_gpus", 2),
        (["--hostfi", "x"], "hostfile", "x"),
        (["--num_a", "2"], "num_accelerators", 2),
    ],
)
def test_the_beginning_of_a_peers_option_is_taken_for_it_with_a_line(
    words: list[str], whole: str, expected: object
) -> None:
    command = parsed(*words)
    field = table()[whole][0]
    assert set_by(command) == {field: expected}
    assert command.notes == (f"{words[0].partition('=')[0]} is read as --{whole}",)


def test_the_beginning_of_an_unsupported_option_is_refused_as_that() -> None:
    assert error_of("--autotun=x").startswith("--autotuning: not supported; ")


def test_beginnings_count_only_on_a_command_line() -> None:
    with pytest.raises(UsageError, match="--num_gpu: unknown option"):
        parse(["--num_gpu=2", "t.py"], {}, "docs/python.md")
    notes = parsed(DSRUN_NPROC_PER="2", PET_NPROC_PER="2").notes
    assert len(notes) == 1
    assert notes[0].startswith("DSRUN_NPROC_PER has no effect: unknown variable")


def test_an_option_of_the_script_tells_where_the_script_is() -> None:
    with pytest.raises(UsageError) as caught:
        parse(["--on", "t.py", "--lr", "0.1"], {})
    assert str(caught.value).endswith("; t.py was taken as the value of --on")


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "soon", "", "1h30"])
def test_a_bad_duration_is_refused_with_the_forms(text: str) -> None:
    valid = "a duration such as 30, 90s, 30m, 2h or 1h30m, from 0 to 999999999 s"
    assert error_of(f"--grace={text}") == f"--grace: expected {valid}, not '{text}'"


def test_a_value_that_is_missing() -> None:
    with pytest.raises(UsageError, match=r"^--hostfile: expected FILE after it$"):
        parse(["--hostfile"], {})
    with pytest.raises(UsageError, match=r"^-i: expected SPEC after it$"):
        parse(["-q", "-i"], {})


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_options_are_refused_with_an_alternative(name: str) -> None:
    dashed = name.replace("_", "-")
    for word in (f"--{name}", f"--{dashed}", f"--{name}=x"):
        assert error_of(word) == f"{word.partition('=')[0]}: not supported; {REFUSED[name]}"
    assert name not in table()


# What `deepspeed` (0.19.6) and `torchrun` (torch 2.13) take, from their parsers.
DEEPSPEED = str.split("""
    -H --hostfile -i --include -e --exclude --num_nodes --min_elastic_nodes --max_elastic_nodes
    --num_gpus --num_accelerators --master_port --master_addr --node_rank --launcher
    --launcher_args --module --no_python --no_local_rank --no_ssh --no_ssh_check --force_multi
    --save_pid --enable_each_rank_log --autotuning --elastic_training --bind_cores_to_rank
    --bind_core_list --ssh_port --venv_script --log_level -q --quiet
""")
TORCHRUN = str.split("""
    --nnodes --nproc-per-node --rdzv-backend --rdzv-endpoint --rdzv-id --rdzv-conf --standalone
    --max-restarts --monitor-interval --start-method --event-log-handler --role -m --module
    --no-python --run-path --log-dir -r --redirects -t --tee --local-ranks-filter
    --duplicate-stdout-filters --duplicate-stderr-filters --node-rank --master-addr --master-port
    --local-addr --logs-specs --numa-binding --signals-to-handle --shutdown-timeout
    --virtual-local-rank --use-env
""")


@pytest.mark.parametrize("word", [*DEEPSPEED, *TORCHRUN])
def test_every_option_of_the_peers_is_accepted_or_refused_with_an_alternative(word: str) -> None:
    for spelling in {word, "--" + word[2:].replace("-", "_") if word[:2] == "--" else word}:
        key = word[2:].replace("-", "_") if word[:2] == "--" else word
        if key in table():
            field, spec = table()[key]
            value = spec.choices[-1] if spec.choices else "7"
            given = [spelling] if spec.kind == "bool" else [spelling, value]
            assert set(set_by(parsed(*given))) == {field}
        else:
            assert len(error_of(spelling).partition(": not supported; ")[2]) > 10


@pytest.mark.parametrize(
    ("words", "field", "default"),
    [
        # DeepSpeed's and torchrun's own defaults, written out as their users' scripts do.
        (["--num_nodes", "-1"], "num_nodes", None),
        (["--num_gpus=-1"], "num_gpus", None),
        (["--node_rank", "-1"], "node_rank", None),
        (["--master_addr", ""], "master_addr", None),
        (["--enable_each_rank_log", "None"], "log_dir", ""),
        (["--bind_core_list", "None"], "bind_core_list", ""),
        (["--num_gpus", "4", "--num_gpus", "-1"], "num_gpus", None),
    ],
)
def test_a_value_that_means_not_given(words: list[str], field: str, default: object) -> None:
    command = parsed(*words)
    assert getattr(command.options, field) == default
    assert field not in command.given


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"DSRUN_NUM_GPUS": "2"}, {"num_gpus": 2}),
        ({"DSRUN_NUM_ACCELERATORS": "2"}, {"num_gpus": 2}),
        ({"DSRUN_HOSTFILE": "h", "HOSTFILE": "x", "dsrun_grace": "1"}, {"hostfile": "h"}),
        ({"DSRUN_GRACE": "2m"}, {"grace": 120.0}),
        ({"DSRUN_QUIET": "1"}, {"quiet": True}),
        ({"DSRUN_QUIET": "Yes"}, {"quiet": True}),
        ({"DSRUN_QUIET": "0"}, {}),
        ({"DSRUN_QUIET": ""}, {}),
        ({"DSRUN_NUM_GPUS": "-1"}, {}),
        ({"DSRUN_EXPORT": "A=1"}, {"export": ("A=1",)}),
        ({"DSRUN_LOG_LEVEL": "debug"}, {"log_level": "debug"}),
        ({"DSRUN_TOKEN": "x", "DSRUN_JOB_ID": "y"}, {}),
        ({"DSRUN_ROLLOUT_ADDRS": "h:1", "DSRUN_PORT_HTTP": "1", "DSRUN_ROLES_FILE": "f"}, {}),
    ],
)
def test_variables(environ: dict[str, str], expected: dict[str, object]) -> None:
    command = parse(["train.py"], environ)
    assert set_by(command) == expected
    assert command.given == set(expected)
    assert command.notes == ()


def test_every_option_of_seconds_takes_a_duration() -> None:
    durations = [name for name, spec in OPTIONS.items() if type(spec.default) is float]
    assert len(durations) >= 10
    for name in durations:
        assert set_by(parsed(f"--{name}=1h1m")) == {name: 3660.0}
        assert set_by(parsed(**{f"DSRUN_{name.upper()}": "1m1s"})) == {name: 61.0}


def test_every_option_has_its_variable() -> None:
    for name, spec in OPTIONS.items():
        value = spec.choices[-1] if spec.choices else "1"
        found = {*set_by(parse(["x"], {f"DSRUN_{name.upper()}": value}))}
        assert found == ({name} if name != "trust" else set()), "DSRUN_TRUST has folders"


def test_the_command_line_takes_precedence_over_variables() -> None:
    environ = {"DSRUN_NUM_GPUS": "2", "DSRUN_GRACE": "5", "DSRUN_EXPORT": "A"}
    command = parse(["--num_gpus=3", "--export", "B", "x"], environ)
    assert set_by(command) == {"num_gpus": 3, "grace": 5.0, "export": ("A", "B")}
    assert set_by(parse(["--num_gpus=-1", "x"], {"DSRUN_NUM_GPUS": "2"})) == {}


@pytest.mark.parametrize(
    ("words", "environ", "expected"),
    [
        (
            [],
            {"PET_NPROC_PER_NODE": "2", "PET_LOG_DIR": "l"},
            {"nproc_per_node": "2", "log_dir": "l"},
        ),
        ([], {"PET_NNODES": "", "PET_NODE_RANK": "1", "PET_HOSTFILE": "h", "pet_role": "x"}, {}),
        ([], {"PET_STANDALONE": "1", "PET_NO_PYTHON": "0"}, {"standalone": True}),
        ([], {"PET_SHUTDOWN_TIMEOUT": "7"}, {"grace": 7.0}),
        ([], {"PET_ROLE": "a", "DSRUN_ROLE": "b"}, {"role": "b"}),
        (["--role=c"], {"PET_ROLE": "a", "DSRUN_ROLE": "b"}, {"role": "c"}),
        (["--role=c"], {"PET_ROLE": "a"}, {"role": "c"}),
    ],
)
def test_variables_of_torchrun_have_the_lowest_precedence(
    words: list[str], environ: dict[str, str], expected: dict[str, object]
) -> None:
    assert set_by(parsed(*words, **environ)) == expected


def test_every_option_of_torchrun_has_its_variable() -> None:
    flags = {word[2:].replace("-", "_") for word in TORCHRUN if len(word) > 2}
    # What torchrun reads from no variable, what is refused, and what identifies the node.
    others = {"logs_specs", "numa_binding", "use_env", "node_rank", *REFUSED}
    assert flags - others == {row.torchrun for row in all_options().values() if row.torchrun}


@pytest.mark.parametrize(
    ("words", "environ", "prefix"),
    [
        ([], "[${role_name}${rank}]: ", "[{role}{rank}]: "),
        ([], "$local_rank {x} $$ ${what} ", "{local_rank} {{x}} $ ${{what}} "),
        (["--prefix", "{host} "], "[$rank]", "{host} "),
        ([], "", "{host}:{rank}| "),
    ],
)
def test_the_template_of_torchrun_is_the_default_prefix(
    words: list[str], environ: str, prefix: str
) -> None:
    command = parsed(*words, TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=environ)
    assert command.options.prefix == prefix
    assert "prefix" not in command.given or words


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"DSRUN_QUIET": "maybe"}, "DSRUN_QUIET: expected 1 or 0, not 'maybe'"),
        (
            {"DSRUN_NUM_GPUS": "x"},
            "DSRUN_NUM_GPUS: expected 1 to 4096 (default: all slots), not 'x'",
        ),
        (
            {"DSRUN_START_TIMEOUT": "0s"},
            "DSRUN_START_TIMEOUT: expected a duration such as 30, 90s, 30m, 2h or 1h30m,"
            " above 0, up to 999999999 s, not '0s'",
        ),
        ({"DSRUN_STDIN": "x"}, "DSRUN_STDIN: expected one of none, rank0, not 'x'"),
    ],
)
def test_invalid_values_of_variables(environ: dict[str, str], message: str) -> None:
    assert error_of(**environ) == message


@pytest.mark.parametrize(
    ("words", "like"),
    [
        (["--nproc_per_node=2"], True),
        (["--nnodes", "1"], True),
        (["--standalone"], True),
        (["--num_gpus=2", "--log-dir", "x", "--node_rank=-1"], False),
    ],
)
def test_options_of_torchrun_select_its_behaviour(words: list[str], like: bool) -> None:
    assert parsed(*words).like_torchrun is like


def test_a_message_names_the_variable_that_has_set_an_option() -> None:
    message = "--num_nodes 3 and --hostfile h, not --hostfiles: --grace or -H"
    environ = {"DSRUN_NUM_NODES": "3", "PET_NNODES": "2", "DSRUN_SHUTDOWN_TIMEOUT": "1"}
    expected = "DSRUN_NUM_NODES 3 and --hostfile h, not --hostfiles: DSRUN_SHUTDOWN_TIMEOUT or -H"
    assert name_variables(message, ["-Hh", "x.py"], {**environ, "DSRUN_HOSTFILE": "i"}) == expected
    assert name_variables(message, ["--num-nodes=3", "--grace", "1"], environ) == message


@pytest.mark.parametrize(
    ("words", "layout"),
    [
        (["--nproc_per_node=2"], "torchrun"),
        (["--nproc_per_node=2", "--host=a"], ""),
        (["-H", "hosts", "--nnodes=2"], ""),
        (["--num_gpus=2"], ""),
        (["--nproc_per_node=2", "--log_layout=dsrun"], "dsrun"),
        (["-H", "hosts", "--log_layout=torchrun"], "torchrun"),
    ],
)
def test_command_lines_of_torchrun_get_its_log_layout(words: list[str], layout: str) -> None:
    assert parsed(*words).with_torchruns_logs().options.log_layout == layout


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--log_dir", "~/x"], "log_dir", "/home/me/x"),
        (["--hostfile=~/hosts"], "hostfile", "/home/me/hosts"),
        (["-H", "~/hosts"], "hostfile", "/home/me/hosts"),
        (["--env_file", "~/a", "--env_file", "./~/b"], "env_file", ("/home/me/a", "./~/b")),
        (["--workdir", "~"], "workdir", "/home/me"),
        (["--report_file", "~root/r.json"], "report_file", "/root/r.json"),
        (["--include", "~/a"], "include", "~/a"),
    ],
)
def test_a_tilde_is_the_home_folder_in_a_path(
    monkeypatch: pytest.MonkeyPatch, words: list[str], name: str, value: object
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert getattr(parse([*words, "train.py"], {}).options, name) == value


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("DSRUN_NUM_GPUS", "1 to 4096 (default: all slots)"),
        ("DSRUN_COLOR", "one of auto, always, never"),
        ("DSRUN_GRACE", "a duration such as "),
    ],
)
def test_an_empty_variable_of_a_number_or_a_choice_is_named(variable: str, words: str) -> None:
    said = error_of(**{variable: ""})
    assert said.startswith(f"{variable}: is empty; unset it, or give {words}")
