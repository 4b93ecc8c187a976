"""The ssh configuration: from `ssh -G`, from its files, and as paramiko reads it."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.backends.ssh import config, config_reader, unsupported
from dsrun.launcher.backends.ssh.config import HostConfig, LoginName, ProxyJump, Unreadable
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.specs.host import Host

from ...support.local_control import needs_root
from ...support.needs import need
from ...support.other_user import other_user

if TYPE_CHECKING:
    from pathlib import Path

ME = LoginName("me", "/home/me", {"SSH_AUTH_SOCK": "/run/agent", "WHERE": "/keys"}, 1001)

# The output of OpenSSH 9.2, shortened.
TOLD = """\
host n2
user root
hostname n2.cluster
port 2222
addressfamily any
identitiesonly no
proxyusefdpass no
pubkeyauthentication true
stricthostkeychecking false
verifyhostkeydns false
hostkeyalias al
identityfile ~/.ssh/%h_%r_%n
identityfile ${WHERE}/a b
identityfile none
securitykeyprovider internal
globalknownhostsfile /etc/ssh/ssh_known_hosts
userknownhostsfile /root/.ssh/known_hosts /root/.ssh/known_hosts2
proxyjump a,b
"""


def settled(text: str, name: str = "n2") -> HostConfig:
    return config.resolve(config.parse(text), name, ME)


def test_what_ssh_tells_of_a_host() -> None:
    found = settled(TOLD)
    assert (found.address, found.port, found.user) == ("n2.cluster", 2222, "root")
    assert found.keys == ("/home/me/.ssh/n2.cluster_root_n2", "/keys/a b")
    assert found.known_hosts == (
        *("/root/.ssh/known_hosts", "/root/.ssh/known_hosts2"),
        "/etc/ssh/ssh_known_hosts",
    )
    assert (found.known_as, found.jumps, found.command) == ("al", "a,b", "")
    assert found.accepts_new_keys
    assert found.agent == "/run/agent"
    assert config.unsupported(found, "/run/agent") == ""


def test_what_holds_where_nothing_is_said() -> None:
    found = settled("", "fe80::1")
    assert (found.address, found.port, found.user) == ("fe80::1", 22, "me")
    assert found.keys == tuple(f"/home/me/.ssh/id_{kind}" for kind in config.KINDS)
    assert found.known_hosts[0] == "/home/me/.ssh/known_hosts"
    assert (found.jumps, found.command, found.accepts_new_keys) == ("", "", False)


def test_the_first_value_counts_and_none_is_nothing() -> None:
    text = (
        "port 1\nport 2\nproxycommand none\nproxyjump none\nidentityagent none\nidentityfile none"
    )
    found = settled(text)
    assert (found.port, found.command, found.jumps, found.agent, found.keys) == (1, "", "", "", ())


@pytest.mark.parametrize(
    ("command", "filled"),
    [
        ("nc %h %p", "nc n2.cluster 2222"),
        ("x %r@%n 100%% %q", "x root@n2 100% %q"),
        ("y %k %d", "y al /home/me"),
    ],
)
def test_tokens_that_are_left_to_us(command: str, filled: str) -> None:
    assert settled(f"{TOLD}proxycommand {command}\n").command == filled


@pytest.mark.parametrize("port", ["abc", "0", "65536", "-1", "²", "1" * 50])
def test_a_port_that_is_none(port: str) -> None:
    with pytest.raises(Unreadable, match="expected 1 to 65535"):
        settled(f"port {port}")


@pytest.mark.parametrize(
    ("text", "jump"),
    [
        ("n1", ProxyJump("n1", None, None)),
        (" me@n1:22 ", ProxyJump("n1", "me", 22)),
        ("me@corp@n1", ProxyJump("n1", "me@corp", None)),
        ("ssh://me@n1:23/", ProxyJump("n1", "me", 23)),
        ("me@[fe80::1%eth0]:22", ProxyJump("fe80::1%eth0", "me", 22)),
    ],
)
def test_jump_hosts(text: str, jump: ProxyJump) -> None:
    assert config.parse_jump(text) == jump


@pytest.mark.parametrize(
    "text", ["", "me@", "n1:x", "n1:99999", "a b", "fe80::1", "[n1", "n1:22:3"]
)
def test_jump_hosts_that_are_none(text: str) -> None:
    with pytest.raises(Unreadable):
        config.parse_jump(text)


@pytest.mark.parametrize(
    ("line", "keyword"),
    [
        ("pkcs11provider /usr/lib/p11.so", "PKCS11Provider"),
        ("certificatefile ~/c-cert.pub", "CertificateFile"),
        ("proxyusefdpass yes", "ProxyUseFdpass"),
        ("pubkeyauthentication false", "PubkeyAuthentication"),
        ("identityagent /run/other", "IdentityAgent"),
        ("knownhostscommand /bin/k %H", "KnownHostsCommand"),
        ("revokedhostkeys /etc/revoked", "RevokedHostKeys"),
        ("preferredauthentications gssapi-with-mic", "PreferredAuthentications without publickey"),
    ],
)
def test_what_paramiko_cannot_do(line: str, keyword: str) -> None:
    told = config.unsupported(settled(f"{line}\n"), "/run/agent")
    assert told == f"your ssh configuration sets {keyword}, which paramiko does not support"
    assert line.partition(" ")[0] in config.UNSUPPORTED_KEYWORDS
    assert line.partition(" ")[0] not in config.IRRELEVANT


def test_a_certificate_beside_its_key_is_found_by_paramiko() -> None:
    text = "identityfile ~/.ssh/k\ncertificatefile ~/.ssh/k-cert.pub\n"
    assert config.unsupported(settled(text), "/run/agent") == ""


def test_keys_are_named_only_where_the_user_has_named_them() -> None:
    usual = "".join(f"identityfile ~/.ssh/id_{one}\n" for one in ("rsa", "ecdsa", "ed25519_sk"))
    assert config.named_keys(settled(usual)) == ()
    assert config.named_keys(settled("")) == ()
    assert config.named_keys(settled("identityfile ~/.ssh/id_rsa")) == ("/home/me/.ssh/id_rsa",)


# -- files --------------------------------------------------------------------------------------


def test_the_keywords_of_files_and_of_what_they_include(tmp_path: Path) -> None:
    folder = tmp_path / ".ssh"
    (folder / "conf.d").mkdir(parents=True)
    text = b'# Tunnel\n\n  Host *\n\tUser=me\nInclude conf.d/* ~/.ssh/other config\n"Port" 3\n\xff'
    (folder / "config").write_bytes(text)
    (folder / "conf.d" / "a").write_text("HostName = x\n")
    (folder / "other").write_text("ProxyJump\tn1\n")
    # This machine's own file is read as well.
    found = {*config_reader.keywords(str(tmp_path))}
    assert {"host", "user", "include", "port", "hostname", "proxyjump"} <= found
    assert "tunnel" not in found


def test_paramikos_reader_where_there_is_no_ssh(tmp_path: Path) -> None:
    text = b"Host n\xff\n Port 1\nHost n2\n User you\n ProxyCommand none\n IdentityFile ~/a\n"
    path = tmp_path / "config"
    path.write_bytes(text)
    found = config_reader.by_paramiko([str(path), str(tmp_path / "none")], "n2")
    assert config.resolve(found, "n2", ME).user == "you"
    assert config.resolve(found, "n2", ME).command == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Host a\nnonsense\n", "config line 2: Unparsable line nonsense"),
        ("Host *\n User me\nMatch nonsense\n", "config line 3: "),
        ("Match exec\n", "config line 1: "),
        ('Host "a\n', "config line 1: "),
        ("CanonicalizeHostname yes\n", "config: KeyError"),
        ("CanonicalizeMaxDots x\n", "config: ValueError"),
    ],
)
def test_whatever_paramikos_reader_raises_is_one_line(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(Unreadable) as raised:
        config_reader.by_paramiko([str(tmp_path / "config")], "n2")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_ssh_is_asked_with_the_user_and_port_that_are_given(tmp_path: Path) -> None:
    need("ssh")
    path = tmp_path / "config"
    path.write_text("Match user you\n HostName x%%y\nMatch final all\n IdentityFile ~/.ssh/%n\n")
    reader = config_reader.ConfigReader(["-F", str(path)])
    found = reader.lookup("n2", "you", 77)
    assert (found.address, found.user, found.port) == ("x%y", "you", 77)
    assert found.keys[-1].endswith("/.ssh/n2")
    assert reader.lookup("n2").address == "n2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"Port abc\n", "line 1: Bad port 'abc'."),
        (b"Host n2\n ProxyJump n2\n", "jumphost loop via n2"),
        (b"Host \xff\n \xfe\n", "line 2: "),
    ],
)
def test_what_ssh_says_of_a_configuration_is_the_cause(
    tmp_path: Path, text: bytes, words: str
) -> None:
    need("ssh")
    (tmp_path / "config").write_bytes(text)
    with pytest.raises(Unreadable) as raised:
        config_reader.ConfigReader(["-F", str(tmp_path / "config")]).lookup("n2")
    assert words in str(raised.value)


# -- what a session needs ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ("-v", ""),
        ("-o SessionType=none", "SessionType=default"),
        ("-oStdinNull=yes -v", "StdinNull=no"),
        ("-o forkafterauthentication=yes", "ForkAfterAuthentication=no"),
        ("-o RequestTTY=force -o RemoteCommand=top", "RemoteCommand=none RequestTTY=no"),
        ("-o ControlMaster=auto -o ControlPersist=9", "ControlMaster=no"),
        ("-o LogLevel=DEBUG", ""),
    ],
)
def test_options_that_come_before_the_users_own(
    args: str, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("ssh")
    monkeypatch.setattr(config_reader.reader(), "keywords", frozenset())
    words = [word for one in options.split() for word in ("-o", one)]
    assert config_reader.overrides([Host("n2")], None, args.split()) == tuple(words)


SESSION_FILE = """\
Host n2
 SessionType none
 StdinNull yes
 ForkAfterAuthentication yes
 RequestTTY force
 RemoteCommand top
 PermitLocalCommand yes
 ControlMaster auto
 ExitOnForwardFailure yes
 LogLevel QUIET
