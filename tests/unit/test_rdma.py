# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The RDMA devices behind an interface and their GIDs, on recorded and laid-out trees of /sys."""

from __future__ import annotations

from recorded_hosts import lay_out

from ansible_collections.inferops.pd.plugins.module_utils._probes import rdma


def write(folder, **files):
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")


def names(ports):
    return [port.name for port in ports]


def test_by_the_netdevs_of_the_gids_and_by_the_device(tmp_path):
    ports = "class/infiniband/{}/ports/{}/gid_attrs/ndevs/{}"
    write(
        tmp_path,
        **{
            ports.format("mlx5_10", 1, 0): "eth2",
            ports.format("mlx5_10", 1, 1): "bond0.100",
            ports.format("mlx5_2", 2, 0): "eth2",
        },
    )
    (tmp_path / "class/net/ib0/device/infiniband/mlx5_3/ports/1").mkdir(parents=True)
    assert names(rdma.behind("eth2", sys=str(tmp_path))) == ["mlx5_2:2", "mlx5_10:1"]
    assert names(rdma.behind("bond0.100", sys=str(tmp_path))) == ["mlx5_10:1"]
    assert names(rdma.behind("ib0", sys=str(tmp_path))) == ["mlx5_3:1"]
    assert rdma.behind("eth0", sys=str(tmp_path)) == []


def test_the_port_of_a_device_with_two(tmp_path):
    for port in (1, 2):
        (tmp_path / f"class/net/ib1/device/infiniband/mlx4_0/ports/{port}").mkdir(parents=True)
    write(tmp_path, **{"class/net/ib1/dev_port": "1"})
    assert names(rdma.behind("ib1", sys=str(tmp_path))) == ["mlx4_0:2"]
    write(tmp_path, **{"class/net/ib1/dev_port": "0", "class/net/ib1/dev_id": "0x1"})
    assert names(rdma.behind("ib1", sys=str(tmp_path))) == ["mlx4_0:2"]


def test_a_bond_with_its_own_device(tmp_path):
    sys = lay_out("bond-vlan", tmp_path)
    (port,) = rdma.behind("bond0.100", ["10.20.0.7"], sys)
    assert (port.name, port.active, port.roce, port.rate, port.gid) == ("mlx5_bond_0:1", True, True, 200_000, 5)


def test_a_bond_without_gids_of_its_own_has_its_slaves_devices(tmp_path):
    for number, slave in enumerate(("eth2", "eth3")):
        (tmp_path / f"class/net/bond0/lower_{slave}").mkdir(parents=True)
        (tmp_path / f"class/net/{slave}/device/infiniband/mlx5_{number}/ports/1").mkdir(parents=True)
    (tmp_path / "class/net/bond0.7/lower_bond0").mkdir(parents=True)
    assert names(rdma.behind("bond0", sys=str(tmp_path))) == ["mlx5_0:1", "mlx5_1:1"]
    assert names(rdma.behind("bond0.7", sys=str(tmp_path))) == ["mlx5_0:1", "mlx5_1:1"]


def test_a_port_that_is_down_is_told_as_such(tmp_path):
    sys = lay_out("rails", tmp_path)
    (down,) = rdma.behind("rail2", ["10.3.0.7"], sys)
    assert (down.name, down.active) == ("mlx5_3:1", False)
    (up,) = rdma.behind("rail0", ["10.1.0.7"], sys)
    assert (up.name, up.active, up.gid, up.rate) == ("mlx5_10:1", True, 3, 400_000)


def test_infiniband_needs_no_index(tmp_path):
    (port,) = rdma.behind("ibp65s0", ["10.30.0.7"], lay_out("infiniband", tmp_path))
    assert (port.roce, port.gid, port.active, port.rate) == (False, None, True, 400_000)


def test_the_index_is_that_of_the_address_and_of_version_2(tmp_path):
    port = "class/infiniband/mlx5_0/ports/1"
    rows = [
        ("fe80::1", "RoCE v2"),
        ("::ffff:10.1.0.7", "IB/RoCE v1"),
        ("::ffff:10.1.0.9", "RoCE v2"),
        ("::ffff:10.1.0.7", "RoCE v2"),
        ("2001:db8::7", "RoCE v2"),
        ("::", "RoCE v2"),
    ]
    for index, (gid, kind) in enumerate(rows):
        write(
            tmp_path,
            **{
                f"{port}/gids/{index}": gid,
                f"{port}/gid_attrs/types/{index}": kind,
                f"{port}/gid_attrs/ndevs/{index}": "eth2",
            },
        )
    folder = str(tmp_path / port)
    assert rdma.gid_index(folder, "eth2", ["10.1.0.7"]) == 3
    assert rdma.gid_index(folder, "eth2", ["2001:db8::7"]) == 4
    assert rdma.gid_index(folder, "eth2", ["10.9.9.9"]) == 2
    assert rdma.gid_index(folder, "eth3", ["10.1.0.7"]) is None
