"""Preloaded modules that a program has not imported: it ends as if they were not there."""

from __future__ import annotations

import os
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.workers.spawn import WorkerSpec

from ...support.preloading import COMMON, Ended, preloader
from ...support.specs import PYTHON

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("adopting")

REGISTERS = """
import atexit, ctypes, json
libc = ctypes.CDLL(None)
libc.strdup.restype = ctypes.c_void_p
text = ctypes.c_void_p(libc.strdup(b"the end of pack"))
libc.__cxa_atexit(libc.puts, text, None)  # as libraries do when they are loaded
from pack import part
"""

LIBRARY = "libBrokenLocale.so.1"
"""One of glibc's that hardly any program loads."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text(REGISTERS)
    (tmp_path / "pack" / "part.py").write_text("import pack\nvalue = 1")
    (tmp_path / "other.py").write_text("import pack")
    return tmp_path


def run(folder: Path, text: str, **env: str) -> Ended:
    """Run a script in a fork of a preloader that has imported `other`, and thereby `pack`."""
    (folder / "train.py").write_text(dedent(text))
    variables = {os.fsencode(name): os.fsencode(one) for name, one in {**COMMON, **env}.items()}
    with preloader(["other"], folder, folder, env={**COMMON, **env}) as process:
        assert process.report["modules"] == ["other"]
        return process.run(
            WorkerSpec(0, [PYTHON, b"-u", b"train.py"], variables, os.fsencode(folder))
        )


SKIPS = {
    "nothing": "print('x')",
    "only what every program has": "import json, sys; print('x')",
    "a look for the module": "import importlib.util as u; u.find_spec('pack'); print('x')",
    "handlers of its own": "import atexit; atexit.register(print, 'x')",
    "text that libraries have buffered": "import ctypes; ctypes.CDLL(None).puts(b'x')",
    "a thread": "import threading; threading.Thread(target=print, args=('x',)).start()",
    "last words": "class A:\n    def __del__(self):\n        print('x')\na = A()",
    "a process of its own": (
        "import multiprocessing as m\n"
        "p = m.get_context('fork').Process(target=print, args=('x',)); p.start(); p.join()"
    ),
}


@pytest.mark.parametrize("text", SKIPS.values(), ids=SKIPS)
def test_what_their_libraries_have_registered_is_skipped(folder: Path, text: str) -> None:
    assert run(folder, text) == Ended(0, "x\n", "")


CALLS = {
    "the module": "import pack",
    "one that has imported it": "import other",
    "a module in it": "import pack.part",
    "a name in it": "from pack.part import value",
    "the module, at the end": "import atexit; atexit.register(__import__, 'pack')",
    "a library": f"import ctypes; ctypes.CDLL('{LIBRARY}')",
}


@pytest.mark.parametrize("text", CALLS.values(), ids=CALLS)
def test_it_is_called_once_something_may_need_it(folder: Path, text: str) -> None:
    assert run(folder, text) == Ended(0, "the end of pack\n", "")


def test_or_if_a_library_was_loaded_that_python_does_not_need(folder: Path) -> None:
    assert run(folder, "", LD_PRELOAD=LIBRARY) == Ended(0, "the end of pack\n", "")


@pytest.mark.parametrize("text", ["import sys; sys.exit(7)", "raise SystemExit(7)"])
def test_the_exit_code_is_kept(folder: Path, text: str) -> None:
    assert run(folder, text) == Ended(7, "", "")


FINDS = """
    import importlib, importlib.util, json, sys
    print([name for name in sys.modules if name.startswith(("pack", "other"))])
    spec = importlib.util.find_spec("pack")
    print(spec.name, spec.origin == spec.submodule_search_locations[0] + "/__init__.py")
    import pack.part as part
    print(part.value, pack is sys.modules["pack"], part is pack.part, pack.part.pack is pack)
    print(pack.__spec__.loader is pack.__loader__, importlib.util.find_spec("pack").loader)
    import other
    print(other.pack is pack, sys.modules["other"] is other, importlib.reload(part) is part)
"""


def test_a_program_finds_them_as_if_it_had_loaded_them(folder: Path) -> None:
    ended = run(
        folder, FINDS.replace("import pack.part as", "import pack\n    import pack.part as")
    )
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[:3] == ["[]", "pack True", "1 True True True"]
    assert lines[3].startswith("True <_frozen_importlib_external.SourceFileLoader object at 0x")
    assert lines[4] == "True True True"
