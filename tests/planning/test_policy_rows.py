"""Policies in words: a row for each that applies."""

from __future__ import annotations

import pytest

from dsrun.launcher.planning.policy_rows import rows
from dsrun.launcher.specs.backend import BackendSettings, DialIn
from dsrun.launcher.specs.batch_plan import BatchPlan, BatchSettings
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.host_updates import HostUpdates
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.policies import (
    BindingPolicy,
    CheckPolicy,
    DebugPolicy,
    ElasticPolicy,
    OutputPolicy,
    Rule,
    Streams,
    SupervisionPolicy,
    WatchPolicy,
    WorkerPolicy,
)
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.rendezvous import Rendezvous

PLAN = Plan(lay_out([Host("w0", (0,)), Host("w1", (0,))]), Program("x.py"), "ssh", None, 4000)
SPEC = JobSpec("j", PLAN, "/work")
TORCH = Rendezvous("c10d", "w0:1", "none", 1, 2, {}, "", 3, 0.1)
BATCHES = BatchPlan(BatchSettings("0.1", 9, (1,), 1, 9, 1, 1, True), 12, (1, 2, 3, 4, 6, 12))


def test_what_nobody_has_asked_for_takes_three_rows() -> None:
    assert rows(SPEC) == [
        ("timeouts", "10 s to connect; 300 s to start; 15 s without a heartbeat"),
        ("stop", "on SIGTERM, SIGINT or SIGHUP; SIGKILL after 30 s"),
        ("output", "lines prefixed with '{host}:{rank}| '"),
    ]


