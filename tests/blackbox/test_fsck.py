# SPDX-License-Identifier: Apache-2.0
"""terrane fsck: the tenants whose trees it walks, and the difference between lost and unreachable."""
import json

from box import KIB, Box, await_true, flip, some_bytes


def check(box, *words):
    """Runs fsck. Returns its exit status, its answer in JSON, and stderr."""
    done = box("fsck", "-q", "--json", *words, ok=False)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_without_a_tenant_the_trees_of_all_tenants_are_walked(tmp_path):
    (tmp_path / "f").write_bytes(some_bytes(1, 200 * KIB))
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1, "--encoding", "rs:2+1", "--procs") as box:
        box("tenant", "create", "other")
        box("put", "-q", "-t", "other", "--block", "64KiB", tmp_path / "f", "/theirs")
        status, found, _ = check(box)
        assert status == 0 and found["tenants"] == 2 and found["files"] == 1 and found["healthy"] == 4
        box.kill("janitor")
        flip(box.chunks(1) + box.chunks(2))
        status, found, err = check(box, "--deep")
        assert status == 1 and found["lost"] == 4 and found["out_of_reach"] == 0
        assert "lost: /theirs of tenant other" in err
        assert check(box, "--deep", "/")[1]["lost"] == 4
        assert check(box, "--deep", "-t", "other")[1]["lost"] == 4
        status, found, _ = check(box, "--deep", "-t", "default")
        assert status == 0 and found["tenants"] == 1 and found["blocks"] == 0
        box("mkdir", "/mine")
        status, found, _ = check(box, "--deep", "/mine")  # a path belongs to the tenant of the cluster file
        assert status == 0 and found["tenants"] == 1 and found["directories"] == 1


def test_unreachable_blocks_are_not_reported_as_lost_and_return(tmp_path):
    (tmp_path / "f").write_bytes(some_bytes(2, 200 * KIB))
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1, "--encoding", "rs:2+1", "--procs") as box:
        box("put", "-q", "--block", "64KiB", tmp_path / "f", "/f")
        box.kill("janitor")
        for disk in (1001, 2001):
            box("disk", "fail", disk)
        status, found, err = check(box)
        assert status == 1 and found["lost"] == 0 and found["out_of_reach"] == 4 and found["unreachable"] == 8
        assert "unreachable: /f of tenant default" in err and "lost: " not in err
        for disk in (1001, 2001):
            box("disk", "online", disk)
        await_true("that all is within reach", lambda: check(box)[1]["healthy"] == 4)

        box.kill("node-1")
        status, found, _ = check(box)
        assert status == 0 and found["degraded"] == 4  # the code tolerates one missing chunk
        flip(box.chunks(2))
        status, found, _ = check(box, "--deep")
        assert status == 1 and found["lost"] == 0 and found["out_of_reach"] == 4 and found["damaged"] == 4
        text = box("fsck", "-q", "--deep", ok=False).stdout
        assert "unreachable  4" in text and "lost         0" in text
        flip(box.chunks(3))  # now the offline node would not help
        status, found, _ = check(box, "--deep")
        assert status == 1 and found["lost"] == 4 and found["out_of_reach"] == 0
