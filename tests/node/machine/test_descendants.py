"""Ends all descendants of a process, and no other process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from ...support.checkout import IMPORTABLE
from ...support.limits import HANG

START = """
import os, signal, subprocess, sys
from dsrun.launcher.node.machine import descendants, processes

def child(*words):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(["sh", "-c", *words], **pipes)

def said(one):
    return one.stdout.readline()

def until(count):
    while len(descendants.pids()) != count:
        pass
"""


def run(text: str) -> str:
    """Return what a separate program prints: it ends its own descendants."""
    done = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(text)],
        env={**os.environ, **IMPORTABLE},
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_that_has_come_from_us_is_killed() -> None:
    shown = run(
        """
        one = child("trap '' TERM; (trap '' TERM; sleep 600; :) & wait")
        until(3)
        killed = descendants.kill_all()
        print(one.pid in killed, len(killed), one.wait(), descendants.pids())
        """
    )
    assert shown == "True 3 -9 []\n"


def test_who_is_spared_keeps_all_that_has_come_from_it() -> None:
    shown = run(
        """
        spared, other = child("sleep 600 & wait"), child("sleep 600; :")
        until(4)
        killed = descendants.kill_all([spared.pid])
        other.wait()
        alive = [processes.parent(pid) for pid in descendants.pids()]
        print(spared.pid in killed, other.pid in killed, spared.pid in alive)
        descendants.kill_all()
        """
    )
    assert shown.split() == ["False", "True", "True"]


def test_a_stopped_child_is_killed_too() -> None:
    shown = run(
        """
        one = child("echo 1; kill -STOP $$; sleep 600")
        said(one)
        os.waitpid(one.pid, os.WUNTRACED)
        descendants.kill_all()
        print(one.wait())
        """
    )
    assert shown == "-9\n"


def test_without_any_nobody_is_ended() -> None:
    assert run("print(descendants.pids(), descendants.kill_all())").split() == ["[]", "set()"]


def test_our_own_priority_is_what_it_was() -> None:
    shown = run(
        """
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        descendants.kill_all()
        print(before == (os.sched_getscheduler(0), os.sched_getparam(0)))
        """
    )
    assert shown.strip() == "True"


def test_whoever_ends_them_comes_before_all_others_where_that_is_allowed() -> None:
    shown = run("""
        first = os.SCHED_RR, os.sched_param(1)
        with descendants._realtime():
            print((os.sched_getscheduler(0), os.sched_getparam(0)) == first)
        try:
            os.sched_setscheduler(0, *first)
            print("allowed")
        except PermissionError:
            print("forbidden")
    """)
    assert shown in {"True\nallowed\n", "False\nforbidden\n"}
