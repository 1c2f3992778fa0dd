# SPDX-License-Identifier: Apache-2.0
"""Commands on files in difficult conditions: Ctrl-C, sources that change, a quota, a check during changes."""
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from box import KIB, MIB, TERRANE, Box, await_true, lives, same_tree, write_tree


@pytest.fixture
def procs(tmp_path):
    """A box with a process for each role; stopped processes are continued at the end."""
    with Box(tmp_path / "box", "--racks", 6, "--disks", 1, "--procs") as own:
        try:
            yield own
        finally:
            signal_nodes(own, signal.SIGCONT)


def signal_nodes(box, number):
    for name, pid in box.pids().items():
        if name.startswith("node") and lives(pid):
            os.kill(pid, number)


def interrupt(process):
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in err
    return err


def test_ctrl_c_ends_a_put_while_no_node_answers(procs, tmp_path):
    write_tree(tmp_path / "in", {"large": 80 * MIB, **{f"small{i}": 10 * KIB for i in range(50)}})
    put = procs.start("put", "-q", "--block", "1MiB", tmp_path / "in", "/data")
    await_true("bytes on node-2", lambda: procs.chunks(2))
    signal_nodes(procs, signal.SIGSTOP)
    interrupt(put)
    signal_nodes(procs, signal.SIGCONT)
    procs("put", "-q", "--resume", tmp_path / "in", "/data")
    procs("get", "-q", "/data", tmp_path / "out")
    same_tree(tmp_path / "in", tmp_path / "out")


@pytest.mark.parametrize("end", ["ctrl-c", "kill"])
def test_an_interrupted_get_leaves_no_partial_file(procs, tmp_path, end):
    write_tree(tmp_path / "in", {f"f{i}": 20 * MIB for i in range(6)})
    procs("put", "-q", tmp_path / "in", "/data")
    get = procs.start("get", "-q", "/data", tmp_path / "out")
    await_true("the first file", lambda: any((tmp_path / "out").glob("f*")) or get.poll() is not None)
    signal_nodes(procs, signal.SIGSTOP)
    if get.poll() is None and end == "ctrl-c":
        interrupt(get)
    get.kill()
    get.communicate()
    signal_nodes(procs, signal.SIGCONT)
    for path in (tmp_path / "out").iterdir():
        assert path.read_bytes() == (tmp_path / "in" / path.name).read_bytes(), path.name


def test_get_replaces_only_when_told_to_and_in_one_step(procs, tmp_path):
    write_tree(tmp_path, {"in/f": 3 * MIB, "in/g": 10})
    procs("put", "-q", tmp_path / "in", "/data")
    write_tree(tmp_path, {"out/f": 5, "out/g": 5})
    done = procs("get", "-q", "/data", tmp_path / "out", ok=False)
    assert done.returncode == 1 and "exists" in done.stderr and "--replace" in done.stderr
    assert (tmp_path / "out" / "f").stat().st_size == 5
    procs("get", "-q", "--replace", "/data", tmp_path / "out")
    same_tree(tmp_path / "in", tmp_path / "out")


def test_sources_that_vanish_shrink_or_grow_are_reported_and_the_rest_is_put(procs, tmp_path):
    sizes = {"a": 40 * MIB, "b": 3 * MIB, "c": 3 * MIB, "d": 3 * MIB, "e/small": 100, "gone": 3 * MIB,
             "shrinks": 3 * MIB, "grows": 3 * MIB, "z": 3 * MIB, "zz/deep/f": 100}
    write_tree(tmp_path / "in", sizes)
    put = procs.start("put", "-q", "--jobs", 1, "--block", "1MiB", tmp_path / "in", "/data")
    await_true("bytes on node-2", lambda: procs.chunks(2))  # "a" is being put; the sizes of few others are read
    put.send_signal(signal.SIGSTOP)
    (tmp_path / "in" / "gone").unlink()
    (tmp_path / "in" / "zz" / "deep" / "f").unlink()
    (tmp_path / "in" / "zz" / "deep").rmdir()
    os.truncate(tmp_path / "in" / "b", MIB)
    with open(tmp_path / "in" / "c", "ab") as file:
        file.write(b"more")
    put.send_signal(signal.SIGCONT)
    _, err = put.communicate(timeout=120)
    assert put.returncode == 1
    for name in ("b", "c"):  # their size was read before
        assert f"in/{name} changed while it was read" in err
    assert "Traceback" not in err and "internal" not in err
    procs("get", "-q", "/data", tmp_path / "out")
    there = {p.name for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert there == {"a", "d", "small", "shrinks", "grows", "z"}
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "in" / path.relative_to(tmp_path / "out")).read_bytes()
    procs("put", "-q", "--resume", tmp_path / "in", "/data")
    procs("get", "-q", "--resume", "/data", tmp_path / "out")
    assert (tmp_path / "out" / "b").stat().st_size == MIB


