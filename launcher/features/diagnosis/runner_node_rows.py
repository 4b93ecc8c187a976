"""Ends caused from outside the program: by signals, schedulers, and problems of the node."""

from __future__ import annotations

import signal

from ...specs.verdict import FailureClass, Retry
from .runner_device_rows import ANOTHER_NODE, SHARED
from .runner_file_rows import LESS, THREAD_LIMIT
from .runner_row import Row, said

MEMORY, NODE, SCRIPT, DATA, PREEMPTED = (
    FailureClass.MEMORY,
    FailureClass.NODE,
    FailureClass.SCRIPT,
    FailureClass.DATA,
    FailureClass.PREEMPTED,
)
YES, NO, PERHAPS = Retry.YES, Retry.NO, Retry.UNKNOWN

LONGER = "ask the scheduler for more time, or continue from a checkpoint"
MORE_MEMORY = LESS + ", or ask for more"
SEE_CRASH = "to see where, use --export PYTHONFAULTHANDLER=1, which prints the Python stack"

_THEIRS = (
    r"^(?:(?:slurmstepd|srun|salloc)\S{0,80}: |\[[\dT:.-]{1,30}\] error: |=>> PBS: "
    r"|TERM_[A-Z]{1,20}: )"
)
"""Beginnings of schedulers' lines: text within a line may be a quotation by a program."""

SCHEDULER_ROWS = (
    Row(
        "time-limit",
        PREEMPTED,
        YES,
        said("DUE TO TIME LIMIT", "PBS: job killed: walltime", "TERM_RUNLIMIT"),
        "the scheduler's time limit expired",
        LONGER,
        pattern=_THEIRS,
        apart=True,
    ),
    Row(
        "preempted",
        PREEMPTED,
        YES,
        said("DUE TO PREEMPTION", "TERM_PREEMPT"),
        "the scheduler preempted the job",
        pattern=_THEIRS,
        apart=True,
    ),
    Row(
        "node-failure",
        NODE,
        YES,
        said("DUE TO NODE FAILURE", "CANCELLED DUE TO NODE"),
        "the scheduler lost a node",
        pattern=_THEIRS,
        apart=True,
    ),
    Row(
        "task-failed",
        said=said("DUE TO TASK FAILURE"),
        sentence="Slurm killed it because another task of the step had failed",
        pattern=_THEIRS,
        apart=True,
        echo=True,
    ),
    Row(
        "cancelled",
        PREEMPTED,
        PERHAPS,
        said("slurmstepd: error: ***"),
        "the scheduler cancelled the job",
        pattern=_THEIRS + r".{0,200}CANCELLED\sAT",
        apart=True,
    ),
    Row(
        "scheduler-memory",
        MEMORY,
        NO,
        said(
            "oom_kill event",
            "oom-kill event",
            "cgroup out-of-memory handler",
            "Exceeded job memory limit",
            ": Out Of Memory",
            "TERM_MEMLIMIT",
            "PBS: job killed: mem ",
            "PBS: job killed: vmem ",
        ),
        "the job used more memory than the scheduler allows",
        MORE_MEMORY,
        pattern=_THEIRS,
        apart=True,
    ),
)

_NOTICE = (
    r"^(?:\{\".{0,300}\"(?:message|msg|event)\": ?\"|[\[\dA-Z][^'\"`\n]{0,150}(?:[\])\w] ?[:|\]-] ?"
    r"|\b(?:WARN|WARNING|ERROR|CRITICAL|NOTICE) +))?"
    r"(?i:(?:(?:received|got|caught) )?(?:an? |the )?(?:aws |ec2 |gcp |gce |azure )?"
    r"(?:spot|preemption)(?: instance| vm)? "
    r"(?:interruption|termination|eviction|preemption|notice|detected)"
    r"|azure scheduled event: (?:preempt|terminate)"
    r"|(?:this |the )?(?:(?:spot )?instance|vm)(?: [\w.-]{1,60})? (?:is|was|will|has been)"
    r" (?:going to be |being |scheduled (?:to be |for )|about to be |be )?"
    r"(?:interrupt|preempt|reclaim|interruption|preemption)(?:ed)?\b"
    r"|(?:this |the )?node(?: [\w.-]{1,60})? (?:is being|will be) preempted\b)"
)
"""The beginning of a line in which a program reports a cloud's notice; a quotation has more."""

