"""Read a DeepSpeed config file; errors are one line with file and place."""

from __future__ import annotations

import json

from ...common import files
from ...common.errors import UsageError, reason
from ...common.text import read_json
from .plan_batch import plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.batch_plan import BatchPlan


def read(path: str, where: str) -> BatchPlan:
    """Return the batch plan of a DeepSpeed config file.

    Args:
        path: the file, plain JSON.
        where: the option that names it, for messages.

    Raises:
        UsageError: the file cannot be read, is not JSON, or has no valid batch plan.
    """
    try:
        return plan(_parsed(_bytes(path, where), path))
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _bytes(path: str, where: str) -> bytes:
    try:
        return files.read(path)
    except OSError as error:
        raise UsageError(f"{where} {path}: {reason(error)}") from None


def _parsed(data: bytes, path: str) -> object:
    try:
        return read_json(data.decode("utf-8-sig"), _once)
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}: column {error.colno}"
        words = error.msg[:1].lower() + error.msg[1:]
        raise UsageError(f"{where}: not JSON: {words}") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; a repeated key is an error, as in DeepSpeed."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {repeated!r:.40} is repeated in an object")
    return members


def fitting(path: str, size: int | None) -> BatchPlan:
    """Return the elastic batch plan of the file of --elastic_config.

    Raises:
        UsageError: the file cannot be used, or `size` workers (if known) do not fit the plan.
    """
    batches = read(path, "--elastic_config")
    try:
        if size is not None:
            batches.for_world(size)
    except ValueError as error:
        raise UsageError(f"--elastic_config {path}: {error}") from None
    return batches
