"""A stand-in for clients of container runtimes: it runs the command on this machine.

Its first argument is its name: `docker`, `podman`, `apptainer` or `enroot`. It checks the words
that it gets as the real client does, and gives the command the environment that the real one gives.
Images and containers are in the folder `STAND_IN`; with a file `down` in it, no daemon runs, and
with a file `stuck`, containers cannot be removed. As with a daemon, the command of docker and
podman is in a session of its own; if the client is killed, the command's input ends.

The image of apptainer and enroot is a file. If it names a folder, the command runs in that as its
root file system, which cannot be changed, with /usr of the host; this needs root. As the real ones
do, apptainer stays and passes signals on, and enroot becomes the command.
"""

from __future__ import annotations

import csv
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

HERE = Path(os.environ["STAND_IN"])
IMAGE = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home-of-the-image"}
FLAGS = {"--rm", "--interactive", "--cleanenv", "--nv", "--rocm", "--privileged"}
APPTAINERS = {"--cleanenv", "--nv", "--rocm", "--pwd", "--mount"}
ENROOTS = {"--mount", "--env", "--root", "--rw"}
OF_HOST = ("/usr", "/proc", "/sys", "/dev", "/etc/hosts")
"""What every root file system gets of the host, besides a /tmp of its own."""

NEW_MOUNTS, READ_ONLY, REMOUNT, BIND, REC, SLAVE = 0x20000, 1, 32, 4096, 16384, 1 << 19
"""Flags of unshare(2) and mount(2)."""

DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

Rows = list[tuple[str, str, bool]]
"""Mounts: the path on the host, the path inside, whether it is read-only."""

libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    name, *words = sys.argv[1:]
    with (HERE / "calls").open("a") as file:
        file.write(json.dumps([name, *words]) + "\n")
    return {"docker": engine, "podman": engine, "apptainer": apptainer, "enroot": enroot}[name](
        words
    )


def engine(words: list[str]) -> int:
    if (HERE / "down").exists():
        return failed("Cannot connect to the Docker daemon. Is the docker daemon running?")
    what, *rest = words
    if what in {"image", "container"}:
        return inspect(what, rest[1])
    known_words = {"pull": pull, "run": run, "exec": enter, "ps": ps, "rm": end, "stop": end}
    return known_words[what](rest)


def inspect(kind: str, name: str) -> int:
    found = known(kind).get(name)
    print(json.dumps([found] if found else []))
    return 0 if found else 1


def ps(_words: list[str]) -> int:
    for one, job in running().items():
        print(one, job)
    return 0


def end(words: list[str]) -> int:
    if (HERE / "stuck").exists():
        return failed(f"Error response from daemon: could not kill {words[-1]}")
    (HERE / "containers" / words[-1]).unlink(missing_ok=True)
    return 0


def failed(why: str) -> int:
    print(why, file=sys.stderr)
    return 1


def known(kind: str) -> dict[str, dict[str, object]]:
    file = HERE / f"{kind}s.json"
    return json.loads(file.read_text()) if file.exists() else {}


def pull(words: list[str]) -> int:
    name = words[-1]
    if name.startswith("none"):
        return failed(f"Error response from daemon: manifest for {name} not found")
    (HERE / "images.json").write_text(json.dumps({name: {"Id": "sha256:pulled"}}))
    return 0


def running() -> dict[str, str]:
    folder = HERE / "containers"
    return {one.name: one.read_text() for one in folder.iterdir()} if folder.is_dir() else {}


