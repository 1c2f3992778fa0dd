# SPDX-License-Identifier: Apache-2.0
"""terrane sync makes one tree like another: into the cluster, and back, with attributes, plans and removals."""
import json
import os
import shutil

import pytest

from box import KIB, MIB, Box, same_tree, write_tree

TREE = {"a": 10, "b": 70 * KIB, "large": 3 * MIB, "sub/c": 100, "sub/deep/d": 5, "other/e": 7}


@pytest.fixture(scope="module", name="box")
def a_box(tmp_path_factory):
    with Box(tmp_path_factory.mktemp("sync") / "box", "--racks", 3, "--disks", 1, "--encoding", "r2") as box:
        yield box


def change(folder):
    """Changes a tree: bytes of the same length, other lengths, attributes, names that come, go and change their kind."""
    (folder / "a").write_bytes(b"0123456789")
    (folder / "large").write_bytes(b"short")
    os.chmod(folder / "b", 0o604)
    os.setxattr(folder / "b", "user.label", b"new")
    shutil.rmtree(folder / "sub" / "deep")
    (folder / "sub" / "deep").write_bytes(b"now a file")
    shutil.rmtree(folder / "other")
    (folder / "new").mkdir()
    (folder / "new" / "f").write_bytes(b"f")
    (folder / "sub" / "c").unlink()
    (folder / "sub" / "c").mkdir()


def state(folder):
    return {str(p.relative_to(folder)): (p.stat().st_mode, p.stat().st_mtime_ns, p.is_file() and p.read_bytes(),
                                         os.listxattr(p)) for p in folder.rglob("*")}


def actions(done):
    return {(line["action"], line.get("path")) for line in map(json.loads, done.stdout.splitlines())}


def test_sync_into_the_cluster_and_back(box, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    write_tree(here, TREE)
    told = box.json("sync", "-q", here, "/s")
    assert told["files"] == len(TREE) and told["failed"] == 0
    assert box.json("sync", "-q", here, "/s")["left_alone"] == len(TREE)
    box("sync", "-q", "--get", "/s", there)
    assert state(here) == state(there)
    assert box.json("sync", "-q", "--get", "/s", there)["left_alone"] == len(TREE)
    change(here)
    before = box("tree", "/s").stdout
    plan = box("sync", "-n", "--delete", "--json", here, "/s")
    assert {("put", "/s/a"), ("put", "/s/large"), ("remove", "/s/sub/deep"), ("put", "/s/sub/deep"), ("remove", "/s/other"),
            ("make", "/s/new"), ("put", "/s/new/f"), ("remove", "/s/sub/c"), ("make", "/s/sub/c"),
            ("set attributes of", "/s/b")} <= actions(plan)
    assert ("put", "/s/b") not in actions(plan)
    assert box("tree", "/s").stdout == before and box("cat", "/s/large").stdout != "short"  # nothing was changed
    # Without --delete nothing is removed, and names of another kind are told of.
    done = box("sync", "-q", here, "/s", ok=False)
    assert done.returncode == 1 and done.stderr.count("--delete") == 2
    assert box("ls", "/s/other").stdout == "e\n"
    told = box.json("sync", "-q", "--delete", here, "/s")
    assert told["removed"] == 3 and told["failed"] == 0
    assert ("sum", None) in actions(box("sync", "-n", "--delete", "--json", here, "/s"))
    assert len(actions(box("sync", "-n", "--delete", "--json", here, "/s"))) == 1  # nothing is left to do
    assert actions(box("sync", "-n", "--get", "--delete", "--json", "/s", there)) >= {("remove", str(there / "other"))}
    box("sync", "-q", "--get", "--delete", "/s", there)
    same_tree(here, there)
    assert state(here) == state(there)


def test_sync_removes_nothing_when_the_source_is_missing(box, tmp_path):
    write_tree(tmp_path / "in", {"f": 1})
    box("sync", "-q", tmp_path / "in", "/safe")
    done = box("sync", "--delete", tmp_path / "none", "/safe", ok=False)
    assert done.returncode == 1 and "none" in done.stderr
    assert box("sync", "--delete", "--get", "/none", tmp_path / "in", ok=False).returncode == 1
    assert box("sync", "--delete", tmp_path / "in" / "f", "/safe", ok=False).returncode == 1
    assert box("sync", tmp_path / "in", "/safe/../x", ok=False).returncode == 1
    assert box("ls", "/safe").stdout == "f\n" and (tmp_path / "in" / "f").exists()


def test_sync_compares_bytes_on_request_and_follows_no_link_out_of_the_target(box, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    write_tree(here, {"f": 1000, "d/g": 10})
    box("sync", "-q", here, "/v")
    was = (here / "f").stat()
    (here / "f").write_bytes(bytes(1000))
    os.utime(here / "f", ns=(was.st_atime_ns, was.st_mtime_ns))
    assert box.json("sync", "-q", here, "/v")["left_alone"] == 2  # by size and time
    told = box.json("sync", "-q", "--verify", here, "/v")
    assert (told["files"], told["left_alone"]) == (1, 1)
    write_tree(tmp_path / "outside", {"g": 50})
    there.mkdir()
    (there / "d").symlink_to(tmp_path / "outside")
    assert box("sync", "-q", "--get", "/v", there, ok=False).returncode == 1
    box("sync", "-q", "--get", "--delete", "/v", there)
    assert not (there / "d").is_symlink() and len((tmp_path / "outside" / "g").read_bytes()) == 50
    same_tree(here, there)
