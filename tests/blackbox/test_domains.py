# SPDX-License-Identifier: Apache-2.0
"""Fault domains: new files with too few racks, or too few online racks."""
from box import KIB, MIB, Box, await_true, run, same_tree, some_bytes, write_tree

TREE = {"small/a": 3000, "small/b": 5000, "large": MIB}


def refused(box, source, target, *words):
    """Requires that a put fails with a message and leaves no file."""
    done = box("put", "-q", *words, source, target, ok=False)
    assert done.returncode == 1
    assert box.json("fsck", "-q")["files"] == 0
    return done.stderr


def alive(box):
    return sum(d["state"] == "online" for d in box.json("disk", "list"))


def test_more_chunks_in_a_rack_than_the_code_tolerates_are_refused_with_the_numbers(tmp_path):
    write_tree(tmp_path / "in", TREE)
    with Box(tmp_path / "box", "--racks", 2, "--disks", 3, "--procs") as box:
        why = "rs:4+2 tolerates the loss of 2 chunks, but 6 in 2 racks put 3 into one rack"
        assert why in refused(box, tmp_path / "in" / "large", "/one", "--encoding", "rs:4+2")
        assert why in refused(box, tmp_path / "in", "/tree", "--encoding", "rs:4+2")
        done = box("policy", "set", "/", "encoding=rs:4+2", ok=False)
        assert done.returncode == 1 and "loss of 2 chunks; 6 in 2 racks put 3 into one" in done.stderr
        box("policy", "set", "/", "encoding=rs:2+2", "after=1d")
        box("policy", "set", "/", "encoding=keep")
        # A code that the racks allow is accepted, and its files survive the loss of one.
        box("put", "-q", "--encoding", "rs:2+2", tmp_path / "in", "/data")
        box.kill("node-1")
        box("get", "-q", "/data", tmp_path / "out")
        same_tree(tmp_path / "in", tmp_path / "out")


def test_with_too_few_live_disks_a_put_is_refused_with_the_numbers(tmp_path):
    (tmp_path / "f").write_bytes(some_bytes(1, 100 * KIB))
    with Box(tmp_path / "box", "--racks", 6, "--disks", 1, "--procs") as box:
        box.kill("node-2")
        await_true("that it is missed", lambda: alive(box) == 5)
        err = refused(box, tmp_path / "f", "/f")
        assert "rs:4+2 needs 6 disks; 5 accept new data now, on 5 nodes in 5 racks" in err
        box.up()
        await_true("that it is back", lambda: alive(box) == 6)
        box("put", "-q", tmp_path / "f", "/f")


def test_an_offline_rack_counts_and_a_removed_one_does_not(tmp_path):
    write_tree(tmp_path / "in", TREE)
    with Box(tmp_path / "box", "--racks", 3, "--disks", 3, "--encoding", "rs:4+2", "--procs") as box:
        box.kill("node-3")
        await_true("that it is missed", lambda: alive(box) == 6)
        box("put", "-q", tmp_path / "in", "/away")  # three chunks in each of two racks, until the third returns
        box("get", "-q", "/away", tmp_path / "out")
        same_tree(tmp_path / "in", tmp_path / "out")
        box("rm", "-r", "/away")
        box("node", "remove", 3)
        assert "6 in 2 racks put 3 into one" in refused(box, tmp_path / "in", "/gone")


def test_one_rack_and_one_node_are_possible_and_warned_of(tmp_path):
    (tmp_path / "f").write_bytes(some_bytes(1, 100 * KIB))
    for shape, why in ((("--racks", 1, "--disks", 6, "--encoding", "rs:4+2"), "one node has all chunks"),
                       (("--racks", 1, "--nodes", 3, "--disks", 1), "one rack has all chunks"),
                       (("--racks", 1, "--nodes", 2, "--disks", 3, "--encoding", "rs:4+2"),
                        "one of 2 nodes has 3 of 6")):
        folder = tmp_path / f"box-{shape[-1]}-{shape[3]}".replace(":", "-")
        done = run("up", "--dir", folder, *shape)
        assert done.returncode == 0 and "warning: " in done.stderr and why in done.stderr
        with Box(folder) as box:
            box("put", "-q", tmp_path / "f", "/f")
            assert box("cat", "/f", ok=True).returncode == 0
    done = run("up", "--dir", tmp_path / "three", "--racks", 3, "--disks", 1)
    run("down", "--dir", tmp_path / "three")
    assert done.returncode == 0 and done.stderr == ""
