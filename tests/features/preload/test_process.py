"""The preloader as a process: a script cannot tell its fork from `python -u script`."""

from __future__ import annotations

import os
import py_compile
import sys
import zipfile
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.stacks import hook
from dsrun.launcher.node.workers.spawn import WorkerSpec

from ...support.preloading import COMMON, Ended, await_orphans, cold, preloader
from ...support.specs import PYTHON

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("adopting")

PER_RANK = {"RANK": "3", "MASTER_ADDR": "caf\udce9", "CUDA_VISIBLE_DEVICES": ""}


def spec(folder: Path, *words: str, **env: str) -> WorkerSpec:
    """A worker that runs these words in a folder."""
    argv = [PYTHON, b"-u", *map(os.fsencode, words)]
    variables = {os.fsencode(name): os.fsencode(v) for name, v in {**COMMON, **env}.items()}
    return WorkerSpec(0, argv, variables, os.fsencode(folder))


def script(folder: Path, text: str, name: str = "train.py") -> str:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(dedent(text))
    return name


def same(folder: Path, *words: str, **env: str) -> Ended:
    """Run a command both ways; returns the one way in which it ends.

    The variables are the preloader's, too.
    """
    worker = spec(folder, *words, **env, **PER_RANK)
    with preloader(["colorsys"], folder, env={**COMMON, **env}) as process:
        forked = process.run(worker)
    ended = cold(worker).ends()
    assert forked.out.splitlines() == ended.out.splitlines()
    assert forked == ended
    return forked


TELLS = """
    import ctypes, gc, locale, os, resource, select, signal, stat, sys, threading, time, warnings
    import faulthandler, multiprocessing

    def tell(name, value):
        print(name, ascii(value))

    def files():
        kinds = {fd: os.fstat(fd).st_mode for fd in range(300) if opened(fd)}
        return {fd: (stat.S_IFMT(mode), os.get_inheritable(fd)) for fd, mode in kinds.items()}

    def opened(fd):
        try:
            return os.fstat(fd)
        except OSError:
            return None

    def of_stream(one):
        raw = getattr(one.buffer, "raw", one.buffer)
        parts = (one, one.buffer, raw)
        return (
            [(type(part), repr(part), part.fileno(), part.mode, part.name) for part in parts],
            one.encoding, one.errors, one.line_buffering, one.write_through, one.newlines,
            one.isatty(), [part.seekable() for part in parts], raw.closefd,
        )

    def signals():
        names = {"SigBlk", "SigIgn", "SigCgt", "SigPnd", "NoNewPrivs", "CapEff", "Threads"}
        rows = (line.split() for line in open("/proc/self/status"))
        return [row for row in rows if row[0].rstrip(":") in names]

    def number(option):
        value = ctypes.c_int(-1)
        ctypes.CDLL(None).prctl(option, ctypes.byref(value), 0, 0, 0)
        return value.value

    def shown(name):
        return open(f"/proc/self/{name}", "rb").read()

    main = sys.modules["__main__"]
    tell("files", files())
    tell("names", [one for one in sorted(globals()) if one.startswith("__")])
    tell("main", (__name__, __doc__, __file__, __spec__, __package__, type(__loader__), main))
    tell("loader", vars(__loader__) if hasattr(__loader__, "__dict__") else __loader__)
    tell("cached", globals().get("__cached__", "none"))
    tell("annotations", globals().get("__annotations__", "none"))
    tell("builtins", (__builtins__, sorted(vars(__builtins__))))
    tell("own", main.__dict__ is globals())
    tell("argv", (sys.argv, sys.orig_argv, sys.executable, sys.prefix, sys._base_executable))
    tell("path", sys.path)
    tell("flags", (sys.flags, sys.warnoptions, sys._xoptions, sys.dont_write_bytecode))
    tell("hooks", (sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__,
        sys.unraisablehook is sys.__unraisablehook__, threading.excepthook, sys.gettrace(),
        sys.meta_path, sys.path_hooks, sys.breakpointhook is sys.__breakpointhook__))
    tell("settings", (sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(),
        gc.get_threshold(), gc.get_debug(), warnings.filters, locale.setlocale(locale.LC_ALL),
        sys.getfilesystemencoding(), locale.getpreferredencoding(), time.tzname))
    tell("environ", sorted(os.environb.items()))
    tell("shown", sorted(shown("environ").split(b"\\0")))
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    tell("getenv", [libc.getenv(name) for name in (b"RANK", b"LANG", b"PATH", b"SHLVL", b"HOME")])
    tell("folder", (os.getcwd(), os.umask(0o22)))
    tell("signals", (signals(), [signal.getsignal(one) for one in signal.valid_signals()]))
    tell("ids", (os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), os.getppid(),
        os.getuid(), os.getgid(), os.getgroups(), number(2), libc.prctl(3, 0, 0, 0, 0)))
    tell("bounds", [resource.getrlimit(one) for one in range(16)])
    tell("priority", (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0),
        sorted(os.sched_getaffinity(0)), signal.getitimer(signal.ITIMER_REAL)))
    tell("ps", (shown("cmdline"), shown("comm"), os.readlink("/proc/self/exe")))
    tell("oom", (shown("oom_score_adj"), shown("coredump_filter"), shown("cgroup")))
    tell("stdin", of_stream(sys.stdin))
    tell("stdout", of_stream(sys.stdout))
    tell("stderr", of_stream(sys.stderr))
    tell("originals", (sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__))
    tell("read", (sys.stdin.read(), sys.stdin.read()))
    tell("threads", (threading.current_thread().name, threading.active_count(),
        threading.main_thread().ident == threading.get_ident(),
        threading.main_thread().native_id == os.getpid(),
        os.listdir("/proc/self/task") == [str(os.getpid())]))
    tell("processes", (multiprocessing.current_process(), multiprocessing.active_children(),
        multiprocessing.process.ORIGINAL_DIR, multiprocessing.parent_process(),
        multiprocessing.get_start_method()))
    tell("faulthandler", faulthandler.is_enabled())
"""

