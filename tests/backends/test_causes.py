"""Why a host cannot be used, in words; and the complete commands that the backends run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher import __version__, backends
from dsrun.launcher.backends import base, causes, retries
from dsrun.launcher.backends.base import BOOT, DialBack, StartCommand
from dsrun.launcher.backends.package.command import boot, remote_argv
from dsrun.launcher.backends.package.contents import digest
from dsrun.launcher.backends.ssh.openssh import OpenSSH
from dsrun.launcher.backends.ssh.pdsh import Pdsh
from dsrun.launcher.common.errors import INTERNAL
from dsrun.launcher.common.wording import ANOTHER_PYTHON
from dsrun.launcher.resources.hostfile import Host
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.plan import lay_out

from ..support.needs import need

NO_SHELL = "; give this user an ordinary shell there, or name another user: USER@w1"

# Real output of OpenSSH 9.2's client, login shells and Python.
CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Offending ED25519 key in /root/.ssh/known_hosts:3
Host key for w1 has changed and you have requested strict checking.
Host key verification failed.
"""

GONE = """\
kex_exchange_identification: Connection closed by remote host
Connection closed by UNKNOWN port 65535
"""

OPEN_KEY = """\
@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @
Permissions 0644 for '/home/me/.ssh/id_ed25519' are too open.
It is required that your private key files are NOT accessible by others.
This private key will be ignored.
Load key "/home/me/.ssh/id_ed25519": bad permissions
me@w1: Permission denied (publickey).
"""

NOT_SSH = """\
kex_exchange_identification: banner line contains invalid characters
banner exchange: Connection to 10.0.0.1 port 22: invalid format
"""

MUTE = """\
Connection timed out during banner exchange
Connection to 10.0.0.1 port 22 timed out
"""