@pytest.mark.parametrize(
    ("spec", "name", "text"),
    [
        (
            SPEC._replace(backend=BackendSettings(force_multi=True, accept_new_host_keys=True)),
            "reach",
            "this machine is reached through the launcher, too; new host keys are accepted",
        ),
        (
            SPEC._replace(
                workers=WorkerPolicy("/v.sh", "r", "id", True, True, ("torch", "re"), True)
            ),
            "setup",
            "venv script /v.sh; role r; run id id; each rank sees only its own device;"
            " shard queues; workers are forked from a process that has imported torch, re;"
            " forks wait for the next round",
        ),
        (
            SPEC._replace(debug=DebugPolicy(frozenset({0, 3}), file="/l.json")),
            "debug",
            "ranks 0,3 wait for a debugger; configurations written to /l.json",
        ),
        (
            SPEC._replace(debug=DebugPolicy(wait=False)),
            "debug",
            "all ranks accept a debugger",
        ),
        (
            SPEC._replace(binding=BindingPolicy("core", "0-3", smt=False, nics=True, report=True)),
            "binding",
            "to core; memory auto; cpus 0-3; the first hardware thread of each core; near NICs;"
            " reported",
        ),
        (SPEC._replace(binding=BindingPolicy(report=True)), "binding", "reported"),
        (SPEC._replace(checks=CheckPolicy(quick=False)), "checks", "no quick check"),
        (
            SPEC._replace(checks=CheckPolicy(True, True, "true", 5.0, 3)),
            "checks",
            "warnings are errors; 'true' must succeed on each node within 5 s; starts without"
            " nodes that fail, if 3 or more remain",
        ),
        (
            SPEC._replace(watch=WatchPolicy(5.0, "stop")),
            "watch",
            "a hang of 5 s ends the job",
        ),
        (SPEC._replace(watch=WatchPolicy(0.0)), "watch", "no hang detection"),
        (
            SPEC._replace(watch=WatchPolicy(hook=False)),
            "watch",
            "workers run nothing before their own program",
        ),
        (
            SPEC._replace(
                watch=WatchPolicy(
                    rules=(Rule("--expect", "x", then="stop"),),
                    fruitless_rounds=3,
                    checkpoints="/c/*",
                )
            ),
            "watch",
            "--expect 'x': if broken, it ends the job; 3 rounds without progress end the job;"
            " a new /c/* is progress",
        ),
        (
            SPEC._replace(elastic=ElasticPolicy(1, 1, 0, restart_on=frozenset({"node", "data"}))),
            "elastic",
            "1 node; 0 restarts; restarts only after failures of class data, node;"
            " dsrun's agent on each node",
        ),
        (
            SPEC._replace(supervision=SupervisionPolicy(no_requeue_code=9)),
            "requeue",
            "exit code 9 if the job would fail again",
        ),
        (
            SPEC._replace(
                binding=BindingPolicy("numa"), core_lists=tuple((f"w{at}", "0") for at in range(6))
            ),
            "binding",
            "to numa; memory auto; cpus of w0: 0, w1: 0, w2: 0, w3: 0, w4: 0, ...",
        ),
        (
            SPEC._replace(batches=BATCHES),
            "batches",
            "one batch of 12 for 6 world sizes: 1, 2, 3, 4, 6, ...",
        ),
        (
            SPEC._replace(elastic=ElasticPolicy(2, 2, 1)),
            "elastic",
            "2 nodes; 1 restart; dsrun's agent on each node",
        ),
        (
            SPEC._replace(
                elastic=ElasticPolicy(
                    1, 1 << 30, 5, 60.0, 3.0, frozenset({64, 2}), 9.0, 300.0, 30.0, 40.0, "SIGUSR1"
                )
            ),
            "elastic",
            "1 or more nodes; 5 restarts within 60 s; no restart after a round shorter than 3 s;"
            " no restart after exit code 2 or 64; waits 9 s for enough nodes; a node is excluded"
            " for 300 s after 3 consecutive failures; SIGUSR1 30 s before a change;"
            " dsrun's agent on each node",
        ),
        (
            SPEC._replace(elastic=ElasticPolicy(1, 1, 0, agent="torch")),
            "elastic",
            "1 node; 0 restarts; torch's agent on each node",
        ),
        (
            SPEC._replace(plan=PLAN._replace(rendezvous=TORCH, launcher="local")),
            "elastic",
            "at most 3 restarts, by torch's agent",
        ),
        (
            SPEC._replace(updates=HostUpdates(hostfile="hosts")),
            "updates",
            "hosts are added and removed as listed by hostfile hosts",
        ),
        (
            SPEC._replace(updates=HostUpdates(script="./find -x")),
            "updates",
            "hosts are added and removed as listed by program ./find -x",
        ),
        (
            SPEC._replace(plan=PLAN._replace(launcher="none"), dial_in=DialIn(first="w0")),
            "control",
            "nodes dial w0:4001; secret from DSRUN_TOKEN",
        ),
        (SPEC._replace(dial_in=DialIn(7)), "control", "nodes dial in on port 7"),
        (
            SPEC._replace(
                supervision=SupervisionPolicy(
                    1, 2, 3, 4, True, True, ("SIGTERM",), frozenset({75, 3})
                )
            ),
            "stop",
            "on SIGTERM; SIGKILL after 4 s; exit code 0 if all ranks exit with 0; background"
            " processes are left alone",
        ),
        (
            SPEC._replace(supervision=SupervisionPolicy(requeue_codes=frozenset({75, 3}))),
            "requeue",
            "after exit code 3 or 75",
        ),
        (
            SPEC._replace(
                output=OutputPolicy(
                    "", Streams(1), Streams(2, ((0, 3),)), frozenset({0, 1, 4}), level="debug"
                )
            ),
            "output",
            "lines without a prefix; only ranks 0-1,4; stdout to log files only; 2,0:3 (local rank:"
            " 1 stdout, 2 stderr, 3 both) to log files and the console;"
            " dsrun's messages from debug up",
        ),
        *(
            (
                SPEC._replace(output=OutputPolicy(fold=fold)),
                "output",
                f"lines prefixed with '{{host}}:{{rank}}| '; {text}",
            )
            for fold, text in (
                ("always", "identical lines of several ranks once"),
                ("never", "every line of every rank"),
            )
        ),
        (
            SPEC._replace(output=OutputPolicy(log_dir="l", log_layout="torchrun")),
            "logs",
            "in l; in the layout of torchrun",
        ),
        (
            SPEC._replace(output=OutputPolicy(log_private=True)),
            "logs",
            "in a temporary folder on each node",
        ),
        (
            SPEC._replace(output=OutputPolicy(logs_specs=("mine", "l", "3", "0", ""))),
            "logs",
            "named by mine, in l",
        ),
        (SPEC._replace(output=OutputPolicy(report_file="r.json")), "report", "r.json"),
    ],
)
def test_a_policy_in_words(spec: JobSpec, name: str, text: str) -> None:
    assert dict(rows(spec))[name] == text
