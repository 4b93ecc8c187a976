"""Files that any version of dsrun has written itself: a newer output may replace them."""

from __future__ import annotations

import os
import re

from . import files, system

BEGINNING = 4096
"""Bytes that tell."""

FIRST = (
    *("job_id", "exit_code", "jobs", "ended", "kind", "role", "message", "launcher", "job"),
    *("version", "host", "event"),
)
"""The names of the first fields behind the version of a form (docs/schemas)."""

OWN = re.compile(
    rb'\{\s*"format": [0-9]+,\s*"(?:%(first)s)": '
    rb'|\{\s*"job_id": "[^"]*",\s*"exit_code": [0-9]'  # reports before there were versions
    rb"|# HELP dsrun_"
    rb"|<!doctype html>.*<title>dsrun job "
    rb'|<svg xmlns="http://www.w3.org/2000/svg" width="[0-9]+" height="[0-9]+">\n<style>text\{'
    % {b"first": "|".join(FIRST).encode()},
    re.DOTALL,
)
"""How such a file begins: JSON, metrics, a picture of a job, and one of matrices."""


def is_own(path: str) -> bool:
    """Return whether a regular file begins as an output of dsrun; not if it cannot be read."""
    try:
        fd = files.open_regular(os.path.realpath(path))
    except OSError:
        return False
    try:
        return OWN.match(system.read(fd, BEGINNING)) is not None
    finally:
        system.close(fd)
