# SPDX-License-Identifier: Apache-2.0
"""Quotas of directories and tenants: what is refused, what the error says, what has room again."""
import os

import pytest

from box import KIB, MIB, Box, run, write_tree

TREE = {"one": 10 * KIB, "two": 20 * KIB, "sub/three": 30 * KIB}  # four names and sub: 60 KiB


@pytest.fixture(scope="module", name="box")
def a_box(tmp_path_factory):
    with Box(tmp_path_factory.mktemp("quota") / "box", "--racks", 3, "--disks", 1) as box:
        yield box


def quotas(box, *words):
    return {q["path"]: q for q in box.json("quota", *words) if not q["tenant"]}


def refused(box, *words):
    done = box(*words, ok=False)
    assert done.returncode == 1 and "quota" in done.stderr, done.stderr
    return done.stderr


def test_a_directory_takes_no_more_files_than_its_quota(box):
    box("mkdir", "/f")
    box("touch", "/f/before")
    box("quota", "set", "/f", "--files", 3)
    assert quotas(box, "show", "/f")["/f"]["used_files"] == 1
    box("touch", "/f/2")
    box("mkdir", "/f/3")
    text = refused(box, "touch", "/f/4")
    assert 'directory "/f"' in text and "3 of 3 files and directories" in text and "quota set" in text
    refused(box, "mkdir", "/f/3/5")
    box("touch", "/elsewhere")
    box("rm", "/f/2")
    box("mv", "/elsewhere", "/f/4")  # a removal makes room at once, and so does a move away
    refused(box, "cp", "/f/4", "/f/5")
    box("mv", "/f/4", "/elsewhere")
    box("touch", "/f/3/deep")
    box("quota", "set", "/f", "--files", 4)
    box("touch", "/f/4")
    box("quota", "clear", "/f")
    box("touch", "/f/5")
    assert box("quota", "clear", "/f", ok=False).returncode == 1


def test_put_is_refused_before_it_stores_anything(box, tmp_path):
    write_tree(tmp_path / "in", TREE)
    box("mkdir", "/p")
    box("quota", "set", "/p", "--bytes", "50KiB", "--files", 10)
    text = refused(box, "put", "-q", tmp_path / "in", "/p/tree")
    assert "60.0 KiB" in text and "50.0 KiB" in text and "Nothing was stored" in text and '"/p"' in text
    assert box("ls", "/p").stdout == ""
    box("quota", "set", "/p", "--bytes", "1MiB", "--files", 4)
    text = refused(box, "put", "-q", tmp_path / "in", "/p/tree")
    assert "5 files and directories" in text and "room for 4 of 4" in text
    assert quotas(box, "show", "/p")["/p"]["bytes_max"] == MIB  # what "set" does not name stays
    box("quota", "set", "/p", "--files", 5)
    box("put", "-q", tmp_path / "in", "/p/tree")
    q = quotas(box, "show", "/p/tree/sub")["/p"]
    assert (q["used_files"], q["used_bytes"], q["counted"]) == (5, 60 * KIB, True)
    box("rm", "-r", "/p/tree")
    assert quotas(box, "list")["/p"]["used_bytes"] == 0


def test_bytes_are_refused_while_a_file_is_written(box, tmp_path):
    write_tree(tmp_path, {"big": 5 * MIB})
    box("mkdir", "/b")
    box("quota", "set", "/b", "--bytes", "4MiB")
    # a pipe has no size that could be checked before
    done = run("put", "-q", "--block", "1MiB", "-", "/b/big", env=box.env,
               under=("sh", "-c", f'exec "$@" < {tmp_path}/big', "sh"))
    assert done.returncode == 1 and 'directory "/b"' in done.stderr and "bytes" in done.stderr, done.stderr
    assert box("ls", "/b").stdout == ""


