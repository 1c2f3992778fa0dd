# SPDX-License-Identifier: Apache-2.0
"""What an operator is told of the health of data, and what is refused because data would be lost."""
import re

from box import MIB, Box, await_true, same_tree, write_tree

TREE = {f"d/{i}": MIB + i for i in range(12)}


def state(box, kind, number):
    return {x["id"]: x["state"] for x in box.json(kind, "list")}[number]


def refused(box, *words):
    """The number of chunks that a removal is refused for, and the words."""
    done = box(*words, ok=False)
    assert done.returncode == 1 and done.stdout == "", done
    return int(re.search(r"still holds (\d+) chunks", done.stderr)[1]), done.stderr


def test_what_still_holds_chunks_is_removed_only_by_force(tmp_path):
    write_tree(tmp_path / "in", TREE)
    with Box(tmp_path / "box", "--racks", 8, "--disks", 1, "--encoding", "rs:4+2", "--procs") as box:
        box("put", "-q", tmp_path / "in", "/data")
        held = len(box.chunks(1))
        assert held > 0
        for kind, name in (("node", 1), ("disk", 1001), ("rack", "rack-1")):
            count, why = refused(box, kind, "remove", name)
            assert count == held and f"drain it first (terrane {kind} drain {name})" in why
        assert state(box, "node", 1) == "online" and state(box, "disk", 1001) == "online"
        assert box("node", "drain", 1, "--force", ok=False).returncode == 2

        # Empty, it goes.
        box("node", "drain", 1)
        await_true("that it is empty", lambda: box.json("repair", "status", ok=False)["blocks"] == 0)
        assert box("node", "remove", 1).stdout.split() == ["gone"]
        assert state(box, "node", 1) == "gone"

        # What is away may come back; one who knows better says so.
        box.kill("node-2")
        await_true("that it is missed", lambda: state(box, "node", 2) == "suspect")
        assert "bring it back" in refused(box, "node", "remove", 2)[1]
        box("node", "remove", 2, "--force")
        assert state(box, "node", 2) == "gone"
        await_true("that all is made anew", lambda: box.json("fsck", "-q", ok=False)["degraded"] == 0)
        box("get", "-q", "/data", tmp_path / "out")
        same_tree(tmp_path / "in", tmp_path / "out")
