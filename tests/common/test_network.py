"""The addresses of this machine."""

from __future__ import annotations

from dsrun.launcher.common.network import (
    addresses_towards,
    interface_of,
    interfaces,
    own_addresses,
)


def test_the_address_towards_a_host_comes_first() -> None:
    found = addresses_towards(["127.0.0.1", "no-such-host.invalid", "::1"])
    assert found[0] == "127.0.0.1"
    assert found[-len(own_addresses()) :] == own_addresses()
    assert addresses_towards(["no-such-host.invalid"]) == own_addresses()
    assert not [one for one in own_addresses() if one.startswith(("127.", "::1", "fe80"))]


def test_interfaces_are_those_that_others_could_reach() -> None:
    found = dict(interfaces())
    assert "lo" not in found
    assert set(found.values()) <= set(own_addresses())
    for name, address in found.items():
        if "." in address:
            assert interface_of(address) == name
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.77") == ""
