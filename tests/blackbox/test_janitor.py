# SPDX-License-Identifier: Apache-2.0
"""The background services on real processes: repair, drain, rebalance, scrub, policies and what is shown of them."""
import os
import signal
import urllib.request

import pytest

from box import MIB, Box, await_true, lives, same_tree, write_tree

TREE = {f"d/{i}": MIB + 4096 + i for i in range(30)}


def metrics(box):
    """Of the janitor, {name: value}."""
    conf = (box.folder / "conf" / "janitor.ini").read_text()
    addr = [line.split("=")[1].strip() for line in conf.splitlines() if line.startswith("metrics")][0]
    with urllib.request.urlopen(f"http://{addr}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}


def quicken(box):
    """Shorter times for a box that is there already; starts its janitor again."""
    conf = box.folder / "conf" / "janitor.ini"
    text = conf.read_text().replace("round = 5s", "round = 500ms").replace("look = 15s", "look = 1s")
    conf.write_text(text.replace("period = 15s", "period = 1s").replace("delay = 1m", "delay = 2s"))
    pid = box.pids()["janitor"]
    os.kill(pid, signal.SIGTERM)  # it gives its leases back
    await_true("the end of the janitor", lambda: not lives(pid))
    box.up()


@pytest.fixture(scope="module", name="box")
def a_box(tmp_path_factory):
    folder = tmp_path_factory.mktemp("janitor")
    write_tree(folder / "in", TREE)
    with Box(folder / "box", "--racks", 5, "--disks", 2, "--encoding", "rs:2+2", "--procs") as box:
        quicken(box)
        box("put", "-q", folder / "in", "/data")
        box.source = folder / "in"
        yield box


def whole(box, tmp_path):
    """Every block has all of its chunks, and every byte comes back."""
    n = box.json("fsck", "--deep", "-q")
    assert n["degraded"] == 0 and n["lost"] == 0 and n["blocks"] > 0, n
    box("get", "-q", "/data", tmp_path / "out")
    same_tree(box.source, tmp_path / "out")


def held(box, disk):
    """Chunks on a disk, by their files."""
    files = (box.folder / "disks" / f"node-{disk // 1000}" / str(disk % 1000)).glob("chunks/*/*")
    return len([p for p in files if p.is_file()])


def test_a_drained_rack_empties_and_fills_up_again_when_it_is_back(box, tmp_path):
    racks = box.json("rack", "list")
    assert len(racks) == 5 and all(r["disks_online"] == 2 for r in racks)
    name = "rack-2"
    assert held(box, 2001) + held(box, 2002) > 0
    assert box.json("rack", "drain", name) == {"state": "draining", "nodes": 1}
    await_true("that the rack is empty", lambda: held(box, 2001) + held(box, 2002) == 0)
    assert box("repair", "status").returncode == 0
    whole(box, tmp_path)
    box("rack", "online", name)
    # Its disks are like new ones: others give to them.
    await_true("that the rack fills up", lambda: held(box, 2001) > 0 and held(box, 2002) > 0)
    assert metrics(box)["terrane_janitor_chunks_balanced_total"] > 0
    (tmp_path / "again").mkdir()
    whole(box, tmp_path / "again")
    assert "no rack nowhere" in box("rack", "drain", "nowhere", ok=False).stderr
    assert box("rack", "drain", ok=False).returncode == 2


def test_what_a_dead_node_had_is_made_anew_and_the_node_may_come_back(box, tmp_path):
    box.kill("node-4")
    await_true("that it is missed", lambda: box.json("repair", "status", ok=False)["blocks"] > 0)
    await_true("repair of what it had", lambda: box.json("repair", "status", ok=False)["blocks"] == 0)
    assert metrics(box)["terrane_janitor_chunks_repaired_total"] > 0
    whole(box, tmp_path)
    box.up()
    await_true("that all is well", lambda: box.json("status", ok=False)["well"])


def test_flipped_bits_are_found_by_a_deep_check_and_repaired(box, tmp_path):
    path = max(box.chunks(1), key=lambda p: p.stat().st_size)
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 4]))
    assert box.json("fsck", "--deep", "-q")["damaged"] == 1
    await_true("that it is repaired", lambda: box.json("fsck", "-q")["degraded"] == 0)
    whole(box, tmp_path)
