"""Where other roles are, as training code asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrun.accelerator import roles
from dsrun.launcher.specs.role_words import FILE, Peers, document, variables

PEERS = {"rollout": Peers(("10.0.0.3",), (8000,)), "trainer": Peers(("10.0.0.1", "10.0.0.2"))}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "roles.json"
    path.write_text(document(PEERS))
    for name, value in variables({"http": 8000}, {}, str(path)).items():
        monkeypatch.setenv(name, value)
    return path


def test_addresses_of_roles(file: Path) -> None:
    assert roles.addrs("rollout") == ["10.0.0.3:8000"]
    assert roles.hosts("trainer") == ["10.0.0.1", "10.0.0.2"]
    assert roles.addrs("trainer") == []
    file.write_text(document({"rollout": Peers(("10.0.0.3",), (9000,))}))
    assert roles.addrs("rollout") == ["10.0.0.3:9000"]


def test_ports_of_the_role_itself(file: Path) -> None:
    assert file.exists()
    assert roles.port("http") == 8000
    with pytest.raises(LookupError, match="no port 'grpc': DSRUN_PORT_GRPC is not set"):
        roles.port("grpc")


def test_what_is_not_known(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert file.exists()
    with pytest.raises(LookupError, match="no role 'reward'; the roles are rollout, trainer"):
        roles.addrs("reward")
    monkeypatch.delenv(FILE)
    with pytest.raises(LookupError, match="no roles: DSRUN_ROLES_FILE is not set"):
        roles.hosts("rollout")