@pytest.mark.parametrize(
    ("code", "text", "cause"),
    [
        (
            255,
            f"ssh: Could not resolve hostname j: Name or service not known\r\n{GONE}",
            "its ProxyJump or ProxyCommand failed:"
            " ssh: Could not resolve hostname j: Name or service not known",
        ),
        (
            255,
            f"channel 0: open failed: connect failed: No route\nstdio forwarding failed\n{GONE}",
            "its ProxyJump or ProxyCommand failed:"
            " channel 0: open failed: connect failed: No route",
        ),
        (
            255,
            OPEN_KEY,
            "authentication failed: ssh ignores the key /home/me/.ssh/id_ed25519 because other"
            " users can read it; run chmod 600 /home/me/.ssh/id_ed25519",
        ),
        (
            255,
            NOT_SSH,
            "no sshd on that port: another service answers"
            " (banner exchange: Connection to 10.0.0.1 port 22: invalid format)",
        ),
        (
            255,
            MUTE,
            "its sshd did not answer (Connection to 10.0.0.1 port 22 timed out)",
        ),
        (
            255,
            "ssh: Could not resolve hostname w1: Name or service not known\r\n",
            "its name does not resolve (ssh: Could not resolve hostname w1:"
            " Name or service not known)",
        ),
        (
            255,
            "ssh: Could not resolve hostname w1: Temporary failure in name resolution",
            "its name does not resolve (ssh: Could not resolve hostname w1:"
            " Temporary failure in name resolution)",
        ),
        (
            255,
            "ssh: connect to host w1 port 22: Connection refused",
            "connection refused: no sshd on that port"
            " (ssh: connect to host w1 port 22: Connection refused)",
        ),
        (
            75,
            "dsrun: cannot reach the runner at 10.0.0.1:7: Connection refused\n",
            "cannot reach the runner at 10.0.0.1:7: Connection refused",
        ),
        (
            255,
            "ssh: connect to host w1 port 22: Connection timed out",
            "no answer: the connection timed out"
            " (ssh: connect to host w1 port 22: Connection timed out)",
        ),
        (
            255,
            "ssh: connect to host w1 port 22: No route to host",
            f"{causes.NO_ROUTE} (ssh: connect to host w1 port 22: No route to host)",
        ),
        (
            255,
            "ssh: connect to host 2001:db8::1 port 22: Network is unreachable",
            f"{causes.NO_ROUTE} (ssh: connect to host 2001:db8::1 port 22: Network is unreachable)",
        ),
        (
            255,
            CHANGED,
            "its host key has CHANGED: it is another machine, or was reinstalled;"
            " if you trust it, remove the old key: ssh-keygen -R w1",
        ),
        (
            255,
            "No ED25519 host key is known for w1 and you have requested strict checking.\n"
            "Host key verification failed.\n",
            "unknown host key: check it with ssh-keyscan w1 | ssh-keygen -lf -"
            " and accept it with ssh-keyscan w1 >> ~/.ssh/known_hosts"
            " (or use --accept_new_host_keys)",
        ),
        (
            255,
            "Host key verification failed.",
            "unknown host key: check it with ssh-keyscan w1 | ssh-keygen -lf -"
            " and accept it with ssh-keyscan w1 >> ~/.ssh/known_hosts"
            " (or use --accept_new_host_keys)",
        ),
        (
            255,
            "me@w1: Permission denied (publickey,password).",
            "authentication failed: no key was accepted; run ssh-copy-id w1"
            " (me@w1: Permission denied (publickey,password).)",
        ),
        (
            255,
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures",
            "authentication failed: no key was accepted; run ssh-copy-id w1"
            " (Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures)",
        ),
        (
            255,
            "kex_exchange_identification: Connection closed by remote host\n"
            "Connection closed by 10.0.0.1 port 22\n",
            "its sshd dropped the connection (Connection closed by 10.0.0.1 port 22)",
        ),
        (
            1,
            "motd: Permission denied\ndsrun: no place to store dsrun: /home: No space; set X\n",
            "no place to store dsrun: /home: No space; set X",
        ),
        (
            1,
            "python 3.10 or newer is needed, this is 3.6.15 (default)",
            f"/opt/py is Python 3.6.15, but 3.10 or newer is needed {ANOTHER_PYTHON}",
        ),
        (
            127,
            "bash: line 1: exec: /opt/py: not found",
            f"no Python at /opt/py {ANOTHER_PYTHON} (bash: line 1: exec: /opt/py: not found)",
        ),
        (127, "", f"no Python at /opt/py {ANOTHER_PYTHON}"),
        (
            126,
            "bash: line 1: /etc/passwd: Permission denied",
            f"no permission to run /opt/py {ANOTHER_PYTHON}"
            " (bash: line 1: /etc/passwd: Permission denied)",
        ),
        (
            1,
            "/opt/py: Command not found.",
            f"no Python at /opt/py {ANOTHER_PYTHON} (/opt/py: Command not found.)",
        ),
        (
            255,
            "nonsense\n\n  last words  \n",
            "the node launcher did not start: exit code 255 (last words)",
        ),
        (-9, "", "the node launcher did not start: exit code -9"),
        (137, "x" * 300, f"the node launcher did not start: exit code 137 ({'x' * 200})"),
        (
            1,
            "Traceback (most recent call last):\nOSError: [Errno 5]\n",
            "the node launcher did not start: exit code 1 (OSError: [Errno 5])",
        ),
        (
            2,
            "ls: invalid option -- 'E'\nTry 'ls --help'\n",
            f"/opt/py did not answer as Python 3.10 or newer {ANOTHER_PYTHON}:"
            """ it printed "ls: invalid option -- 'E'", exit code 2""",
        ),
        (
            1,
            "",
            f"/opt/py did not answer as Python 3.10 or newer {ANOTHER_PYTHON}:"
            " it printed nothing, exit code 1 (or its login shell runs no commands)",
        ),
        (
            1,
            "This account is currently not available.\n",
            f"its login shell refuses all commands (nologin){NO_SHELL}"
            " (This account is currently not available.)",
        ),
        *(
            (
                code,
                text,
                f"its login shell is restricted and may not run /opt/py{NO_SHELL} ({text})",
            )
            for code, text in (
                (1, "rbash: line 1: exec: restricted"),
                (127, "rbash: /opt/py: restricted: cannot specify `/' in command names"),
                (1, "rksh: exec: /opt/py: restricted"),
                (1, "zsh:exec:1: /opt/py: restricted"),
                (126, "zsh:1: /opt/py: restricted"),
                (1, "/bin/rbash: line 1: exec: restricted"),
            )
        ),
        (
            128,
            "fatal: unrecognized command 'exec /opt/py'",
            f"its sshd or login shell runs only other commands (ForceCommand, git-shell){NO_SHELL}"
            " (fatal: unrecognized command 'exec /opt/py')",
        ),
        (
            1,
            "This service allows sftp connections only.",
            f"its sshd or login shell runs only other commands (ForceCommand, git-shell){NO_SHELL}"
            " (This service allows sftp connections only.)",
        ),
        (
            142,
            'Please login as the user "ubuntu" rather than the user "root".',
            "its sshd requires another user: write ubuntu@w1, or User ubuntu in ~/.ssh/config",
        ),
        (
            255,
            '"System is booting up. Unprivileged users are not permitted to log in yet."\n'
            "Connection closed by 10.0.0.1 port 22",
            "only root may log in there now: it is booting or shutting down, or has /etc/nologin"
            " (Connection closed by 10.0.0.1 port 22)",
        ),
        (
            0,
            "no jobs here",
            "another program answered instead of /opt/py: it printed 'no jobs here', exit code 0;"
            " its sshd (ForceCommand) or login shell runs that program, or /opt/py is not a Python"
            " (see `ssh w1 /opt/py -V`)",
        ),
        (
            127,
            "This system is restricted to ssh: see policy\nbash: line 1: /opt/py: not found",
            f"no Python at /opt/py {ANOTHER_PYTHON} (bash: line 1: /opt/py: not found)",
        ),
    ],
)
def test_causes(code: int, text: str, cause: str) -> None:
    assert causes.explain(code, text, causes.Attempt("w1", python="/opt/py")) == cause
    assert "\n" not in cause