COMMANDS = {
    "a script": ("train.py",),
    "with arguments": ("train.py", "--local_rank=1", "", "a b", "\udcff", "x" * 5000),
    "by a path": ("./train.py", "-m", "y"),
    "in a folder": ("sub/train.py",),
    "without an ending": ("train",),
    "through a link": ("link.py",),
    "a module": ("-m", "pack.train", "--lr", "1"),
    "a package": ("-m", "pack"),
    "a folder": ("pack", "x"),
    "an archive": ("archive", "y"),
    "byte code": ("code.pyc",),
}

SETTINGS = {
    "latin": {"LANG": "C", "PYTHONIOENCODING": "latin-1"},
    "utf8": {"PYTHONUTF8": "1"},
    "safe": {"PYTHONSAFEPATH": "1"},
    "faults": {"PYTHONFAULTHANDLER": "1"},
    "development": {"PYTHONDEVMODE": "1"},
    "strict": {"PYTHONWARNINGS": "error"},
    "path": {"PYTHONPATH": "sub:/none"},
    "seeded": {"PYTHONHASHSEED": "0"},
}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the same program in each form."""
    for name in ("train.py", "train", "sub/train.py", "pack/train.py", "pack/__main__.py"):
        script(tmp_path, TELLS, name)
    (tmp_path / "link.py").symlink_to("sub/train.py")
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.write(tmp_path / "train.py", "__main__.py")
    py_compile.compile(str(tmp_path / "train.py"), str(tmp_path / "code.pyc"))
    return tmp_path


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_script_finds_what_it_always_finds(programs: Path, words: tuple[str, ...]) -> None:
    ended = same(programs, *words)
    assert (ended.status, ended.err) == (0, "")


READY = """
    import faulthandler, os
    names = [os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")
             if os.path.islink(f"/proc/self/fd/{one}")]
    print(faulthandler.is_enabled(), [one for one in names if "dsrun-stacks" in one])
    print(os.environ.get("PYTHONPATH"))