def split(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the options, and what follows them."""
    options: dict[str, list[str]] = {}
    while words and words[0].startswith("-"):
        option, given, value = words.pop(0).partition("=")
        if not given and option not in FLAGS:
            value = words.pop(0)
        options.setdefault(option, []).append(value)
    return options, words


def check_mounts(values: list[str], read_only: str) -> Rows:
    rows: Rows = []
    for value in values:
        kind, source, target, *mode = next(csv.reader([value]))
        assert kind == "type=bind", value
        assert Path(source.removeprefix("source=")).exists(), value
        assert target.startswith("target=/"), value
        assert mode in ([], [read_only]), value
        rows.append((source.removeprefix("source="), target.removeprefix("target="), bool(mode)))
    return rows


def environment(options: dict[str, list[str]]) -> dict[str, str]:
    return IMAGE | {name: os.environ[name] for name in options.get("--env", [])}


def run(words: list[str]) -> int:
    options, (image, *rest) = split(words)
    check_mounts(options.get("--mount", []), "readonly")
    assert image in {str(one["Id"]) for one in known("image").values()}, image
    number = f"{os.getpid():064d}"
    Path(options["--cidfile"][0]).write_text(number)
    (HERE / "containers").mkdir(exist_ok=True)
    (HERE / "containers" / number).write_text(options["--label"][0].partition("=")[2])
    code = served([options["--entrypoint"][0], *rest], environment(options))
    (HERE / "containers" / number).unlink(missing_ok=True)
    return code


def enter(words: list[str]) -> int:
    options, (container, *rest) = split(words)
    assert container in {str(one["Id"]) for one in known("container").values()}, container
    return served(rest, environment(options))


def apptainer(words: list[str]) -> int:
    assert words.pop(0) == "exec"
    options, (image, *rest) = split(words)
    if unknown := sorted(options.keys() - APPTAINERS):
        print(f'Error for command "exec": unknown flag: {unknown[0]}\n', file=sys.stderr)
        print("Run 'apptainer --help' for more detailed usage information.", file=sys.stderr)
        return 1
    rows = check_mounts(options.get("--mount", []), "ro")
    environ = {**IMAGE, "HOME": os.environ["HOME"]}
    for name, value in os.environ.items():
        for prefix in ("SINGULARITYENV_", "APPTAINERENV_"):
            own = name.removeprefix(prefix)
            if own != name and own not in {"HOME", "PATH"}:
                assert environ.setdefault(own, value) == value, "another value is overridden"
    if not (root := root_of(image)):
        os.execvpe(rest[0], rest, {**environ, **IMAGE})
    if child := os.fork():
        return waited_for(child)
    libc.prctl(DEATH_SIGNAL, signal.SIGKILL)
    home = os.environ["HOME"]
    enter_root(root, [(home, home, False), *rows])
    os.chdir(options["--pwd"][0])
    try:
        os.execvpe(rest[0], rest, {**environ, **variables(Path("/etc/environment"))})
    except FileNotFoundError:
        print(f'FATAL:   "{rest[0]}": executable file not found in $PATH', file=sys.stderr)
        os._exit(255)


def waited_for(child: int) -> int:
    """Pass signals on to the command, and end as it does."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda number, _: os.kill(child, number))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def enroot(words: list[str]) -> int:
    assert words.pop(0) == "start"
    options, (image, *rest) = split(words)
    if options.keys() - ENROOTS:
        print("Usage: enroot start [options] [--] NAME|IMAGE [COMMAND] [ARG...]\n\n Options: ...")
        sys.exit(0)
    rows: Rows = []
    for mount in options.get("--mount", []):
        if not re.fullmatch(r"[^\s]+:[^\s]+", mount):
            sys.exit(f"[ERROR] Invalid argument: {mount}")
        source, target, kind, modes = mount.split(":")
        assert Path(source).exists()
        assert (target[0], kind) == ("/", "none")
        assert set(modes.split(",")) <= {"x-create=auto", "rbind", "ro", "rw"}
        rows.append((source, target, "ro" in modes.split(",")))
    own: dict[str, str] = {}
    for name in options.get("--env", []):
        assert re.fullmatch(r"[A-Za-z_]\w*", name), "enroot refuses other names"
        own |= parsed(f"{name}={os.environ.get(name, '')}".split("\n"))
    if not (root := root_of(image)):
        os.execvpe(rest[0], rest, IMAGE | own)
    enter_root(root, rows)
    home = {"HOME": os.environ["HOME"]}
    environ = {**IMAGE, **home, **variables(Path("/etc/environment")), **own}
    os.closerange(3, 1024)
    os.execvpe("/bin/sh", ["-sh", "-c", 'exec "$@"', "sh", *rest], environ)


def root_of(image: str) -> str:
    """Return the folder that an image names, "" if there is none."""
    text = Path(image).read_text()
    return text if text.startswith("/") and Path(text).is_dir() else ""


def enter_root(root: str, rows: Rows) -> None:
    """Have a folder as the root file system of this process, with mounts."""
    checked(libc.unshare(NEW_MOUNTS))
    mounted("", "/", REC | SLAVE)
    mounted(root, root, BIND)
    mounted("tmpfs", f"{root}/tmp", 0, "tmpfs")
    for source, target, read_only in [*((one, one, False) for one in OF_HOST), *rows]:
        place = Path(f"{root}{target}")
        if Path(source).is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
        mounted(source, str(place), BIND | REC)
        if read_only:
            mounted("", str(place), BIND | REMOUNT | READ_ONLY)
    mounted("", root, BIND | REMOUNT | READ_ONLY)
    os.chroot(root)
    os.chdir("/")


def mounted(source: str, target: str, flags: int, kind: str = "") -> None:
    words = (os.fsencode(one) or None for one in (source, target, kind))
    checked(libc.mount(*words, flags, None))


def checked(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def variables(file: Path) -> dict[str, str]:
    """Return the variables of an image."""
    return parsed(file.read_text().splitlines())


def parsed(lines: Iterable[str]) -> dict[str, str]:
    """Return the variables that enroot finds in lines; it drops any other line."""
    pairs = (line.partition("=") for line in lines if re.match(r"[A-Za-z_]\w*=", line))
    return {name: value for name, _, value in pairs}


def served(argv: list[str], environ: dict[str, str]) -> int:
    """Run a command in a process of its own session, whose input is copied by this client."""
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, env=environ, start_new_session=True
    ) as process:
        assert process.stdin
        os.set_blocking(0, True)
        if os.fork() == 0:
            try:
                while block := os.read(0, 65536):
                    process.stdin.write(block)
                    process.stdin.flush()
            finally:
                os._exit(0)
        process.stdin.close()
        code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
