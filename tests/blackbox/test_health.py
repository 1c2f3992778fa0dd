# SPDX-License-Identifier: Apache-2.0
"""Health of data in `terrane status` and `terrane repair status`, and refused removals that would lose data."""
import os
import re
import signal
import time

import pytest

from box import MIB, Box, await_true, lives, same_tree, write_tree

TREE = {f"d/{i}": MIB + i for i in range(12)}


def hasten(box, survey):
    """Restarts the janitor with short intervals of its surveys and a long delay of repairs of silent nodes. Returns when the
    previous one ended, in ns."""
    conf = box.folder / "conf" / "janitor.ini"
    text = conf.read_text().replace("round = 5s", "round = 500ms").replace("look = 15s", "look = 1s")
    conf.write_text(text.replace("period = 15s", f"period = {survey}").replace("delay = 1m", "delay = 1h"))
    pid = box.pids()["janitor"]
    os.kill(pid, signal.SIGTERM)
    await_true("the end of the janitor", lambda: not lives(pid))
    ended_ns = time.time_ns()
    box.up()
    return ended_ns


@pytest.fixture(name="box")
def a_box(tmp_path):
    """Six racks, so that repair finds no other rack for blocks of six chunks; a janitor that counts blocks often."""
    write_tree(tmp_path / "in", TREE)
    with Box(tmp_path / "box", "--racks", 6, "--disks", 1, "--encoding", "rs:4+2", "--procs") as box:
        hasten(box, "1s")
        box("put", "-q", tmp_path / "in", "/data")
        box.blocks = box.json("fsck", "-q")["blocks"]
        await_health(box)
        yield box


def health(box):
    """((degraded, unreachable, lost), all) blocks of the last count."""
    data = box.json("status", ok=False)["data"]
    return tuple(data[f"{what}_blocks"] for what in ("degraded", "unreachable", "lost")), data["blocks"]


def await_health(box, degraded=0, unreachable=0, lost=0):
    want = ((degraded, unreachable, lost), box.blocks)
    await_true(f"a count of {want}", lambda: health(box) == want)


def told(box, *words):
    """Runs a command. Returns its exit status, its answer in JSON, and as text."""
    shown = box(*words, ok=False)
    answer = box.json(*words, ok=False)
    return shown.returncode, answer, shown.stdout


def state(box, kind, number):
    return {x["id"]: x["state"] for x in box.json(kind, "list")}[number]


def refused(box, *words):
    """Requires that a removal is refused. Returns the number of chunks in the message, and the message."""
    done = box(*words, ok=False)
    assert done.returncode == 1 and done.stdout == "", done
    return int(re.search(r"still holds (\d+) chunks", done.stderr)[1]), done.stderr


def test_a_node_disk_or_rack_with_chunks_is_removed_only_by_force(tmp_path):
    write_tree(tmp_path / "in", TREE)
    with Box(tmp_path / "box", "--racks", 8, "--disks", 1, "--encoding", "rs:4+2", "--procs") as box:
        box("put", "-q", tmp_path / "in", "/data")
        one, two = [n for n in range(1, 9) if box.chunks(n)][:2]
        for kind, name in (("node", one), ("disk", 1000 * one + 1), ("rack", f"rack-{one}")):
            count, why = refused(box, kind, "remove", name)
            assert count == len(box.chunks(one)) and f"drain it first (terrane {kind} drain {name})" in why
        assert state(box, "node", one) == "online" and state(box, "disk", 1000 * one + 1) == "online"
        assert box("node", "drain", one, "--force", ok=False).returncode == 2

        # An empty node can be removed.
        box("node", "drain", one)
        await_true("the node to be empty", lambda: box.json("repair", "status", ok=False)["chunks"] == 0)
        assert box("node", "remove", one).stdout.split() == ["gone"]
        assert state(box, "node", one) == "gone"

        # An offline node may come back; --force removes it nevertheless.
        box.kill(f"node-{two}")
        await_true("the node to be suspect", lambda: state(box, "node", two) == "suspect")
        assert "bring it back" in refused(box, "node", "remove", two)[1]
        box("node", "remove", two, "--force")
        assert state(box, "node", two) == "gone"
        await_true("all chunks to be rebuilt", lambda: box.json("fsck", "-q", ok=False)["degraded"] == 0)
        box("get", "-q", "/data", tmp_path / "out")
        same_tree(tmp_path / "in", tmp_path / "out")


