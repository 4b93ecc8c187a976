"""The virtual computers of a cluster, and what they hang from; `hosts.py` puts them together."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import uuid
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dsrun.launcher.node.machine.sock_diag import LISTENING, tcp_sockets

from ..support.limits import HANG, wait_for
from .forwarder import enter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

T = TypeVar("T", bound="Temporary")

HOME = "/run/home"
"""The user's home at the login and on every host, as if it were on a shared file system."""
PRIVATE = ("/tmp", "/dev/shm")
"""Folders that each host has to itself, empty when its power comes on."""
SUBNET = IPv4Network("10.77.0.0/16")
BLACKHOLE = str(SUBNET[-2])
"""Packets to this address are lost without a word."""
UNREACHABLE = str(SUBNET[-3])
"""Nobody has this address: after three seconds there is `no route to host`."""

TOOLS = {"PATH": os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"}
SUPPLY_SCRIPT, BOOT_SCRIPT, SSHD_CONFIG = (
    Path(__file__).with_name(name) for name in ("supply.sh", "boot.sh", "sshd_config")
)


def lines(items: Iterable[str]) -> str:
    """The items as the text of a file."""
    return "".join(f"{item}\n" for item in items)


def user_environment() -> dict[str, str]:
    """Our own environment, but for what dsrun would obey, and with the administrator's tools."""
    obeyed = {"COLUMNS", "NO_COLOR"}
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("DSRUN_") and name not in obeyed
    }
    return {**ours, **TOOLS, "TERM": "xterm"}


def first_descendant(pid: int, generations: int) -> int:
    """The process so many generations below, each the first child of its parent."""
    for _ in range(generations):
        pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    return pid


def _listening(namespace: str) -> set[int]:
    enter(namespace)
    families = socket.AF_INET, socket.AF_INET6
    return {one.port for family in families for one in tcp_sockets(family, LISTENING)}


def kill_child(pid: int) -> None:
    """Kill the first child of a process, unless it has just ended."""
    with suppress(IndexError, ProcessLookupError):
        os.kill(first_descendant(pid, 1), signal.SIGKILL)