"""


@pytest.mark.parametrize("words", [("train.py",), ("pack",)], ids=["forked", "cold"])
def test_a_fork_gets_ready_for_questions(tmp_path: Path, words: tuple[str, ...]) -> None:
    script(tmp_path, READY)
    script(tmp_path, READY, "pack/__main__.py")
    with preloader(["colorsys"], tmp_path) as process:
        worker = spec(tmp_path, *words)._replace(hook=os.fsencode(hook.FOLDER))
        ready, plain = process.run(worker), process.run(worker._replace(hook=b""))
    version = ".".join(map(str, sys.version_info[:2]))
    assert ready.out == f"True ['/memfd:dsrun-stacks-{version} (deleted)']\nNone\n"
    assert plain.out == "False []\nNone\n"


@pytest.mark.parametrize("env", SETTINGS.values(), ids=SETTINGS)
def test_so_it_does_under_all_of_pythons_settings(programs: Path, env: dict[str, str]) -> None:
    assert same(programs, "train.py", **env).status == 0


ENDS = {
    "failing": "def f():\n    return 1 / 0\nf()",
    "failing while it fails": "try:\n    x\nexcept NameError as e:\n    raise OSError('é') from e",
    "failing several times": "raise ExceptionGroup('all', [OSError(1), KeyError(2)])",
    "not Python": "print(1)\nthis is it",
    "badly indented": "if 1:\nprint(1)",
    "with a null byte": "print(1)\0",
    "in another encoding": "# coding: latin-1\nprint(len('é'))\n1 / 0  # é",
    "in no encoding": "# coding: none such",
    "with a mark": "\ufeffprint(1)",
    "empty": "",
    "with code 0": "import sys; sys.exit()",
    "with a code": "import sys; sys.exit(3)",
    "with a large code": "import sys; sys.exit(256 + 7)",
    "with a negative code": "import sys; sys.exit(-1)",
    "with words": "import sys; sys.exit('words')",
    "with an object": "import sys; sys.exit((1, 2))",
    "well": "raise SystemExit",
    "at once": "import os; os._exit(5)",
    "interrupted": "raise KeyboardInterrupt",
    "interrupted by a signal": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "interrupted and handled": (
        "try:\n    raise KeyboardInterrupt\nexcept KeyboardInterrupt:\n    1 / 0"
    ),
    "by a signal": "import os; os.kill(os.getpid(), 15)",
    "by a fault": "import ctypes; ctypes.string_at(0)",
    "by a broken pipe": (
        "import os, signal; signal.signal(13, signal.SIG_DFL); os.kill(os.getpid(), 13)"
    ),
    "in a thread": "import threading; threading.Thread(target=lambda: 1 / 0).start()",
    "after a thread": (
        "import threading\n"
        "ends = threading.main_thread().join\n"
        "threading.Thread(target=lambda: (ends(), print('late'))).start(); print('main')"
    ),
    "beside a daemon": (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
    ),
    "in a hook of its own": "import sys; sys.excepthook = lambda *a: print('hook', a); 1 / 0",
    "with handlers": (
        "import atexit, sys\natexit.register(lambda: print(__name__, '__file__' in globals()))\n"
        "atexit.register(lambda: 1 / 0)\nsys.exit(4)"
    ),
    "with a handler at the end": (
        "import atexit\natexit.register(lambda: print(__name__, '__file__' in globals()))"
    ),
    "with a last word": (
        "class One:\n    def __del__(self):\n        print('gone', One)\none = One()\nother = [one]"
    ),
    "with a warning": (
        "import warnings\nwarnings.warn('beware', DeprecationWarning)\nopen('/dev/null')"
    ),
    "without output": "import os; print('x'); os.close(1); print('y')",
    "with a note": "import sys\nsys.stderr.write('half'); sys.stdout.write('of it')",
}


@pytest.mark.parametrize("text", ENDS.values(), ids=ENDS)
def test_it_ends_as_ever(tmp_path: Path, text: str) -> None:
    name = script(tmp_path, text)
    if "latin" in text:
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    same(tmp_path, name)


@pytest.mark.parametrize("module", ["pack.fails", "pack.none", "pack", "none", "pack.exits"])
def test_so_does_a_module(tmp_path: Path, module: str) -> None:
    script(tmp_path, "1 / 0", "pack/fails.py")
    script(tmp_path, "import sys; sys.exit(9)", "pack/exits.py")
    assert same(tmp_path, "-m", module).status == (9 if module == "pack.exits" else 1)


@pytest.mark.parametrize("name", ["none.py", ""])
def test_and_what_is_no_script(tmp_path: Path, name: str) -> None:
    assert same(tmp_path, name).status > 0


PROCESSES = """
    import multiprocessing, pickle, sys

    class Ours:
        pass

    def told(queue):
        queue.put((Ours(), __name__, sys.argv, sys.modules["__main__"].__dict__.get("__file__")))

    if __name__ == "__main__":
        print(type(pickle.loads(pickle.dumps(Ours()))) is Ours)
        for method in ("fork", "spawn", "forkserver"):
            context = multiprocessing.get_context(method)
            queue, lock = context.Queue(), context.Lock()
            process = context.Process(target=told, args=(queue,))
            with lock:
                process.start()
                found, *rest = queue.get()
            print(type(found) is Ours, rest, process.name)
            process.join()
            print(process.exitcode, len(multiprocessing.current_process().authkey))
        with context.Pool(2) as pool:
            print(pool.map(abs, range(-3, 3)))
        with multiprocessing.Manager() as manager:
            print(manager.list([1]))
"""


@pytest.mark.parametrize("words", [("train.py",), ("-m", "pack.train")])
def test_processes_of_a_script_know_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    for name in ("train.py", "pack/train.py"):
        script(tmp_path, PROCESSES, name)
    ended = same(tmp_path, *words)
    await_orphans()
    assert (ended.status, ended.err) == (0, "")


def test_keys_of_processes_differ(tmp_path: Path) -> None:
    name = script(tmp_path, "import multiprocessing as m; print(m.current_process().authkey.hex())")
    with preloader(["multiprocessing"], tmp_path) as process:
        assert process.run(spec(tmp_path, name)) != process.run(spec(tmp_path, name))
