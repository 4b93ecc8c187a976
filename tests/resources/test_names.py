"""Names of hosts, and addresses."""

from __future__ import annotations

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.resources.names import check_name, in_brackets, lacks_zone


@pytest.mark.parametrize("name", ["n" * 63, f"n1.{'a' * 63}.org", "n1.", "fd00::1", "fe80::1%eth0"])
def test_what_can_be_a_host(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["n" * 64, f"n1.{'a' * 64}.org", "a..b", ".a", "n1.."])
def test_what_no_resolver_takes(name: str) -> None:
    with pytest.raises(UsageError, match="is not a host name"):
        check_name(name)


@pytest.mark.parametrize("name", ["10.0.0.300", "256.1.1.1", "10.0.0.0001"])
def test_numbers_that_are_no_address(name: str) -> None:
    with pytest.raises(UsageError, match="is not an IPv4 address: each of its numbers is 0 to 255"):
        check_name(name)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("fd00::1:29500", "[fd00::1]:29500"),
        ("fd00::1:2950", "[fd00::1]:2950"),
        ("fe80::1%eth0:29500", "[fe80::1%eth0]:29500"),
        ("fd00::1", ""),
        ("::1", ""),
        ("h:1:2", ""),
        ("", ""),
    ],
)
def test_an_address_with_a_port(text: str, meant: str) -> None:
    assert in_brackets(text) == meant


@pytest.mark.parametrize("name", ["fe80::1", "FE80::1", "febf::2"])
def test_an_address_that_needs_its_interface(name: str) -> None:
    assert f"write {name}%eth0" in lacks_zone(name)


@pytest.mark.parametrize("name", ["fe80::1%eth0", "fec0::1", "fd00::1", "::1", "n1", "10.0.0.1"])
def test_an_address_that_needs_none(name: str) -> None:
    assert not lacks_zone(name)
