"""Make `dsrun` importable in a checkout that nothing was installed from."""

import sys
from importlib.util import find_spec
from pathlib import Path


def _installed() -> bool:
    try:
        return find_spec("dsrun.launcher") is not None
    except ModuleNotFoundError:
        return False


if not _installed():
    sys.path.insert(0, str(Path(__file__).parent / "import"))