def test_a_file_written_to_while_it_is_read_is_not_put(procs, tmp_path):
    """Its length does not change, so only its time shows the change."""
    with open(tmp_path / "large", "wb") as file:
        file.truncate(200 * MIB)
    put = procs.start("put", "-q", "--block", "1MiB", tmp_path / "large", "/large")
    await_true("bytes on node-2", lambda: procs.chunks(2))
    with open(tmp_path / "large", "r+b") as file:
        file.write(b"x")
    _, err = put.communicate(timeout=120)
    assert put.returncode == 1 and "large changed while it was read" in err
    assert procs("stat", "/large", ok=False).returncode == 1


def test_a_quota_reached_in_the_middle_of_many_files_keeps_the_complete_ones(tmp_path):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1) as box:
        box("tenant", "create", "small", "--quota", "4MiB")
        write_tree(tmp_path / "in", {f"f{i:03}": 100 * KIB for i in range(100)})
        # --resume leaves the check of the quota to the metadata; without it nothing is stored.
        done = box("put", "-q", "-t", "small", "--resume", "--jobs", 1, "--block", "1MiB", tmp_path / "in", "/data", ok=False)
        assert done.returncode == 1 and "quota" in done.stderr
        box("get", "-q", "-t", "small", "/data", tmp_path / "out")
        for path in (tmp_path / "out").iterdir():
            assert path.read_bytes() == (tmp_path / "in" / path.name).read_bytes()
        check = box.json("fsck", "-t", "small")
        assert check["lost"] == 0 and check["broken_files"] == 0
        box("tenant", "quota", "small", "1GiB")
        box("put", "-q", "-t", "small", "--resume", tmp_path / "in", "/data")
        box("get", "-q", "-t", "small", "--resume", "/data", tmp_path / "out")
        same_tree(tmp_path / "in", tmp_path / "out")


def test_a_refusal_that_holds_for_all_ends_a_put_after_a_few_lines(tmp_path):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1) as box:
        box("tenant", "create", "small", "--quota", "4MiB")
        write_tree(tmp_path / "small", {f"d{i % 9}/f{i:03}": 100 * KIB for i in range(300)})
        write_tree(tmp_path / "large", {f"f{i:03}": 3 * MIB for i in range(30)})
        for source in ("small", "large"):
            for why in (["--encoding", "rs:4+2"], ["-t", "small"]):
                name = f"/{source}-{len(why[0])}"
                # --resume leaves the check of the quota to the metadata; without it nothing is stored.
                done = box("put", "-q", "--json", "--resume", *why, tmp_path / source, name, ok=False)
                assert done.returncode == 1
                lines = done.stderr.splitlines()
                assert len(lines) == 4 and "--resume" in lines[3], done.stderr
                assert all("needs 6 disks" in line or "quota" in line for line in lines[:3]), done.stderr
                told = json.loads(done.stdout)
                assert told["ended_early"] and told["failed"] >= 3
                tenant = why if why[0] == "-t" else []
                assert told["bytes"] == box.json("du", *tenant, name)["bytes"]


def test_a_link_to_a_directory_counts_as_failed_and_the_rest_is_put(procs, tmp_path):
    write_tree(tmp_path, {"in/f": 10, "elsewhere/g": 20})
    (tmp_path / "in" / "dir").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "round").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "file").symlink_to(tmp_path / "elsewhere" / "g")
    done = procs("put", "-q", "--json", tmp_path / "in", "/data", ok=False)
    assert done.returncode == 1 and "in/dir: a link to a directory" in done.stderr
    assert json.loads(done.stdout)["failed"] == 2
    assert procs("ls", "/data").stdout.split() == ["f", "file"]
    procs("put", "-q", tmp_path / "in" / "dir", "/data/dir")  # as the message suggests
    assert procs("ls", "/data/dir").stdout.split() == ["g"]


def test_existing_files_are_reported_with_the_remedy_and_not_counted(procs, tmp_path):
    write_tree(tmp_path / "in", {"small": 1000, "large": 3 * MIB, "sub/new": 7})
    for name in ("small", "large"):
        procs("put", "-q", tmp_path / "in" / name, "/data/")
    for words in ([tmp_path / "in", "/data"], [tmp_path / "in" / "large", tmp_path / "in" / "small", "/data"]):
        done = procs("put", "-q", "--json", *words, ok=False)
        told = json.loads(done.stdout)
        assert done.returncode == 1 and told["failed"] == 2 and told["bytes"] == 7 * told["files"]
        for name in ("small", "large"):
            line = next(line for line in done.stderr.splitlines() if f"in/{name}:" in line)
            assert "--replace" in line and "--resume" in line
    told = json.loads(procs("put", "-q", "--json", "--resume", tmp_path / "in", "/data").stdout)
    assert told["left_alone"] == 3 and told["bytes"] == 0


