"""What a node is sent: all that a node launcher imports, and the same bytes every time."""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import grimp
import pytest

from dsrun.launcher.backends.base import package_root
from dsrun.launcher.backends.package import ask, contents
from dsrun.launcher.control import frames

from ...support.layers import imports_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = package_root()
BARE = str(Path(sys.base_prefix, "bin", "python3"))

NOT_ON_NODES = {
    "accelerator/__init__.py: accelerator.training.chosen",
    "launcher/backends/automatic.py: launcher.backends.ssh.unsupported.reason_for_openssh",
}
"""For training code, for the runner, and for one node by hand."""


FEATURES = "dsrun.launcher.features."

BY_PATH = {
    *("debug.adapter", "debug.hook.sitecustomize", "elastic.agent", "elastic.shim"),
    *("full_check.all_reduce", "full_check.gpu", "preload.process", "promises.worker_program"),
    *("quick_check.torch_report", "stacks.hook.sitecustomize"),
}
"""Modules of features that are run by their paths, so that nothing imports them."""

ON_THE_SPOT = {"join.node"}
"""What only nodes need that start by themselves, and have dsrun."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our own cache; nothing is known of dsrun's files yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    contents.digest.cache_clear()
    return tmp_path / "dsrun"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A small dsrun."""
    root = tmp_path / "root"
    for name in ("launcher/node/a.py", "launcher/head/b.py", "accelerator/c.py"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(f"# {name}\n")
    return root


def texts(archive: bytes) -> dict[str, str]:
    found: dict[str, str] = json.loads(zlib.decompress(archive))
    return found


def imported(name: str, text: str) -> Iterator[str]:
    """The modules below `launcher` and `accelerator` that a file imports, anywhere in it."""
    parts = name.removesuffix(".py").split("/")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*parts[: -node.level], *(node.module or "").split(".")]
            yield from (".".join([*filter(None, base), one.name]) for one in node.names)


def without_annotations(text: str) -> str:
    """A module without what is imported only for type checkers."""

    class Strip(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    return ast.unparse(Strip().visit(ast.parse(text)))


def test_it_has_whatever_its_modules_import() -> None:
    found = texts(contents.archive(ROOT))
    modules = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in found
    }
    missing = {
        f"{name}: {module}"
        for name, text in found.items()
        for module in imported(name, without_annotations(text))
        if not {module, module.rpartition(".")[0]} & modules
    }
    assert missing == NOT_ON_NODES


def reached(graph: grimp.ImportGraph, first: set[str]) -> set[str]:
    """Return the modules that some modules import, in the end, also by names in tables."""
    found: set[str] = set()
    todo = [*first]
    while todo:
        name = todo.pop()
        if name in graph.modules and name not in found:
            found.add(name)
            todo += graph.find_modules_directly_imported_by(name)
            todo += [other for _, other in imports_by_name(name, graph.modules)]
    return found


def test_of_features_a_node_gets_what_it_can_reach_and_nothing_else() -> None:
    """The first word of a file's name says whether a node needs it."""
    graph = grimp.build_graph("dsrun", cache_dir=None, exclude_type_checking_imports=True)
    first = {f"dsrun.launcher.node.{name}" for name in ("main", "programs", "call")}
    needed = reached(graph, first | {f"{FEATURES}{name}" for name in BY_PATH})
    names = [name for name, _ in contents.files(str(ROOT)) if not name.endswith("__init__.py")]
    sent = {f"dsrun.{name.removesuffix('.py').replace('/', '.')}" for name in names}
    has_code = {name for name in needed if name in sent or not graph.find_children(name)}
    assert {name for name in sent - needed if name.startswith(FEATURES)} == {
        f"{FEATURES}{name}" for name in ON_THE_SPOT
    }
    assert {name for name in has_code - sent if name.startswith(FEATURES)} == set()


def test_every_module_can_be_imported_from_it_alone(tmp_path: Path) -> None:
    found = texts(contents.archive(ROOT))
    for name, text in found.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    script = (
        "import sys, importlib; m = type(sys)('dsrun'); m.__path__ = sys.argv[1:2];"
        "sys.modules['dsrun'] = m;"
        "[importlib.import_module('dsrun.' + name) for name in sys.argv[2:]]"
    )
    names = [name.removesuffix(".py").replace("/", ".") for name in found if "/agent" not in name]
    ran = subprocess.run(
        [BARE, "-E", "-S", "-B", "-c", script, str(tmp_path), *names],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.usefixtures("cache")
def test_its_hash_is_that_of_its_text() -> None:
    text = zlib.decompress(contents.archive(ROOT))
    assert contents.digest(ROOT) == hashlib.sha256(text).hexdigest()
    assert contents.archive(ROOT) == contents.archive(ROOT)
    assert contents.packed()[5:] == contents.archive(ROOT)
    assert len(text) < ask.LIMIT / 4


def test_what_only_the_runner_needs_is_left_out(small: Path) -> None:
    assert set(texts(contents.archive(str(small)))) == {"launcher/node/a.py", "accelerator/c.py"}


def test_the_hash_is_found_again_by_sizes_and_times(cache: Path, small: Path) -> None:
    root, file = str(small), small / "launcher/node/a.py"
    first = contents.digest(root)
    (cache / "package.digest").write_text(
        (cache / "package.digest").read_text().replace(first, "kept")
    )
    contents.digest.cache_clear()
    assert contents.digest(root) == "kept"
    file.write_text("# other\n")
    contents.digest.cache_clear()
    assert contents.digest(root) not in {"kept", first}


@pytest.mark.parametrize("damage", ["", "x", "x\n\ny"])
def test_a_damaged_cache_does_not_count(cache: Path, small: Path, damage: str) -> None:
    first = contents.digest(str(small))
    (cache / "package.digest").write_text(damage)
    contents.digest.cache_clear()
    assert contents.digest(str(small)) == first


def test_without_a_cache_the_hash_is_made_each_time(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    contents.digest.cache_clear()
    assert len(contents.digest(str(small))) == 64


def test_the_frames_of_the_bootstrap_are_those_of_the_line() -> None:
    assert ask.ASK == frames.SEND_PACKAGE
    assert (ask.PACKAGE, ask.PACKAGE_ASK) == (frames.PACKAGE, frames.PACKAGE_ASK)
    assert ask.FRAME_LIMIT == frames.FRAME_LIMIT
