# SPDX-License-Identifier: Apache-2.0
"""A cluster in a folder with its metadata in a RADOS cluster, which scripts/rados.sh starts."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from box import MIB, Box, run, same_tree, write_tree

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "rados.sh"
TREE = {"a/one": 1, "a/none": 0, "b/c/large": 3 * MIB + 5, "top": 70000, **{f"many/f{i}": 1000 for i in range(200)}}


@pytest.fixture(scope="module")
def rados(tmp_path_factory):
    if not shutil.which("ceph-mon") or not shutil.which("ceph-osd"):
        pytest.skip("./dev deps rados installs it")
    folder = tmp_path_factory.mktemp("rados") / "r"
    subprocess.run([SCRIPT, "up", folder], check=True, stdout=subprocess.DEVNULL)
    try:
        yield folder
    finally:
        subprocess.run([SCRIPT, "down", folder], check=False, stdout=subprocess.DEVNULL)


def test_files_survive_kills_of_all_roles_and_of_an_osd(rados, tmp_path):
    write_tree(tmp_path / "in", TREE)
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1, "--procs", "--metadata",
             f"rados:{rados}/ceph.conf") as box:
        box("put", "-q", tmp_path / "in", "/data")
        assert not (box.folder / "meta").exists()  # the metadata is not in the folder
        for name in box.pids():
            box.kill(name)
        box.up("--procs")
        box("get", "-q", "/data", tmp_path / "out")
        same_tree(tmp_path / "in", tmp_path / "out")
        subprocess.run([SCRIPT, "osd-kill", rados, "1"], check=True, stdout=subprocess.DEVNULL)
        box("put", "-q", tmp_path / "in" / "top", "/again", timeout=120)
        subprocess.run([SCRIPT, "osd-start", rados, "1"], check=True, stdout=subprocess.DEVNULL)
        assert box.json("fsck", timeout=120)["lost"] == 0
        box("rm", "-r", "/data")
        assert box("ls").stdout.split() == ["again"]


def test_two_boxes_in_one_pool_are_independent(rados, tmp_path):
    write_tree(tmp_path, {"f": 1000})
    shape = ("--racks", 3, "--disks", 1, "--metadata", f"rados:{rados}/ceph.conf")
    with Box(tmp_path / "one", *shape) as one, Box(tmp_path / "two", *shape) as two:
        one("put", "-q", tmp_path / "f", "/f")
        assert two("ls").stdout == ""


def test_a_missing_ceph_conf_is_refused(tmp_path):
    done = run("up", "--dir", tmp_path / "box", "--metadata", f"rados:{os.devnull}/x")
    assert done.returncode == 2