NOTICE_ROWS = (
    Row(
        "reclaimed",
        PREEMPTED,
        YES,
        said("nterrupt", "reempt", "victi", "victed", "eclaimed", "ermination"),
        "the cloud provider is reclaiming this machine",
        "continue from a checkpoint, on other machines",
        pattern=_NOTICE,
        apart=True,
    ),
    Row(
        "requeued",
        PREEMPTED,
        YES,
        said("this job is preempted", "this job is timed-out"),
        "the scheduler is ending the job",
        LONGER,
        pattern=r"^submitit \w{1,20} .{0,60}Caught signal \w{1,20} on .{0,80}: this job is ",
        apart=True,
    ),
)

AGENT_ROWS = (
    Row(
        "agent-ended",
        PREEMPTED,
        YES,
        sentence="torchrun's agent (process {pid}) received signal {number} from outside",
        advice="continue from a checkpoint",
        raised=("SignalException",),
        pattern=r"Process (?P<pid>\d+) got signal: (?P<number>15|1|Signals\.SIG(?:TERM|HUP))\b",
    ),
    Row(
        "agent-ended",
        PREEMPTED,
        YES,
        sentence="the program received SIGTERM from outside",
        advice="continue from a checkpoint",
        raised=("SIGTERMException",),  # of Lightning
    ),
)
"""Exceptions by which programs report a signal of a scheduler."""

_DEFECTS = r"(?:48|62|63|64|74|79|92|94|95|110|119|120|136|140|143|144|145|149|154)\b"

XID_ROWS = (Row("xid-defect", NODE, YES, advice=ANOTHER_NODE, pattern=rf"^xid: Xid {_DEFECTS}"),)
"""Xids that NVIDIA's catalogue gives to hardware, firmware or links, not to programs."""

XID_LINE = Row(
    "xid-defect",
    NODE,
    YES,
    said("NVRM: Xid (PCI:"),
    "NVIDIA's driver reports Xid {number} for device {device}",
    ANOTHER_NODE,
    pattern=r"^(?:\[[ .\d]{1,30}\] )?NVRM: Xid \(PCI:(?P<device>[\da-fA-F:.]{4,20})\):"
    rf" (?P<number>{_DEFECTS})",
)
"""A row for the kernel's log, where a program shows it."""

SIGNAL_ROWS = (
    Row(
        "memory-killed",
        MEMORY,
        PERHAPS,
        sentence="the kernel killed it because memory was short",
        advice=MORE_MEMORY,
        needs="memory",
        finds="memory",
        signals=(signal.SIGKILL,),
    ),
    Row(
        "shm-killed",
        MEMORY,
        NO,
        sentence="/dev/shm is full",
        advice=SHARED,
        needs="shm",
        finds="shm",
        signals=(signal.SIGBUS,),
    ),
    Row(
        "shm-small",
        sentence="/dev/shm is small",
        advice=SHARED,
        needs="small",
        finds="small",
        signals=(signal.SIGBUS,),
    ),
    THREAD_LIMIT._replace(signals=(signal.SIGSEGV, signal.SIGABRT)),
    Row("ended", PREEMPTED, YES, signals=(signal.SIGTERM, signal.SIGHUP)),
    Row("warned", PREEMPTED, PERHAPS, signals=(signal.SIGUSR1,)),
    Row(
        "processor-time",
        PREEMPTED,
        NO,
        sentence="it reached its limit on CPU time",
        advice="raise the limit (ulimit -t)",
        signals=(signal.SIGXCPU,),
    ),
    Row(
        "file-size",
        DATA,
        NO,
        sentence="a file grew beyond its size limit",
        advice="raise the limit (ulimit -f)",
        signals=(signal.SIGXFSZ,),
    ),
    Row(
        "instruction",
        sentence="it ran an instruction that this processor does not have, or hit a trap",
        advice="install packages built for the oldest processor of all nodes",
        signals=(signal.SIGILL,),
    ),
    Row(
        "crashed",
        said=said("Fatal Python error: "),
        # The first frame that is not a library's, if there is one.
        pattern=r"Current thread .*\n(?:\s*File \"(?=[^\"\n]*/(?:lib/python|site-packages/)).*\n)*"
        r"\s*File \"(?:.*/)?(?P<file>[^/\"]+)\", line (?P<line>\d+) in (?P<what>\S+)",
        sentence="native code crashed, called by {what} ({file}:{line})",
        finds="crash",
        signals=(signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE),
    ),
    Row(
        "crashed",
        sentence="native code crashed",
        advice=SEE_CRASH,
        needs="crash",
        finds="crash",
        signals=(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE),
    ),
    Row(
        "heap-broken",
        said=said(
            "double free or corruption",
            "corrupted size vs. prev_size",
            "free(): invalid",
            "malloc(): ",
            "munmap_chunk(): invalid pointer",
            "corrupted double-linked list",
        ),
        sentence="native code overwrote memory that is not its own",
        advice=SEE_CRASH,
        signals=(signal.SIGABRT,),
    ),
)