def test_the_host_is_put_in_as_it_is_written() -> None:
    host = causes.Attempt(r"a\1b")
    assert r"ssh-keyscan a\1b |" in causes.explain(255, "Host key verification failed.", host)
    assert "ssh-keyscan HOST |" in causes.explain(255, "Host key verification failed.")


def test_a_python_that_is_missing_for_the_user_who_was_named() -> None:
    bob = causes.attempt(Host("w1", user="bob"), "/opt/py")
    assert causes.explain(127, "", bob) == (f"no Python at /opt/py for user bob {ANOTHER_PYTHON}")
    command = causes.Attempt("w1", "the command")
    assert causes.explain(3, "", command) == "the command did not start: exit code 3"


@pytest.mark.parametrize(
    ("text", "dropped"),
    [
        ("kex_exchange_identification: read: Connection reset by peer", True),
        ("ssh_exchange_identification: Connection closed by remote host", True),
        ("Connection timed out during banner exchange", False),
        (f"ssh: Could not resolve hostname j: Name or service not known\n{GONE}", False),
        (f"bash: line 1: exec: nc: not found\n{GONE}", False),
        (f"kex_exchange_identification: read: Connection reset by peer\n{GONE}", True),
        (NOT_SSH, False),
        ("ssh: connect to host w1 port 22: Connection refused", False),
        ("Permission denied (publickey).", False),
    ],
)
def test_what_is_worth_another_try(text: str, dropped: bool) -> None:
    assert causes.is_transient(text) is dropped


def test_pauses_grow_are_spread_and_bounded() -> None:
    for attempt, longest in enumerate([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]):
        pauses = [retries.pause(attempt) for _ in range(50)]
        assert all(longest / 2 <= pause <= longest * 1.5 for pause in pauses)
        assert len(set(pauses)) > 40
    assert retries.pause(900) <= 3.0


# -- the commands -------------------------------------------------------------------------------

KNOWN_BY = (__version__, digest(base.package_root()))
SETTINGS = BackendSettings("/py/bin/python", "/src", connect_timeout=1.2, keepalive=0.1)
FULL = BackendSettings(
    "/py 3/python", "/my src", ("-o", "X=a b"), 2222, 10.0, 5.0, accept_new_host_keys=True
)


def remote(settings: BackendSettings, *args: str) -> str:
    """Return the command line for a login shell on the node, in full."""
    quote = "'{}'".format
    words = [settings.python, "-E", "-S", "-c", boot(), settings.root, *KNOWN_BY, *args]
    plain = {"-E", "-S", "-c", "--stdio", "/py/bin/python", "/src", *KNOWN_BY}
    return "exec " + " ".join(word if word in plain else quote(word) for word in words)


def test_the_command_of_openssh() -> None:
    assert OpenSSH(SETTINGS).argv(Host("w0", (0,))) == [
        *("ssh", "-T"),
        *("-o", "BatchMode=yes"),
        *("-o", "ForwardAgent=no"),
        *("-o", "ForwardX11=no"),
        *("-o", "ConnectTimeout=2"),
        *("-o", "ServerAliveInterval=1"),
        *("-o", "ServerAliveCountMax=3"),
        *("--", "w0", remote(SETTINGS, "--stdio")),
    ]


def test_the_command_of_openssh_with_everything() -> None:
    assert OpenSSH(FULL).argv(Host("fe80::1", (0,), user="me", port=23)) == [
        *("ssh", "-o", "X=a b", "-T"),
        *("-o", "BatchMode=yes"),
        *("-o", "ForwardAgent=no"),
        *("-o", "ForwardX11=no"),
        *("-o", "ConnectTimeout=10"),
        *("-o", "ServerAliveInterval=5"),
        *("-o", "ServerAliveCountMax=3"),
        *("-o", "StrictHostKeyChecking=accept-new"),
        *("-p", "23", "-l", "me"),
        *("--", "fe80::1", remote(FULL, "--stdio")),
    ]
    assert OpenSSH(FULL).argv(Host("w0"))[-5:-3] == ["-p", "2222"]