def test_status_and_repair_count_what_is_degraded_and_lost(box):
    code, answer, text = told(box, "status")
    assert code == 0 and answer["well"] and answer["trouble"] is None, answer
    assert "all blocks are complete; counted" in text
    for gone in (1, 2):
        box("node", "remove", gone, "--force")
        assert told(box, "status")[0] == 1  # before the next survey
        await_health(box, degraded=box.blocks)
    await_true("a repair that finds no room", lambda: box.json("status", ok=False)["janitors"][0]["stuck_no_room"] > 0)
    code, answer, text = told(box, "status")
    assert code == 1 and not answer["well"] and answer["online"] and answer["trouble"] == "repairs find no room"
    # Six chunks of each block, one on each node.
    assert answer["chunks_to_repair"] == 2 * box.blocks and f"{2 * box.blocks} chunks are on disks" in text
    assert f"{box.blocks} blocks degraded, 0 unreachable, 0 lost; counted" in text

    box("node", "remove", 3, "--force")
    await_health(box, lost=box.blocks)
    code, answer, text = told(box, "status")
    assert code == 1 and not answer["well"] and answer["trouble"] == "data is lost" and "data is lost" in text
    code, answer, text = told(box, "repair", "status")
    assert code == 1 and answer["chunks"] == 3 * box.blocks and answer["data"]["lost_blocks"] == box.blocks
    assert f"0 blocks degraded, 0 unreachable, {box.blocks} lost; counted" in text


def test_status_tells_unreachable_from_lost_blocks_and_counts_again_when_nodes_return(box, tmp_path):
    box.kill("node-1")
    await_health(box, degraded=box.blocks)
    for name in ("node-2", "node-3"):
        box.kill(name)
    await_health(box, unreachable=box.blocks)
    code, answer, _ = told(box, "status")
    assert code == 1 and answer["trouble"] == "data is unreachable" and not answer["online"]
    box.up()
    await_true("status to report that all is well", lambda: box.json("status", ok=False)["well"])
    assert health(box) == ((0, 0, 0), box.blocks)
    box("get", "-q", "/data", tmp_path / "out")
    same_tree(tmp_path / "in", tmp_path / "out")


def test_chunks_that_vanished_from_online_disks_are_not_well(box):
    """All nodes are online, but each block lacks three of six chunks."""
    for node in (1, 2, 3):
        box.kill(f"node-{node}")
        for path in box.chunks(node):
            path.unlink()
    box.up()
    await_true("all nodes to be online", lambda: box.json("status", ok=False)["online"])
    assert box("fsck", "-q", ok=False).returncode == 1  # reports the missing chunks to the metadata
    await_health(box, lost=box.blocks)
    await_true("a repair that finds too few chunks", lambda: box.json("status", ok=False)["janitors"][0]["stuck_lost"] > 0)
    code, answer, text = told(box, "status")
    assert code == 1 and not answer["well"] and answer["online"] and "repairs found too few chunks" in text
    code, answer, text = told(box, "repair", "status")
    assert code == 1 and answer["chunks"] == 0 and "nothing is left" not in text and "data is lost" in text


def test_status_says_that_a_count_is_older_than_the_last_repair(tmp_path):
    write_tree(tmp_path / "in", TREE)
    with Box(tmp_path / "box", "--racks", 6, "--disks", 1, "--encoding", "rs:4+2", "--procs") as box:
        box("put", "-q", tmp_path / "in", "/data")
        ended_ns = hasten(box, "10h")  # one survey, and no other one for hours
        # A put may have left a chunk to repair: then the count is older than that repair from the start.
        await_true("a survey",
                   lambda: box.json("status", ok=False)["data"]["counted_ns"] > ended_ns)
        data = box.json("status", ok=False)["data"]
        assert data["degraded_blocks"] > 0 or not data["before_repair"]
        await_true("all chunks to exist", lambda: box.json("fsck", "-q", ok=False)["missing"] == 0)
        box.kill("node-1")
        box.chunks(1)[0].unlink()
        box.up()
        assert box.json("fsck", "-q", ok=False)["missing"] == 1
        await_true("the repair of the chunk", lambda: box.json("fsck", "-q", ok=False)["missing"] == 0)
        await_true("status to say that the count is older", lambda: box.json("status", ok=False)["data"]["before_repair"])
        assert re.search(r"counted \d+ s ago, before the last repair", box("status", ok=False).stdout)
