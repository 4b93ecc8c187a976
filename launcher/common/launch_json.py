"""The file in which VS Code keeps configurations of its debugger, `.vscode/launch.json`.

Source: the debugpy settings reference (type, request, connect, pathMappings, subProcess).
"""

from __future__ import annotations

from . import files, output_file
from .errors import UsageError, reason
from .text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

PREFIX = "dsrun: "
"""The prefix of dsrun's configurations, which each job replaces."""


def read(option: str, path: str) -> dict[str, Any]:
    """Return the content of a launch.json, {} if it does not exist.

    Raises:
        UsageError: the file cannot be written, or only with a loss of content.
    """
    output_file.check(option, path)
    try:
        found = read_json(files.read(path, pipes=False).decode("utf-8-sig") or "{}")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{option} {path}: {reason(error)}") from None
    except ValueError:
        found = None
    kept = found.get("configurations") if isinstance(found, dict) else None
    if found != {} and not isinstance(kept, list):
        raise UsageError(
            f"{option} {path}: is not a launch.json without comments (plain JSON with"
            " configurations); name a new file"
        )
    return dict(found)


def attach(name: str, port: int, here: str, there: str) -> dict[str, object]:
    """Return the configuration that connects to a port of this machine.

    Args:
        name: the name of the rank.
        port: the port of its debugger.
        here: the folder of the sources on this machine.
        there: the same folder where the rank runs.
    """
    return {
        "name": f"{PREFIX}{name}",
        "type": "debugpy",
        "request": "attach",
        "connect": {"host": "127.0.0.1", "port": port},
        "pathMappings": [{"localRoot": here, "remoteRoot": there}],
        "subProcess": False,
    }


def merged(found: Mapping[str, Any], ours: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the contents of a file with our configurations in place of our earlier ones."""
    kept = [one for one in found.get("configurations", []) if not _is_ours(one)]
    return {"version": "0.2.0", **found, "configurations": [*kept, *ours]}


def _is_ours(configuration: object) -> bool:
    name = configuration.get("name") if isinstance(configuration, dict) else None
    return isinstance(name, str) and name.startswith(PREFIX)
