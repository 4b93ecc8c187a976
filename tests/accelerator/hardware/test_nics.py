"""Network cards read from made-up sysfs trees, and assigned to the devices near them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from dsrun.accelerator.hardware import pci
from dsrun.accelerator.hardware.nics import Nic, assign, nearest, read, variables

ACTIVE = {1: "4: ACTIVE"}
DOWN = {1: "1: DOWN"}


class Machine:
    """A sysfs tree with the links of a real one."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def function(self, path: str, node: int = -1) -> str:
        """Put a function below its bridges; return its address."""
        address = Path(path).name
        folder = self.root / "sys/devices" / path
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in {"class": "0x020000", "vendor": "0x15b3", "numa_node": node}.items():
            (folder / file).write_text(f"{text}\n")
        self._link(f"sys/bus/pci/devices/{address}", f"sys/devices/{path}")
        return address

    def hca(
        self,
        path: str,
        name: str,
        ports: Mapping[int, str] = ACTIVE,
        link: str = "InfiniBand",
        node: int = -1,
    ) -> None:
        self.function(path, node)
        self.card(path, name, ports, link)

    def card(
        self, path: str, name: str, ports: Mapping[int, str] = ACTIVE, link: str = "InfiniBand"
    ) -> None:
        """Add a card with verbs below a device that exists already, or is not a PCI function."""
        here = self._of_class("infiniband", path, name)
        for port, state in ports.items():
            folder = self.root / here / f"ports/{port}"
            folder.mkdir(parents=True)
            (folder / "state").write_text(f"{state}\n")
            (folder / "link_layer").write_text(f"{link}\n")

    def interface(self, path: str, name: str, state: str = "up") -> None:
        """Add a network interface in the same way."""
        here = self._of_class("net", path, name)
        (self.root / here / "operstate").write_text(f"{state}\n")

    def virtual(self, group: str, name: str) -> None:
        here = f"sys/devices/virtual/{group}/{name}"
        (self.root / here).mkdir(parents=True)
        self._link(f"sys/class/{group}/{name}", here)

    def nics(self) -> tuple[Nic, ...]:
        return read(str(self.root))

    def at(self, address: str) -> pci.Function:
        found = pci.function(address, str(self.root))
        assert found
        return found

    def _of_class(self, group: str, path: str, name: str) -> str:
        here = f"sys/devices/{path}/{group}/{name}"
        (self.root / here).mkdir(parents=True)
        self._link(f"{here}/device", f"sys/devices/{path}")
        self._link(f"sys/class/{group}/{name}", here)
        return here

    def _link(self, name: str, target: str) -> None:
        link = self.root / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(self.root / target, link.parent))


def switched(switch: int, port: int) -> str:
    """Return the path of a device in a port of one of four PCI switches."""
    bus = 0x10 + 0x20 * switch
    return (
        f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"
        f"/0000:{bus + 2:02x}:{port:02x}.0/0000:{bus + 3 + port:02x}:00.0"
    )


