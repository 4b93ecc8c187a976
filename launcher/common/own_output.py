"""Recognize files that any version of dsrun has written: a newer output may replace them."""

from __future__ import annotations

import os
import re

from . import files, system

BEGINNING = 4096
"""Bytes at the beginning of a file that are examined."""

FIRST = (
    *("job_id", "exit_code", "jobs", "ended", "kind", "role", "message", "launcher", "job"),
    *("version", "host", "event"),
)
"""Names of the first fields after the version of a format (docs/schemas)."""

OWN = re.compile(
    rb'\{\s*"format": [0-9]+,\s*"(?:%(first)s)": '
    rb'|\{\s*"job_id": "[^"]*",\s*"exit_code": [0-9]'  # reports before there were versions
    rb"|# HELP dsrun_"
    rb"|<!doctype html>.*<title>dsrun job "
    rb'|<svg xmlns="http://www.w3.org/2000/svg" width="[0-9]+" height="[0-9]+">\n<style>text\{'
    % {b"first": "|".join(FIRST).encode()},
    re.DOTALL,
)
"""The beginnings of such files: JSON, metrics, pictures of jobs, and pictures of matrices."""


def is_own(path: str) -> bool:
    """Return whether a regular file begins like an output of dsrun; False if it cannot be read."""
    try:
        fd = files.open_regular(os.path.realpath(path))
    except OSError:
        return False
    try:
        return OWN.match(system.read(fd, BEGINNING)) is not None
    finally:
        system.close(fd)