class Temporary(ABC):
    """What is up inside a `with` block and gone behind it, also where it does not come up."""

    def __enter__(self: T) -> T:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End it; nothing of it is left."""

    @abstractmethod
    def _start(self) -> None:
        """Have it up."""


class Supply:
    """What all machines hang from: the switch, the cluster's own files, and the owner's lifeline.

    Args:
        shared: absolute folders that every machine shall see at the same place.

    Raises:
        OSError: namespaces cannot be made here; the text says why.
    """

    def __init__(self, shared: Iterable[Path]) -> None:
        hidden = (*PRIVATE, "/run")
        self.shared = [path for path in shared if any(map(path.is_relative_to, hidden))]
        self._process = subprocess.Popen(
            ["sh", "-c", SUPPLY_SCRIPT.read_text(), "sh", *map(str, self.shared)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**TOOLS, "CLUSTER": f"dsrun-cluster-{uuid.uuid4().hex}"},
            start_new_session=True,
        )
        if self._process.stdout and self._process.stdout.readline() != "up\n":
            raise OSError(f"no virtual hosts here: {self._process.communicate()[1].strip()}")
        self.pid = first_descendant(self._process.pid, 2)

    @property
    def network(self) -> str:
        """The file of the switch's network namespace."""
        return f"/proc/{self.pid}/ns/net"

    def path(self, path: str) -> Path:
        """Where the real machine finds a file of the cluster's own `/run`."""
        return Path(f"/proc/{self.pid}/root{path}")

    def run(self, *command: str, typed: str = "") -> None:
        """Run a command at the switch, among the cluster's own files."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--net"]
        subprocess.run(
            [*enter, *command], input=typed, capture_output=True, text=True, check=True, env=TOOLS
        )

    def ip(self, *tasks: str) -> None:
        """Have `ip` do these at the switch."""
        self.run("ip", "-batch", "-", typed=lines(tasks))

    def close(self) -> None:
        """End every process of the cluster; its files go with the last one."""
        self._process.communicate()


class Machine:
    """A virtual computer: the login is one as it stands, and a `Host` has more to it.

    A command that is run here has the real machine's process ids and takes the place of the one
    that entered: it is the caller's own child, to be sent signals, stopped or killed.

    Attributes:
        name: the host's name, which all others can resolve.
        address: its IPv4 address.
        pid: its first process, as the real machine counts; 0 while the power is off.
        port: the other end of its cable, at the switch.
        card: the hardware address of its network card.
        before: words before every command that is run here from the real machine.
    """

    _entered: tuple[str, ...] = ("--mount", "--uts", "--ipc", "--net")
    _created: tuple[str, ...] = _entered
    _generations = 1
    _own = "net"

    def __init__(self, supply: Supply, name: str, number: int) -> None:
        self.name = name
        self.address = str(SUBNET[number])
        self.pid = 0
        self._supply = supply
        self._number = number
        self.port = f"port{number}"
        self.card = f"02:77:00:00:{number >> 8:02x}:{number & 255:02x}"
        self._folder = f"/run/{name}"
        self.before: tuple[str, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        """The host's `/`, for looking in from the real machine: `host.root / "tmp"`."""
        return Path(f"/proc/{self.pid}/root")

    @property
    def network(self) -> str:
        """The file of its network namespace."""
        return f"/proc/{self.pid}/ns/net"

    @property
    def namespace(self) -> str:
        """The one that all processes on this machine are in, and no others."""
        return str(Path(f"/proc/{self.pid}/ns/{self._own}").readlink())

    def argv(self, command: Sequence[str], cwd: str | Path = HOME) -> list[str]:
        """The command line with which the real machine runs this command on the host."""
        enter = ["nsenter", f"--target={self.pid}", *self._entered]
        return [*enter, "env", f"--chdir={cwd}", f"HOME={HOME}", *self.before, *command]

    def popen(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path = HOME,
        **options: Any,
    ) -> subprocess.Popen[str]:
        """Start a command on the host, its environment ours and `env`.

        What else `subprocess.Popen` takes can be given too. Without, the command has nothing to
        read, and its two outputs are text in pipes.
        """
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            self.argv(command, cwd),
            env={**user_environment(), **(env or {})},
            **{**pipes, "text": True, **options},
        )

    def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path = HOME,
        timeout: float = HANG,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the host to its end.

        Raises:
            subprocess.TimeoutExpired: after so many seconds; the command has been killed.
        """
        with self.popen(command, env=env, cwd=cwd) as process:
            try:
                output, errors = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    @contextmanager
    def names(self, addresses: Mapping[str, str]) -> Iterator[None]:
        """Its `/etc/hosts` has only these names inside the `with` block, and `localhost`."""
        rows = {"localhost": "127.0.0.1", **addresses}
        self._file("hosts").write_text(lines(f"{rows[name]} {name}" for name in rows))
        made = self.run(["mount", "--bind", f"{self._folder}/hosts", "/etc/hosts"])
        if made.returncode:
            raise OSError(f"/etc/hosts of {self.name}: {made.stderr}")
        try:
            yield
        finally:
            self.run(["umount", "--lazy", "/etc/hosts"])

    def ip(self, *tasks: str) -> None:
        """Have `ip` do these on this machine."""
        self.administer(*(f"ip {task}" for task in tasks))

    def administer(self, *commands: str) -> None:
        """Run commands of the administrator on the host, such as `ip link set eth0 up`."""
        done = self.run(["sh", "-ec", lines(commands)])
        if done.returncode:
            raise OSError(f"{self.name}: {done.stderr.strip()}")

    def listening(self) -> set[int]:
        """The TCP ports on which anything on this host listens; none while the power is off.

        They are asked for in the host's own network: to read them in /proc/PID/net takes the kernel
        5 ms for each host, as it looks at the connections of all.
        """
        with suppress(FileNotFoundError, ProcessLookupError), ThreadPoolExecutor(1) as thread:
            return thread.submit(_listening, self.network).result()
        return set()

    def cut(self) -> None:
        """Pull the cable: packets are lost without a word, and connections do not know."""
        self._supply.ip(f"link set {self.port} down")

    def mend(self) -> None:
        """Put the cable back."""
        self._supply.ip(f"link set {self.port} up")

    @contextmanager
    def unplugged(self) -> Iterator[None]:
        """The cable is out inside the `with` block."""
        self.cut()
        try:
            yield
        finally:
            self.mend()

    def boot(self) -> None:
        """Switch the power on, without waiting for the host to be up."""
        self._supply.path(self._folder).mkdir(exist_ok=True)
        self._file("sshd.pid").unlink(missing_ok=True)
        self._file("boot_id").write_text(f"{uuid.uuid4()}\n")
        self._file("fstab").write_text(lines(self._mounts()))
        self._file("wires").write_text(lines(self._wires()))
        self._configure_sshd({})
        script = ["sh", "-c", BOOT_SCRIPT.read_text(), "sh", self._folder, self.name]
        enter = ["nsenter", f"--target={self._supply.pid}", "--mount", "--pid"]
        with self._file("boot.log").open("w") as log:
            self._process = subprocess.Popen(
                [*enter, "unshare", *self._created, *script, self._sshd()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=TOOLS,
                start_new_session=True,
            )

    def is_up(self) -> bool:
        """Whether its sshd takes logins by now.

        Raises:
            OSError: it never will; the text is what its boot script said.
        """
        if self._process and self._process.poll() is not None:
            raise OSError(f"{self.name} did not boot: {self._file('boot.log').read_text()}")
        return self._sshd_pid() != ""

    def join(self) -> str:
        """Take note that the host is up; what `ip` has to do to connect it to the switch."""
        if self._process:
            self.pid = first_descendant(self._process.pid, self._generations)
        return f"link set {self.port} master switch up"

    def known_as(self) -> str:
        """The host's line in a `known_hosts` file."""
        key = self._file("host_key.pub").read_text()
        return f"{self.name},{self.name}.cluster,{self.address} {key.rpartition(' ')[0]}"

    def wait_off(self) -> None:
        """Wait for the end of a host that has lost its power."""
        if self._process:
            self._process.wait()
        self.pid = 0

    def _file(self, name: str) -> Path:
        return self._supply.path(f"{self._folder}/{name}")

    def _mounts(self) -> Iterator[str]:
        for target in PRIVATE:
            yield f"{self.name} {target} tmpfs mode=1777 0 0"
        yield "/run/etc /etc none bind 0 0"
        yield f"{self._folder}/boot_id /proc/sys/kernel/random/boot_id none bind 0 0"
        for path in self._supply.shared:
            target = str(path).replace(" ", r"\040")
            yield f"/run/shared{target} {target} none bind,X-mount.mkdir 0 0"

    def _wires(self) -> Iterator[str]:
        # The network card keeps its address over a power cut: with another one, the other hosts
        # would not find this one again until their neighbour tables have aged.
        yield "link set lo up"
        yield f"link add eth0 address {self.card} type veth peer name {self.port} netns switch"
        yield f"address add {self.address}/{SUBNET.prefixlen} dev eth0"
        yield "link set eth0 up"
        yield f"neighbour add {BLACKHOLE} lladdr 02:77:ff:ff:ff:ff dev eth0 nud permanent"

    def _sshd(self) -> str:
        # It starts itself again for each session, and insists on an absolute path for that.
        return shutil.which("sshd", path=TOOLS["PATH"]) or "/usr/sbin/sshd"

    def _sshd_pid(self) -> str:
        # sshd takes the file away when it ends, at any moment.
        with suppress(FileNotFoundError):
            return self._file("sshd.pid").read_text().strip()
        return ""

    def _configure_sshd(self, options: Mapping[str, str]) -> None:
        # Whether the first or the last value of an option counts depends on the option.
        usual = dict(line.split(" ", 1) for line in SSHD_CONFIG.read_text().splitlines())
        own = {"HostKey": f"{self._folder}/host_key", "PidFile": f"{self._folder}/sshd.pid"}
        values = {**usual, **own, **options}
        self._file("sshd_config").write_text(lines(map(" ".join, values.items())))


