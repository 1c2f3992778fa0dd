# SPDX-License-Identifier: Apache-2.0
"""Backups of the metadata of a running cluster, and the way back after the store is lost or damaged."""
import json
import shutil

import pytest

from box import KIB, MIB, Box, await_true, flip, run, same_tree, write_tree

OLD = {"small": 3 * KIB, "a/large": 3 * MIB, "a/b/deep": 70 * KIB}
LATER = {"one": 90 * KIB, "two": 2 * MIB}


@pytest.fixture(name="box")
def a_box(tmp_path):
    with Box(tmp_path / "box", "--racks", 4, "--encoding", "rs:2+1", "--procs") as box:
        yield box


def stored_chunks(box):
    """The chunks on all disks."""
    return {path for node in sorted((box.folder / "disks").iterdir())
            for path in map(str, box.chunks(node.name.rpartition("-")[2]))}


def lose_store(box):
    """Kills the server and loses the folder of its store."""
    box.kill("meta")
    box.down()
    shutil.rmtree(box.folder / "meta")


def held(box):
    return box.json("gc", "status")["held"]


def test_a_lost_store_is_restored_with_every_file_of_the_backup(box, tmp_path):
    write_tree(tmp_path / "old", OLD)
    write_tree(tmp_path / "later", LATER)
    box("put", "-q", tmp_path / "old", "/old")
    backups = tmp_path / "backups"
    first = box.json("meta", "backup", backups)
    assert first["number"] == 1 and first["bytes"] > 0
    # After the backup: a file is stored, and one is deleted whose chunks are still in their grace period.
    box("put", "-q", tmp_path / "later", "/later")
    box("rm", "/old/a/large")
    chunks = stored_chunks(box)
    lose_store(box)

    done = run("meta", "verify", backups, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["errors"] == 0
    done = run("meta", "restore", backups, "--dir", box.folder, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["number"] == 1 and told["errors"] == 0 and told["kept"] == ""
    box.up()
    box("get", "-q", "/old", tmp_path / "back")
    same_tree(tmp_path / "old", tmp_path / "back")
    assert [e["name"] for e in map(json.loads, box("ls", "--json", "/").stdout.splitlines())] == ["old"]
    done = box("fsck")
    assert done.returncode == 0, done.stdout

    # Nothing is deleted while collection is held: the chunks of /later are still there for whoever looks for them.
    assert held(box) and "restored from backup 1" in box.json("gc", "status")["held_why"]
    metrics = box.metrics("janitor")
    await_true("two more rounds of collection", lambda: box.metrics("janitor")["terrane_janitor_collect_rounds_total"] >=
               metrics["terrane_janitor_collect_rounds_total"] + 2)
    assert box.metrics("janitor")["terrane_janitor_held"] == 1
    assert stored_chunks(box) == chunks
    box("gc", "resume")
    assert not held(box)
    box("put", "-q", tmp_path / "later", "/again")
    box("get", "-q", "/again", tmp_path / "again")
    same_tree(tmp_path / "later", tmp_path / "again")
    box("get", "-q", "/old/a", tmp_path / "twice")
    same_tree(tmp_path / "old" / "a", tmp_path / "twice")


def test_backups_while_files_are_written_are_incremental_and_all_of_them_restore(box, tmp_path):
    backups = tmp_path / "backups"
    for i in range(4):
        write_tree(tmp_path / f"in{i}", {f"f{n}": 40 * KIB for n in range(20)})
        writer = box.start("put", "-q", tmp_path / f"in{i}", f"/in{i}")
        box("meta", "backup", backups, "--keep", 3)
        assert writer.wait(120) == 0
        writer.communicate()
    listed = json.loads(run("meta", "backups", backups, "--json").stdout)
    assert [b["number"] for b in listed["backups"]] == [2, 3, 4]
    assert box.metrics("meta")["terrane_meta_backups_total"] == 4
    for number in (2, 4):
        done = run("meta", "verify", backups, "--number", number, "--json")
        assert done.returncode == 0 and json.loads(done.stdout)["errors"] == 0, done.stderr
    # What was put before a backup began is in it, whole.
    box.down()
    done = run("meta", "restore", backups, "--dir", box.folder, "--number", 3, "--replace")
    assert done.returncode == 0, done.stderr
    box.up()
    for i in range(2):
        box("get", "-q", f"/in{i}", tmp_path / f"out{i}")
        same_tree(tmp_path / f"in{i}", tmp_path / f"out{i}")
    assert box("ls", "/in3", ok=False).returncode == 1
    kept = [p.name for p in box.folder.iterdir() if p.name.startswith("meta.before-restore")]
    assert kept == ["meta.before-restore-1"]


def test_restores_that_would_do_harm_are_refused_and_change_nothing(box, tmp_path):
    backups = tmp_path / "backups"
    box("put", "-q", __file__, "/file")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    done = box("meta", "backup", tmp_path / "mine", ok=False)
    assert done.returncode == 1 and "other files" in done.stderr
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    done = box("meta", "backup", tmp_path / "no" / "such", ok=False)
    assert done.returncode == 1 and "parent" in done.stderr
    box("meta", "backup", backups)

    def refused(words, text, *more):
        done = run("meta", *words, *more)
        assert done.returncode == 1 and text in done.stderr, done.stderr

    here = ("--dir", box.folder)
    refused(["restore", backups], "--replace", *here)
    refused(["restore", backups, "--replace"], "stop the metadata server", *here)
    refused(["restore", tmp_path / "mine"], "has none", *here)
    box.down()
    refused(["restore", backups, "--number", 9, "--replace"], "no backup 9", *here)
    tables = list(backups.rglob("*.sst"))
    assert tables
    flip(tables)
    refused(["verify", backups], "damaged")
    refused(["restore", backups, "--replace"], "damaged", *here)
    assert not list(box.folder.glob("meta.*"))
    box.up()
    assert box("cat", "/file").stdout


def test_gc_hold_keeps_what_is_deleted_until_resume(box):
    box("put", "-q", __file__, "/file")
    done = box("gc", "hold", ok=False)
    assert done.returncode == 2 and "REASON" in done.stderr
    box("gc", "hold", "copying the disks")
    assert held(box) and "copying the disks" in box("gc", "status").stdout
    await_true("the janitor sees it", lambda: box.metrics("janitor")["terrane_janitor_held"] == 1)
    box("gc", "resume")
    await_true("the janitor sees it", lambda: box.metrics("janitor")["terrane_janitor_held"] == 0)