def edit(path, seconds):
    """Writes other bytes of the same length, with a time so many seconds from now."""
    path.write_bytes(bytes(b ^ 1 for b in path.read_bytes()))
    os.utime(path, (time.time() + seconds,) * 2)


def test_resume_notices_a_changed_file_of_the_same_length(procs, tmp_path):
    write_tree(tmp_path / "in", {"small": 1000, "large": 3 * MIB, "as/it/was": 5})
    procs("put", "-q", tmp_path / "in", "/data")
    old = {p.name: p.read_bytes() for p in (tmp_path / "in").glob("*a*") if p.is_file()}
    for words, seconds in ([], 10), (["--verify"], 10), (["--verify"], -1000):
        for name in ("small", "large"):
            edit(tmp_path / "in" / name, seconds)
        done = procs("put", "-q", "--json", "--resume", *words, tmp_path / "in", "/data", ok=False)
        told = json.loads(done.stdout)
        assert done.returncode == 1 and told["failed"] == 2 and told["left_alone"] == 1
        assert done.stderr.count("differs from what is stored") == 2 == done.stderr.count("--replace")
        assert "checksum" not in done.stderr
        for name, bytes_ in old.items():
            procs("get", "-q", "--replace", f"/data/{name}", tmp_path / "got")
            assert (tmp_path / "got").read_bytes() == bytes_
        told = procs.json("put", "-q", "--resume", "--replace", *words, tmp_path / "in", "/data")
        assert told["files"] == 2 and told["left_alone"] == 1
        procs("get", "-q", "--replace", "/data", tmp_path / "out")
        same_tree(tmp_path / "in", tmp_path / "out")
        old = {name: (tmp_path / "in" / name).read_bytes() for name in old}
    os.utime(tmp_path / "in" / "small", (time.time() + 10,) * 2)  # newer, with the same contents
    assert procs.json("put", "-q", "--resume", "--verify", tmp_path / "in", "/data")["left_alone"] == 3


def test_get_resume_notices_a_file_that_was_replaced(procs, tmp_path):
    write_tree(tmp_path / "in", {"small": 1000, "large": 3 * MIB, "as/it/was": 5})
    procs("put", "-q", tmp_path / "in", "/data")
    procs("get", "-q", "/data", tmp_path / "out")
    assert procs.json("get", "-q", "--resume", "/data", tmp_path / "out")["left_alone"] == 3
    for name in ("small", "large"):
        edit(tmp_path / "in" / name, 0)
        os.utime(tmp_path / "out" / name, (time.time() - 1000,) * 2)
    procs("put", "-q", "--replace", tmp_path / "in" / "small", tmp_path / "in" / "large", "/data")
    done = procs("get", "-q", "--resume", "/data", tmp_path / "out", ok=False)
    assert done.returncode == 1 and done.stderr.count("--replace") == 2
    assert procs.json("get", "-q", "--resume", "--replace", "/data", tmp_path / "out")["left_alone"] == 1
    same_tree(tmp_path / "in", tmp_path / "out")


def test_fsck_during_puts_and_removes_finds_nothing_lost(procs, tmp_path):
    write_tree(tmp_path / "in", {f"f{i:03}": 30 * KIB for i in range(60)})
    write_tree(tmp_path / "stays", {f"f{i:03}": 30 * KIB for i in range(60)})
    procs("put", "-q", tmp_path / "stays", "/stays")
    over = threading.Event()

    def change():
        while not over.is_set():
            subprocess.run([TERRANE, "put", "-q", tmp_path / "in", "/comes"], env=procs.env, check=False,
                           stdout=subprocess.DEVNULL)
            subprocess.run([TERRANE, "rm", "-r", "/comes"], env=procs.env, check=False)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(15):
            check = procs.json("fsck", "-q")  # exits with 1 if a block is lost
            assert check["files"] >= 60 and check["healthy"] >= 1
    finally:
        over.set()
        changer.join()


def test_a_thousand_small_files_are_read_quickly_with_a_node_down(procs, tmp_path):
    """One call reconstructs many files; file by file, the budget of reconstructed reads would allow some fifty a second."""
    write_tree(tmp_path / "in", {f"d{i % 3}/f{i:04}": 6 * KIB for i in range(3000)})
    procs("put", "-q", tmp_path / "in", "/data")
    procs.kill("node-3")
    start = time.monotonic()
    procs("get", "-q", "/data", tmp_path / "out")
    assert time.monotonic() - start < 60  # far more than a busy machine takes, and less than file by file
    same_tree(tmp_path / "in", tmp_path / "out")