"""


def test_nothing_in_a_file_changes_what_a_session_is(tmp_path: Path) -> None:
    need("ssh")
    path = tmp_path / "config"
    path.write_text(SESSION_FILE)
    args = ["-F", str(path)]
    before = config_reader.overrides([Host("n2")], None, args)
    shown = ["ssh", *before, *args, "-G", "--", "n2", "true"]
    ran = subprocess.run(shown, capture_output=True, text=True, check=True)
    found = config.parse(ran.stdout)
    wanted = {name.lower(): value.lower() for name, value in config.SESSION.items()}
    for name in ("remotecommand", "permitlocalcommand", "controlmaster"):
        assert found.get(name, ["none"])[0] in {"none", "no", "false"}
    for name in ("sessiontype", "stdinnull", "forkafterauthentication", "loglevel"):
        assert found[name][0].lower() == wanted[name]
    assert config_reader.ConfigReader(args).lookup("n2").address == "n2"


def test_an_older_ssh_gets_no_option_that_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho hostname localhost\necho requesttty auto\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    config_reader._known_to_ssh.cache_clear()
    try:
        args = ["-o", "SessionType=none", "-o", "RequestTTY=force"]
        found = config_reader.overrides([Host("n2")], None, args)
    finally:
        config_reader._known_to_ssh.cache_clear()
    assert found[-2:] == ("-o", "RequestTTY=no")
    assert "SessionType=default" not in found


# -- what only OpenSSH supports -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"id": "", "id.pub": "ssh-ed25519 AAAA me"}, ""),
        ({"known": "h ssh-rsa A\n@cert-authority *.x ssh-rsa A\n", "id": ""}, "@cert-authority"),
        ({"id": "", "id.pub": "sk-ssh-ed25519@openssh.com AAAA me"}, "id is a security key"),
        ({}, "Kerberos ticket"),
    ],
)
def test_signs_that_paramiko_would_not_get_in(
    tmp_path: Path, files: dict[str, str], words: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    told = f"identityfile {tmp_path}/id\nuserknownhostsfile {tmp_path}/known\nidentityagent none\n"
    found = unsupported.likely_failure(settled(told), {"KRB5CCNAME": "KCM:0"})
    assert words in found
    assert bool(words) == bool(found)


def test_a_user_without_a_name_has_to_be_given_one() -> None:
    nameless = ME._replace(name="")
    assert config.resolve({"user": ["you"]}, "n2", nameless).user == "you"
    with pytest.raises(Unreadable) as caught:
        config.resolve({}, "n2", nameless)
    assert str(caught.value) == (
        "no user name for the login on n2: uid 1001 has no entry in the user database;"
        " write USER@n2, or set LOGNAME"
    )


@needs_root
def test_the_program_ssh_is_not_run_for_a_user_without_an_entry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "joe")
    with other_user():
        reader = config_reader.ConfigReader()
    assert not reader.known
    monkeypatch.setattr(config_reader, "reader", lambda _args=(): reader)
    hosts = [Host("n1", user="you"), Host("n2")]
    assert [one.user for one in config_reader.plan(hosts, None)] == ["you", "joe"]
    config_reader.check(hosts, None, program=False)
    config_reader.check([], None)
    with pytest.raises(UsageError, match=r"the program ssh does not run for uid .* --launcher ssh"):
        config_reader.check(hosts, None)