class Host(Machine):
    """A machine whose processes depend on its first one: killing that is a power cut."""

    _entered = (*Machine._entered, "--pid")
    _created = (*_entered, "--fork", "--mount-proc")
    _generations = 2
    _own = "pid"

    def power_off(self) -> None:
        """Cut the power: all processes are gone, and nobody on the network is told."""
        self._supply.ip(f"link delete {self.port}")
        os.kill(self.pid, signal.SIGKILL)
        self.wait_off()

    def power_on(self) -> None:
        """Boot again, with the same keys and the same address, and empty private folders."""
        self.boot()
        wait_for(self.is_up, f"{self.name} to boot")
        self._supply.ip(self.join())

    @contextmanager
    def powered_off(self) -> Iterator[None]:
        """The power is off inside the `with` block."""
        self.power_off()
        try:
            yield
        finally:
            self.power_on()

    def restart_sshd(self, **options: str) -> None:
        """Start sshd with these options in place of the usual ones; sessions go on.

        Raises:
            OSError: sshd does not start with these options.
        """
        if self._sshd_pid():
            self.run(["kill", self._sshd_pid()])
            wait_for(lambda: not self._sshd_pid(), f"the end of sshd on {self.name}")
        self._configure_sshd(options)
        log = f"{self._folder}/sshd.log"
        started = self.run([self._sshd(), "-f", f"{self._folder}/sshd_config", "-E", log])
        if started.returncode:
            raise OSError(f"sshd on {self.name}: {self._file('sshd.log').read_text()}")
        wait_for(self._sshd_pid, f"sshd on {self.name}")

    @contextmanager
    def sshd(self, **options: str) -> Iterator[None]:
        """`host.sshd(MaxStartups="1:100:1")`: sshd runs so inside the `with` block."""
        try:
            self.restart_sshd(**options)
            yield
        finally:
            self.restart_sshd()

    @contextmanager
    def limited(self, path: str, size: str) -> Iterator[None]:
        """One of its private folders has only so much room inside the block: ("/tmp", "16k")."""
        change = "mount -o remount,size={} {}"
        self.administer(change.format(size, path))
        try:
            yield
        finally:
            self.administer(change.format("50%", path))

    @contextmanager
    def tmpfs(self, path: str, size: str) -> Iterator[None]:
        """A small disk on a folder, which is made if need be: `host.tmpfs("/tmp", "64k")`."""
        made = self.run(["mount", "-t", "tmpfs", "-o", f"X-mount.mkdir,size={size}", "disk", path])
        if made.returncode:
            raise OSError(f"{path} on {self.name}: {made.stderr}")
        try:
            yield
        finally:
            self.run(["umount", "--lazy", path])
