"""A stand-in for clients of container runtimes: it runs the command on this machine.

Its first argument is its name: `docker`, `podman`, `apptainer` or `enroot`. It checks the words
that it gets as the real client does, and gives the command the environment that the real one gives.
Images and containers are in files beside `STAND_IN`. As with a daemon, the command is in a session
of its own; if the client is killed, the command's input ends.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(os.environ["STAND_IN"])
IMAGE = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home-of-the-image"}
FLAGS = {"--rm", "--interactive", "--cleanenv", "--nv", "--rocm", "--privileged"}


def main() -> int:
    name, *words = sys.argv[1:]
    with (HERE / "calls").open("a") as file:
        file.write(json.dumps([name, *words]) + "\n")
    return {"docker": engine, "podman": engine, "apptainer": apptainer, "enroot": enroot}[name](
        words
    )


def engine(words: list[str]) -> int:
    what = words[0]
    if what in {"image", "container"} and words[1] == "inspect":
        found = known(what).get(words[2])
        print(json.dumps([found] if found else []))
        return 0 if found else 1
    if what == "pull":
        return pull(words[-1])
    if what == "run":
        return run(words[1:])
    if what == "exec":
        return enter(words[1:])
    if what == "ps":
        for one, job in running().items():
            print(one, job)
        return 0
    if what in {"rm", "stop"}:
        (HERE / "containers" / words[-1]).unlink(missing_ok=True)
        return 0
    raise SystemExit(f"unknown: {words}")


def known(kind: str) -> dict[str, dict[str, object]]:
    file = HERE / f"{kind}s.json"
    return json.loads(file.read_text()) if file.exists() else {}


def pull(name: str) -> int:
    if name.startswith("none"):
        print(f"Error response from daemon: manifest for {name} not found", file=sys.stderr)
        return 1
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


def check_mounts(values: list[str], read_only: str) -> None:
    for value in values:
        kind, source, target, *mode = next(csv.reader([value]))
        assert kind == "type=bind", value
        assert Path(source.removeprefix("source=")).exists(), value
        assert target.startswith("target=/"), value
        assert mode in ([], [read_only]), value


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
    check_mounts(options.get("--mount", []), "ro")
    assert Path(image).exists()
    prefix = "APPTAINERENV_"
    own = {n.removeprefix(prefix): v for n, v in os.environ.items() if n.startswith(prefix)}
    os.execvpe(rest[0], rest, IMAGE | own)


def enroot(words: list[str]) -> int:
    assert words.pop(0) == "start"
    options, (image, *rest) = split(words)
    for mount in options.get("--mount", []):
        source, target, kind, _modes = mount.split(":")
        assert Path(source).exists()
        assert (target[0], kind) == ("/", "none")
    assert Path(image).exists()
    os.execvpe(rest[0], rest, environment(options))


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
