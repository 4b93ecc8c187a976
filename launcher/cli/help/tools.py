"""The help of the commands other than dsrun."""

from __future__ import annotations

from ...common.records import NamedTuple
from ..options import shared
from ..tool_options import OWN
from .rows import OptionRow, of, row


class Tool(NamedTuple):
    """One command.

    Attributes:
        title: the purpose of the command, in a few words.
        usage: the ways to call it, a line each.
        text: paragraphs before the options; one with a leading blank is unchanged.
        rows: its own options.
        more: paragraphs after the options.
        shared: names of the options shared with dsrun.
        shared_words: text of the help instead of these names, or "".
    """

    title: str
    usage: tuple[str, ...]
    text: tuple[str, ...]
    rows: tuple[OptionRow, ...]
    more: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    shared_words: str = ""


def _of_dsrun(name: str, text: str, otherwise: str = "none") -> OptionRow:
    known = row(name)
    return OptionRow((f"--{name}",), known.metavar, text, otherwise, known.choices, known.values)


_HELP = OptionRow(("-h", "--help"), "", "Print this help.")


def _own(command: str) -> tuple[OptionRow, ...]:
    """Return a command's own options, and its help."""
    return (*(of(name, option) for name, option in OWN[command].items()), _HELP)


def _shared(command: str) -> tuple[str, ...]:
    return tuple(shared(command.removeprefix("dsrun-")))


TOPO = Tool(
    "draw this machine and show how ranks would be bound to its cores",
    ("[options]",),
    (
        "Draw the sockets, NUMA nodes, cores, devices and network cards of this machine, and show"
        " what each rank would be bound to.",
    ),
    (
        _of_dsrun("num_gpus", "Number of ranks.", "one per device, else per NUMA node"),
        _of_dsrun("accelerator", "Kind of device to use.", "detected"),
        _of_dsrun("bind_to", "What each rank is bound to.", "core"),
        _of_dsrun("numa_binding", "What each rank is bound to, in torchrun's terms."),
        _of_dsrun("bind_core_list", "Use only these CPUs: 0,2-5.", "all"),
        _of_dsrun("bind_smt", "Use all hardware threads of a core.", "yes"),
        _of_dsrun("bind_memory", "Where ranks allocate memory.", "auto"),
        OptionRow(("--json",), "", "Print one JSON object."),
        _HELP,
    ),
    (
        "dsrun --help cores describes these options. For other machines:",
        "  dsrun -H hosts --num_gpus 1 --no_local_rank --no_python dsrun-topo",
    ),
)

ELASTIC = Tool(
    "show the elastic batch plan of a DeepSpeed config",
    ("-c FILE [-w N] [--json]",),
    (
        "Compute the elastic batch plan of a DeepSpeed config, and for each valid world size the"
        " micro batch per rank, the gradient accumulation steps and the batch size.",
    ),
    (
        OptionRow(
            ("-c", "--config"),
            "FILE",
            'The DeepSpeed config: JSON with an "elasticity" block, version 0.1 or 0.2.',
            "none; required",
        ),
        OptionRow(
            ("-w", "--world_size"),
            "N",
            "Show only this number of ranks. With version 0.2 it may be outside the plan.",
            "all world sizes of the plan",
        ),
        OptionRow(
            ("--json",), "", "Print one JSON object, with the key names of DeepSpeed configs."
        ),
        _HELP,
    ),
    ("With dsrun --elastic_config FILE, a job must have a valid world size.",),
)

JOB = Tool(
    "list, watch and control jobs",
    ("[VERB] [JOB] [options]",),
    (
        "JOB is an id, part of an id, or 'last'; leave it out if there is only one job. Verbs"
        " that change nothing also accept the name of the job's program.",
        "  list          your jobs and holds on this machine\n"
        "  top           hosts and ranks, live\n"
        "  logs          the output of a job\n"
        "  wait          wait for a job to end\n"
        "  report        how a job is doing, or how it ended\n"
        "  stacks        where each rank is in its code\n"
        "  signal USR1   send a signal to all ranks\n"
        "  scale N       limit an elastic job to N nodes\n"
        "  restart       start a --role again\n"
        "  kill          stop a job; with -H FILE, kill its leftovers there\n"
        "  forget        delete the records of a job that has ended",
    ),
    rows=_own("dsrun-job"),
    shared=_shared("dsrun-job"),
    shared_words="kill also accepts dsrun's host options: see `man dsrun-job`.",
)

HOLD = Tool(
    "keep nodes connected, so that jobs start on them at once",
    ("[options]", "--release NAME"),
    (
        "Connect to nodes, check them, and keep them for any number of jobs, one after another or"
        " together on different devices: dsrun --on NAME SCRIPT. The nodes are released by"
        " --release, Ctrl-C, --idle_timeout, or when this process exits.",
    ),
    rows=_own("dsrun-hold"),
    shared=_shared("dsrun-hold"),
)

EXEC = Tool(
    "run a command on all hosts, or copy files to and from them",
    ("[options] COMMAND [ARGS...]", "[options] --copy|--fetch FILE... [--to DIR]"),
    (
        "Run a command on all hosts, and print identical output once. The exit code is the largest"
        " of all, or 69 for an unreachable host. Ctrl-C stops it everywhere.",
    ),
    rows=_own("dsrun-exec"),
    shared=_shared("dsrun-exec"),
)

CHECK = Tool(
    "look for faults in nodes, without a job",
    ("[options] [SCRIPT]", "[options] --promises [ROW,ROW...]"),
    (
        "Collect facts about all nodes, compare them as the quick check before every start does,"
        " and print a table and the findings. SCRIPT is compared, too. The exit code is 69 if there"
        " is an error, or with --strict a warning.",
    ),
    rows=_own("dsrun-check"),
    shared=_shared("dsrun-check"),
    shared_words="It also accepts dsrun's options for hosts, ssh, containers and Python: see `man"
    " dsrun-check`.",
)

TOOLS = {
    "dsrun-topo": TOPO,
    "dsrun-elastic": ELASTIC,
    "dsrun-job": JOB,
    "dsrun-hold": HOLD,
    "dsrun-exec": EXEC,
    "dsrun-check": CHECK,
}
"""Every command other than dsrun, by name."""
