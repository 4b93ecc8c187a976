"""The addresses of this machine."""

from __future__ import annotations

from dsrun.launcher.common.network import addresses_towards, own_addresses


def test_the_address_towards_a_host_comes_first() -> None:
    found = addresses_towards(["127.0.0.1", "no-such-host.invalid", "::1"])
    assert found[0] == "127.0.0.1"
    assert found[-len(own_addresses()) :] == own_addresses()
    assert addresses_towards(["no-such-host.invalid"]) == own_addresses()
    assert not [one for one in own_addresses() if one.startswith(("127.", "::1", "fe80"))]
