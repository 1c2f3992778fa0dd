# SPDX-License-Identifier: Apache-2.0
"""The background services on real processes: repair, drain, rebalance, scrub, policies and their status."""
import os
import signal

import pytest

from box import MIB, Box, await_true, lives, same_tree, write_tree

TREE = {f"d/{i}": MIB + 4096 + i for i in range(30)}


def quicken(box):
    """Shortens the intervals of an existing box and restarts its janitor."""
    conf = box.folder / "conf" / "janitor.ini"
    text = conf.read_text().replace("round = 5s", "round = 500ms").replace("look = 15s", "look = 1s")
    conf.write_text(text.replace("period = 15s", "period = 1s").replace("delay = 1m", "delay = 2s"))
    pid = box.pids()["janitor"]
    os.kill(pid, signal.SIGTERM)  # it releases its leases
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
    """Checks that every block has all of its chunks, and that every byte is read back."""
    n = box.json("fsck", "--deep", "-q")
    assert n["degraded"] == 0 and n["lost"] == 0 and n["blocks"] > 0, n
    box("get", "-q", "/data", tmp_path / "out")
    same_tree(box.source, tmp_path / "out")


def held(box, disk):
    """The number of chunk files on a disk."""
    files = (box.folder / "disks" / f"node-{disk // 1000}" / str(disk % 1000)).glob("chunks/*/*")
    return len([p for p in files if p.is_file()])


def test_a_drained_rack_becomes_empty_and_gets_chunks_again_when_it_is_online(box, tmp_path):
    racks = box.json("rack", "list")
    assert len(racks) == 5 and all(r["disks_online"] == 2 for r in racks)
    name = "rack-2"
    before = held(box, 2001) + held(box, 2002)
    assert before > 0
    assert box.json("rack", "drain", name) == {"state": "draining", "nodes": 1}
    await_true("that no record names the rack", lambda: box.json("repair", "status", ok=False)["chunks"] == 0)
    assert box("repair", "status").returncode == 0
    # An orphan of a writer or repair may be left for the next sweep.
    left = [held(box, 2001), held(box, 2002)]
    assert sum(left) < before / 4, left
    whole(box, tmp_path)
    box("rack", "online", name)
    # Its disks are empty, so rebalance moves chunks to them.
    await_true("that the rack fills up", lambda: held(box, 2001) > left[0] and held(box, 2002) > left[1])
    assert box.metrics("janitor")["terrane_janitor_chunks_balanced_total"] > 0
    (tmp_path / "again").mkdir()
    whole(box, tmp_path / "again")
    assert "no rack nowhere" in box("rack", "drain", "nowhere", ok=False).stderr
    assert box("rack", "drain", ok=False).returncode == 2


def test_chunks_of_an_offline_node_are_rebuilt_and_the_node_may_return(box, tmp_path):
    box.kill("node-4")
    await_true("that it is missed", lambda: box.json("repair", "status", ok=False)["chunks"] > 0)
    await_true("repair of what it had", lambda: box.json("repair", "status", ok=False)["chunks"] == 0)
    assert box.metrics("janitor")["terrane_janitor_chunks_repaired_total"] > 0
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


def test_status_counts_blocks_and_shows_that_a_janitor_works(box):
    def counted():
        status = box.json("status", ok=False)
        return status["well"] and status["data"]["blocks"] == len(TREE)
    await_true("that all blocks were counted, whole", counted)
    status = box.json("status")
    data = status["data"]
    assert data["file_bytes"] == sum(TREE.values()) and data["stored_bytes"] >= 2 * data["file_bytes"]
    assert data["degraded_blocks"] == 0 and data["lost_blocks"] == 0
    assert data["missing_chunks"] == 0 and 1 <= data["copysets"] <= 1.2 * len(TREE)
    assert [j["lost"] for j in status["janitors"]] == [0]
    lines = {line.split()[0]: line for line in box("status").stdout.splitlines() if line.strip()}
    assert "1 at work" in lines["janitor"] and f"{len(TREE)} blocks" in lines["data"]
    shown = box.metrics("janitor")
    assert shown["terrane_cluster_blocks"] == len(TREE)
    assert shown['terrane_tenant_used_bytes{tenant="default"}'] >= sum(TREE.values())
    assert shown["terrane_janitor_scrub_oldest_seconds"] < 600


def test_a_policy_re_encodes_replicated_blocks(box, tmp_path):
    write_tree(tmp_path / "in", {"a": 2 * MIB, "b": 3 * MIB})
    box("put", "-q", "--encoding", "r3", tmp_path / "in", "/logs")
    box("policy", "set", "/logs", "encoding=rs:2+2", "after=0s")
    assert [(p["path"], p["encoding"]) for p in box.json("policy", "list")] == [("/logs", "rs:2+2")]
    await_true("that they are encoded anew", lambda: box.metrics("janitor")["terrane_janitor_blocks_reencoded_total"] >= 1)
    await_true("that no copies are left", lambda: "r3" not in box("stat", "--json", "/logs/b").stdout)
    box("get", "-q", "/logs", tmp_path / "out")
    same_tree(tmp_path / "in", tmp_path / "out")
    box("policy", "clear", "/logs")
    assert box.json("policy", "list") == []
    done = box("policy", "set", "/logs", "encoding=banana", ok=False)
    assert done.returncode == 2 and "banana" in done.stderr
    assert "not a directory" in box("policy", "set", "/logs/a", "encoding=keep", ok=False).stderr