def plugged(machine: Machine, hcas: int, first: int = 0) -> list[pci.Function]:
    """Plug eight GPUs and some HCAs into four switches, two of each on a socket."""
    gpus = []
    for switch in range(4):
        for port in (0, 1):
            address = machine.function(switched(switch, port), node=switch // 2)
            gpus.append(machine.at(address))
        for port in range(hcas // 4):
            name = f"mlx5_{first + switch * hcas // 4 + port}"
            machine.hca(switched(switch, 2 + port), name, node=switch // 2)
    return gpus


def names(nics: Sequence[Nic | None]) -> list[str | None]:
    return [nic.name if nic else None for nic in nics]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_machine_without_any_has_none(machine: Machine) -> None:
    gpu = machine.at(machine.function("pci0000:16/0000:17:00.0"))
    assert machine.nics() == ()
    assert nearest((), gpu) == ()
    assert assign((), [gpu, gpu]) == (None, None)


def test_an_hca_is_read_with_all_that_is_known_of_it(machine: Machine) -> None:
    machine.hca(switched(0, 1), "mlx5_0", node=1)
    machine.interface(switched(0, 1), "ib0")
    (nic,) = machine.nics()
    assert (nic.name, nic.kind, nic.link) == ("mlx5_0", "infiniband", "InfiniBand")
    assert (nic.address, nic.node) == ("0000:14:00.0", 1)
    assert (nic.ports, nic.interfaces) == ((1,), ("ib0",))


def test_nics_of_roce_are_read_once_and_other_interfaces_beside_them(machine: Machine) -> None:
    machine.hca(switched(0, 0), "mlx5_0", link="Ethernet")
    machine.interface(switched(0, 0), "enp19s0np0")
    machine.function(switched(0, 1))
    machine.interface(switched(0, 1), "eno1")
    roce, plain = machine.nics()
    assert (roce.name, roce.link, roce.interfaces) == ("mlx5_0", "Ethernet", ("enp19s0np0",))
    assert (plain.name, plain.kind, plain.interfaces) == ("eno1", "ethernet", ("eno1",))
    assert plain.address == "0000:14:00.0"


@pytest.mark.parametrize("name", ["lo", "veth1a2b", "docker0", "bond0"])
def test_what_has_no_device_is_no_nic(machine: Machine, name: str) -> None:
    machine.virtual("net", name)
    machine.virtual("infiniband", "rxe0")
    assert machine.nics() == ()


def test_virtios_interface_has_the_address_of_the_function_above(machine: Machine) -> None:
    machine.function("pci0000:00/0000:00:03.0", node=0)
    machine.interface("pci0000:00/0000:00:03.0/virtio2", "eth0")
    (nic,) = machine.nics()
    assert (nic.address, nic.node) == ("0000:00:03.0", 0)


def test_nics_of_another_bus_have_no_address_and_are_no_twins(machine: Machine) -> None:
    for name in ("eth0", "eth1"):
        machine.interface(f"LNXSYSTM:00/VMBUS:00/{name}-guid", name)
    machine.card("platform/HISI00D1:00", "hns_0")
    assert [(nic.name, nic.address, nic.node) for nic in machine.nics()] == [
        ("hns_0", "", None),
        ("eth0", "", None),
        ("eth1", "", None),
    ]


STATES = {"up": (1,), "unknown": (1,), "down": (), "dormant": (), "lowerlayerdown": ()}


@pytest.mark.parametrize(("state", "ports"), STATES.items())
def test_an_interface_is_active_when_it_is_up(
    machine: Machine, state: str, ports: tuple[int, ...]
) -> None:
    machine.function("pci0000:16/0000:17:00.0")
    machine.interface("pci0000:16/0000:17:00.0", "eth0", state)
    assert machine.nics()[0].ports == ports


@pytest.mark.parametrize("first", [0, 3])
def test_eight_gpus_and_eight_hcas_are_paired_on_their_switches(
    machine: Machine, first: int
) -> None:
    # From mlx5_3 on there are mlx5_9 and mlx5_10 on one switch: 9 comes first.
    gpus = plugged(machine, hcas=8, first=first)
    nics = machine.nics()
    assert [names(nearest(nics, gpu)) for gpu in gpus[:3]] == [
        [f"mlx5_{first}", f"mlx5_{first + 1}"],
        [f"mlx5_{first}", f"mlx5_{first + 1}"],
        [f"mlx5_{first + 2}", f"mlx5_{first + 3}"],
    ]
    assert names(assign(nics, gpus)) == [f"mlx5_{first + gpu}" for gpu in range(8)]


def test_four_hcas_serve_two_of_eight_gpus_each(machine: Machine) -> None:
    gpus = plugged(machine, hcas=4)
    assert names(assign(machine.nics(), gpus)) == [f"mlx5_{gpu // 2}" for gpu in range(8)]


def test_a_job_on_some_gpus_uses_the_nics_beside_those(machine: Machine) -> None:
    gpus = plugged(machine, hcas=8)
    assert names(assign(machine.nics(), [gpus[5], gpus[1]])) == ["mlx5_4", "mlx5_0"]


def test_the_same_socket_is_nearer_than_the_other(machine: Machine) -> None:
    gpu = machine.at(machine.function("pci0000:16/0000:17:00.0", node=0))
    machine.hca("pci0000:80/0000:81:00.0", "mlx5_0", node=1)
    machine.hca("pci0000:30/0000:31:00.0", "mlx5_1", node=0)
    machine.hca("pci0000:40/0000:41:00.0", "mlx5_2", node=0)
    assert names(nearest(machine.nics(), gpu)) == ["mlx5_1", "mlx5_2"]


def test_where_firmware_names_no_node_all_are_as_near(machine: Machine) -> None:
    gpu = machine.at(machine.function("pci0000:16/0000:17:00.0"))
    machine.hca("pci0000:80/0000:81:00.0", "mlx5_0")
    machine.hca("pci0000:30/0000:31:00.0", "mlx5_1", node=0)
    assert names(nearest(machine.nics(), gpu)) == ["mlx5_0", "mlx5_1"]


def test_who_could_use_several_leaves_the_only_one_to_its_neighbour(machine: Machine) -> None:
    far = machine.at(machine.function("pci0000:16/0000:17:00.0", node=0))
    beside = machine.at(machine.function("pci0000:30/0000:30:01.0/0000:31:00.0", node=0))
    machine.hca("pci0000:30/0000:30:01.0/0000:32:00.0", "mlx5_0", node=0)
    machine.hca("pci0000:40/0000:41:00.0", "mlx5_1", node=0)
    assert names(assign(machine.nics(), [far, beside])) == ["mlx5_1", "mlx5_0"]


@pytest.mark.parametrize("state", ["1: DOWN", "2: INIT", "3: ARMED", "5: ACTIVE_DEFER"])
def test_a_port_that_is_not_active_is_passed_over(machine: Machine, state: str) -> None:
    gpu = machine.at(machine.function(switched(0, 0), node=0))
    machine.hca(switched(0, 1), "mlx5_0", {1: state}, node=0)
    machine.hca(switched(3, 1), "mlx5_1", node=1)
    assert names(nearest(machine.nics(), gpu)) == ["mlx5_1"]


def test_where_all_are_down_the_nearest_is_named_but_not_set(machine: Machine) -> None:
    gpu = machine.at(machine.function(switched(0, 0)))
    machine.hca(switched(0, 1), "mlx5_0", DOWN)
    machine.hca(switched(3, 1), "mlx5_1", DOWN)
    (nic,) = nearest(machine.nics(), gpu)
    assert (nic.name, nic.ports) == ("mlx5_0", ())
    assert variables(nic) == {}


def test_the_nearest_ethernet_interface_can_be_asked_for(machine: Machine) -> None:
    gpu = machine.at(machine.function(switched(0, 0), node=0))
    machine.hca(switched(0, 1), "mlx5_0")
    for switch, name in ((2, "eth0"), (1, "eth1")):
        machine.function(switched(switch, 2), node=switch // 2)
        machine.interface(switched(switch, 2), name)
    assert names(nearest(machine.nics(), gpu, kind="ethernet")) == ["eth1"]


@pytest.mark.parametrize("link", ["InfiniBand", "Ethernet"])
def test_nccl_and_ucx_are_told_the_card_and_its_port(machine: Machine, link: str) -> None:
    machine.hca(switched(0, 0), "mlx5_1", link=link)
    (nic,) = machine.nics()
    assert variables(nic) == {"NCCL_IB_HCA": "=mlx5_1:1", "UCX_NET_DEVICES": "mlx5_1:1"}


def test_all_workers_of_a_machine_give_nccl_the_same_list(machine: Machine) -> None:
    gpus = plugged(machine, hcas=4, first=8)
    given = assign(machine.nics(), gpus)
    told = [variables(nic, given) for nic in given if nic]
    lists = {one["NCCL_IB_HCA"] for one in told}
    assert lists == {"=mlx5_8:1,mlx5_9:1,mlx5_10:1,mlx5_11:1"}
    assert [one["UCX_NET_DEVICES"] for one in told] == [
        f"mlx5_{8 + gpu // 2}:1" for gpu in range(8)
    ]


def test_a_card_with_two_ports_is_named_with_the_active_one(machine: Machine) -> None:
    machine.hca(switched(0, 0), "mlx4_0", {1: "1: DOWN", 2: "4: ACTIVE"})
    ports = machine.root / "sys/class/infiniband/mlx4_0/ports"
    (ports / "1/link_layer").write_text("Ethernet\n")
    (nic,) = machine.nics()
    assert (nic.ports, nic.link) == ((2,), "InfiniBand")
    assert variables(nic) == {"NCCL_IB_HCA": "=mlx4_0:2", "UCX_NET_DEVICES": "mlx4_0:2"}


def test_both_ports_are_used_where_both_are_active(machine: Machine) -> None:
    machine.hca(switched(0, 0), "mlx4_0", {2: "4: ACTIVE", 1: "4: ACTIVE"})
    (nic,) = machine.nics()
    assert variables(nic)["NCCL_IB_HCA"] == "=mlx4_0:1,mlx4_0:2"


def test_a_card_with_a_function_for_each_port_is_two_nics(machine: Machine) -> None:
    gpus = [machine.at(machine.function(switched(0, port))) for port in (0, 1)]
    for function in (0, 1):
        path = switched(0, 2).removesuffix("0") + str(function)
        machine.hca(path, f"mlx5_{function}", link="Ethernet")
        machine.interface(path, f"enp21s0f{function}np{function}")
    assert [nic.interfaces for nic in machine.nics()] == [("enp21s0f0np0",), ("enp21s0f1np1",)]
    assert names(assign(machine.nics(), gpus)) == ["mlx5_0", "mlx5_1"]


def test_efa_is_near_but_has_no_variables(machine: Machine) -> None:
    gpus = plugged(machine, hcas=0)
    machine.hca(switched(0, 2), "rdmap21s0", link="Unknown")
    (nic,) = nearest(machine.nics(), gpus[0])
    assert (nic.name, nic.kind, nic.link) == ("rdmap21s0", "infiniband", "Unknown")
    assert variables(nic) == {}


def test_plain_ethernet_has_no_variables(machine: Machine) -> None:
    machine.function(switched(0, 0))
    machine.interface(switched(0, 0), "eth0")
    assert variables(machine.nics()[0]) == {}


def test_this_machines_cards_are_read_without_trouble() -> None:
    nics = read()
    assert "lo" not in names(nics)
    assert all(nic.kind in ("infiniband", "ethernet") for nic in nics)