def test_the_command_of_pdsh() -> None:
    nodes = lay_out([Host("w0", (0,)), Host("w1", (0,), user="me")])
    dial = DialBack("10.0.0.1,fd00::1:7", "ab12")
    dial_back = ("--dial=10.0.0.1,fd00::1:7", "--pin=ab12", "--node=%h")
    words = ["exec /py/bin/python -E -S -c", f"'{boot()}'", "/src", *KNOWN_BY, *dial_back]
    line = " ".join(words)
    assert Pdsh(SETTINGS).argv(nodes, dial) == [
        *("pdsh", "-R", "ssh", "-f", "2", "-t", "1", "-w", "w0,me@w1"),
        line,
    ]
    assert Pdsh(FULL).argv(nodes, dial)[9:11] == ["-o", "X=a b"]
    every = StartCommand(Pdsh(SETTINGS).argv(nodes, None), ["w0", "w1"])
    assert Pdsh(SETTINGS).commands(nodes, None) == [every]


def test_the_environment_of_pdsh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PDSH_SSH_ARGS_APPEND", raising=False)
    found = Pdsh(SETTINGS).environ()
    assert found["PDSH_RCMD_TYPE"] == "ssh"
    assert found["PDSH_SSH_ARGS_APPEND"] == "-o BatchMode=yes"
    assert found["PATH"] == os.environ["PATH"]
    monkeypatch.setenv("PDSH_SSH_ARGS_APPEND", "-v")
    found = Pdsh(FULL).environ()
    assert found["PDSH_SSH_ARGS_APPEND"] == (
        "-v -o BatchMode=yes -o StrictHostKeyChecking=accept-new -p 2222"
    )


ENTERED = f"{causes.ENTERING}enroot:x\n"
CONTAINERS = (
    (f"{ENTERED}sh: 1: exec: python9: not found", "", "there is no python9 inside"),
    (f'{ENTERED}FATAL:   "python9": executable file not found in $PATH', "", "no python9 inside"),
    (f"{ENTERED}Error: unknown flag: --x\nSee 'podman run --help'", "", "unknown flag: --x (see"),
    (ENTERED, "Usage: enroot start [options]\n\n Options:\n", "it does not know one of its"),
    (f"{ENTERED}[ERROR] No squashfs", "a banner\n", "did not start: [ERROR] No squashfs"),
    (ENTERED, "", "did not start: exit code 1"),
)


@pytest.mark.parametrize(("errors", "output", "why"), CONTAINERS)
def test_why_a_container_did_not_start(errors: str, output: str, why: str) -> None:
    found = causes.explain_session(1, errors, output.encode(), causes.NODE_LAUNCHER, answered=False)
    assert found.startswith("enroot:x")
    assert why in found


def test_the_commands_of_the_others() -> None:
    nodes = lay_out([Host("w0", (0,)), Host("w1")])
    own = ["/py/bin/python", "-E", "-S", "-c", BOOT, "/src", "--stdio"]
    assert backends.load("local", SETTINGS).commands(nodes[:1], None) == [StartCommand(own, ["w0"])]
    ((argv, hosts, host_at),) = backends.load("ssh", SETTINGS).commands(nodes, None)
    assert (hosts, host_at and argv[host_at]) == (["w0", "w1"], "w0")
    assert argv == OpenSSH(SETTINGS).argv(nodes[0].host)
    assert backends.load("openssh", SETTINGS).commands(nodes, None) == [(argv, hosts, host_at)]
    assert backends.load("none", SETTINGS).commands(nodes, None)[1] == StartCommand(
        ["dsrun", "--no_ssh", "--node_rank=1", "..."], ["w1"]
    )


def test_hosts_with_other_options_of_ssh_have_a_command_of_their_own() -> None:
    hosts = [Host("a"), Host("b", port=23), Host("c", user="me"), Host("d", port=22), Host("e")]
    nodes = lay_out(hosts)
    over = OpenSSH(SETTINGS._replace(port=22))
    shown = over.commands(nodes, None)
    assert [command.hosts for command in shown] == [["a", "d", "e"], ["b"], ["c"]]
    for argv, names, host_at in shown:
        for name in names:
            host = next(host for host in hosts if host.name == name)
            assert over.argv(host) == [
                name if at == host_at else word for at, word in enumerate(argv)
            ]


