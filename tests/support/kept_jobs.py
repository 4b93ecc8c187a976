"""Folders of detached jobs that were never run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from dsrun.launcher.features.detached import runner_job_folder as job_folder
from dsrun.launcher.features.detached import runner_journal as journal
from dsrun.launcher.features.detached.runner_job_folder import About, KeptEnd
from dsrun.launcher.features.detached.runner_journal import JournalEntry
from dsrun.launcher.features.detached.runner_process_identity import ProcessIdentity, identity
from dsrun.launcher.head.run import events

GONE = identity(os.getpid())._replace(start=1)
"""A process that has had our pid before us."""

FAR = GONE._replace(machine="another-machine")

NAME = "20260101-000000-00000{}"


def about(number: int = 0, process: ProcessIdentity = GONE, **more: Any) -> About:
    """What a job is."""
    job_id = NAME.format(number)
    known = About(
        job_id, "1", 1000.0 + number, "train.py --lr 1", "/w", "ssh", 2, 0, "", {}, process
    )
    return known._replace(**more)


def kept(environ: dict[str, str], *args: Any, **more: Any) -> Path:
    """A folder of such a job."""
    return Path(job_folder.create(environ, about(*args, **more)))


def end(code: int = 0, **more: Any) -> KeptEnd:
    """How a job has ended."""
    text = f"dsrun: rank 0 exited with code {code}" if code else ""
    data = {"job_id": NAME.format(0), "exit_code": code, "hosts": ["n0"], "world_size": 2}
    return KeptEnd(2000.0, code, text, {**data, "seconds": 9.0}, "1| bye", "")._replace(**more)


def write(path: Path, *entries: JournalEntry) -> None:
    """Add entries to the journal of a job, numbered from 1 on."""
    numbered = [one._replace(number=at) for at, one in enumerate(entries, 1)]
    with (path / job_folder.JOURNAL).open("ab") as file:
        file.write(b"".join(map(journal.pack, numbered)))


def output(
    rank: int, data: bytes, at: float = 1.0, host: str = "n0", stream: int = 1, role: str = ""
) -> JournalEntry:
    """What a rank has printed."""
    return JournalEntry(0, at, stream, data, rank, host, role)


def message(text: str, at: float = 1.0) -> JournalEntry:
    """What dsrun has said."""
    return JournalEntry(0, at, journal.MESSAGE, text.encode())


def event(happened: events.RunEvent, at: float = 1.0, role: str = "") -> JournalEntry:
    """What has happened."""
    data = json.dumps(events.as_json(happened)).encode()
    return JournalEntry(0, at, journal.EVENT, data, role=role)