def test_a_tree_moves_into_a_quota_only_if_it_fits(box, tmp_path):
    write_tree(tmp_path / "in", TREE)
    box("put", "-q", tmp_path / "in", "/m")
    box("mkdir", "/target")
    box("quota", "set", "/target", "--bytes", "59KiB")
    refused(box, "mv", "/m", "/target/m")
    assert box.json("stat", "/m/sub/three")["size"] == 30 * KIB
    box("quota", "set", "/target", "--bytes", "60KiB")
    box("mv", "/m", "/target/m")
    assert quotas(box, "show", "/target")["/target"]["used_bytes"] == 60 * KIB
    refused(box, "cp", "/target/m/one", "/target/copy")


def test_a_tenant_has_a_quota_of_files(box, tmp_path):
    write_tree(tmp_path / "in", TREE)
    box("tenant", "create", "few", "--quota", "1GiB", "--files", 4)
    text = refused(box, "put", "-q", "-t", "few", tmp_path / "in", "/tree")
    assert "the tenant" in text and "Nothing was stored" in text
    for name in "abcd":
        box("touch", "-t", "few", "/" + name)
    assert "terrane tenant quota" in refused(box, "touch", "-t", "few", "/e")
    box("touch", "/elsewhere")
    found = {t["name"]: t for t in box.json("tenant", "list")}["few"]
    assert (found["files_max"], found["used_files"], found["quota_bytes"]) == (4, 4, 1024 * MIB)
    box("tenant", "quota", "few", "--files", 5)
    box("touch", "-t", "few", "/e")
    found = {t["name"]: t for t in box.json("tenant", "list")}["few"]
    assert (found["files_max"], found["quota_bytes"]) == (5, 1024 * MIB)


def client(box, folder, name, *grant):
    """Adds a user; returns a function that runs a command as that user."""
    key = folder / f"{name}.key"
    box("user", "add", name, *grant, "--key", key)
    text = (box.folder / "cluster.ini").read_text().replace("credentials = keys/admin.key\n", "")
    (folder / "cluster.ini").write_text(text)
    env = {**os.environ, "TERRANE_CLUSTER": str(folder / "cluster.ini"), "TERRANE_KEY_FILE": str(key)}
    return lambda *words: run(*words, env=env)


def test_who_administers_a_part_of_a_tenant_does_not_lift_the_quota_on_it(box, tmp_path):
    box("mkdir", "-p", "/team/sub/bob")
    box("quota", "set", "/team", "--files", 5)
    ann = client(box, tmp_path, "ann", "--role", "tenant-admin", "--path", "/team")
    for words in (["set", "/team", "--files", 100], ["clear", "/team"], ["set", "/", "--files", 100], ["list"]):
        done = ann("quota", *words)
        assert done.returncode == 1 and "denied" in done.stderr, (words, done.stderr)
    done = ann("quota", "set", "/team/sub", "--files", 2)
    assert done.returncode == 0, done.stderr
    assert {"/team", "/team/sub"} <= set(quotas(box, "show", "/team/sub"))
    assert ann("touch", "/team/sub/1").returncode == 0
    assert '"/team/sub"' in refused(box, "touch", "/team/sub/2")
    # A user with less learns that a quota is used up, and not how much others have stored.
    bob = client(box, tmp_path, "bob", "--role", "read-write", "--path", "/team/sub/bob")
    done = bob("touch", "/team/sub/bob/x")
    assert done.returncode == 1 and "a directory above is over its quota" in done.stderr, done.stderr
    assert "2" not in done.stderr
    done = bob("quota", "show", "/team/sub/bob", "--json")
    assert done.returncode == 0 and "/team" not in done.stdout, (done.stdout, done.stderr)


def test_bad_quotas_are_refused(box):
    box("touch", "/file")
    for words, status in ((["set", "/nowhere", "--files", 1], 1), (["set", "/file", "--files", 1], 1),
                          (["set", "/"], 2), (["set", "/", "--files", 0], 2), (["set", "/", "--bytes", "x"], 2),
                          (["clear"], 2), (["enlarge", "/"], 2), (["show", "/nowhere"], 1)):
        assert box("quota", *words, ok=False).returncode == status, words