@pytest.mark.parametrize(
    ("name", "hosts", "problem"),
    [
        (
            "local",
            [Host("a")],
            "--python /py/bin/python: no such file; name a Python 3.10 or newer",
        ),
        ("openssh", [Host("a"), Host("fe80::1", port=3)], ""),
        ("pdsh", [Host("a"), Host("b", user="me")], ""),
        (
            "pdsh",
            [Host("a"), Host("b", port=3, where="hosts:2")],
            "hosts:2: pdsh cannot use a separate port for b; set it in ~/.ssh/config,"
            " or use --launcher ssh or openssh",
        ),
        (
            "pdsh",
            [Host("::2")],
            "--launcher pdsh: IPv6 address ::2; use a host name, or --launcher ssh",
        ),
    ],
)
def test_what_a_backend_cannot_do(name: str, hosts: list[Host], problem: str) -> None:
    need("ssh", "pdsh")
    assert backends.load(name, SETTINGS).problem(lay_out(hosts)) == problem


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "openssh",
            "--launcher openssh: no `ssh` on PATH; install it, or use --launcher ssh",
        ),
        (
            "pdsh",
            "--launcher pdsh: no `pdsh` on PATH; install it, or use --launcher ssh or openssh",
        ),
    ],
)
def test_a_tool_that_is_not_there(
    name: str, problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert backends.load(name, SETTINGS).problem(lay_out([Host("a")])) == problem


# -- through shells -----------------------------------------------------------------------------


def test_the_boot_line_has_nothing_that_a_shell_treats_specially_in_quotes() -> None:
    assert not set(boot()) & set("'\\$%!`\n\r\t^")
    assert boot().isascii()
    assert len(boot()) < 6000
    compile(boot(), "boot", "exec")


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "ksh", "fish", "tcsh"])
def test_the_boot_line_arrives_whole_through_every_shell(shell: str) -> None:
    if shutil.which(shell) is None and shell not in {"sh", "bash"}:
        pytest.skip(f"not installed: {shell}")
    show = "import sys;print(sys.argv[1:])"
    words = remote_argv(BackendSettings(sys.executable), "--stdio")
    line = base.shell_line([sys.executable, "-c", show, *words])
    ran = subprocess.run([shell, "-c", line], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{words}\n"


HOSTILE = [
    *("plain", "", "a b", "a'b", 'a"b', "$HOME", "`id`", "a;b", "a|b", "a&b", "(x)", "~", "*"),
    *("a\\b", "!x", "#x", "é", "--x=%h", "a\nb", "{a,b}", "[ab]", ">x", "\t", "\udcff"),
]


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "ksh", "fish", "tcsh"])
def test_a_command_arrives_whole_through_every_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None and shell not in {"sh", "bash"}:
        pytest.skip(f"not installed: {shell}")
    words = [word for word in HOSTILE if shell not in {"tcsh", "fish"} or word.isalnum()]
    show = "import os,sys;print([os.fsencode(a) for a in sys.argv[1:]])"
    line = base.shell_line([sys.executable, "-c", show, *words])
    ran = subprocess.run(
        [shell, "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"{[os.fsencode(word) for word in words]}\n"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_node_launchers_command_starts_one_in_a_hostile_folder(
    shell: str, tmp_path: Path
) -> None:
    for name in ("os", "json", "signal", "dsrun", "launcher", "site"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    settings = BackendSettings(sys.executable, base.package_root())
    line = base.shell_line(remote_argv(settings, "--nonsense"))
    ran = subprocess.run(
        [shell, "-c", line],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": "x", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "dsrun: node launcher: expected --stdio, --dial=... with --pin=..., or --program=...\n"
    )


BUG = """Traceback (most recent call last):
  File "/opt/dsrun/launcher/node/main.py", line 230, in _code_of
    code = call()
  File "/opt/dsrun/launcher/features/quick_check/node_collect.py", line 33, in collect
    environ = environ_of(setup)
TypeError: boo
"""


@pytest.mark.parametrize("answered", [True, False])
def test_an_error_in_the_node_launcher_itself_is_a_bug_with_its_place(answered: bool) -> None:
    tried = causes.Attempt("w1", python="/opt/py")
    assert causes.explain_session(INTERNAL, BUG, b"", tried, answered=answered) == (
        "its node launcher failed at features/quick_check/node_collect.py:33 (TypeError: boo):"
        " this is a bug in dsrun, please report it"
    )
    other = causes.explain_session(INTERNAL, "x: y\n", b"", tried, answered=True)
    assert other == "its session ended: x: y"
