# SPDX-License-Identifier: Apache-2.0
"""terrane up, down and status: clusters in folders start, stop, are killed and start again with all their data."""
import fcntl
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from box import GIB, MIB, TERRANE, Box, await_true, lives, run, same_tree, some_bytes, write_tree

TREE = {"a/one": 1, "a/none": 0, "b/c/large": 3 * MIB + 5, "top": 70000}


def test_up_is_ready_soon_and_again_with_all_data_after_down_and_kill(tmp_path):
    write_tree(tmp_path / "in", TREE)
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1) as box:
        # Formatting waits for the disk, which other processes use too; a later start does not.
        box("put", "-q", tmp_path / "in", "/data")
        box.kill("box")
        box.up()
        assert box.seconds < 20
        box("get", "-q", "/data", tmp_path / "out1")
        same_tree(tmp_path / "in", tmp_path / "out1")
        box.down()
        assert box("ls", ok=False).returncode == 1
        box.up("--procs")
        assert set(box.pids()) == {"meta", "janitor", "node-1", "node-2", "node-3"}
        box("get", "-q", "/data", tmp_path / "out2")
        same_tree(tmp_path / "in", tmp_path / "out2")
        for name in box.pids():
            box.kill(name)
        box.up("--procs")
        box("get", "-q", "/data", tmp_path / "out3")
        same_tree(tmp_path / "in", tmp_path / "out3")


def test_a_box_of_many_disks_comes_up_in_one_process(tmp_path):
    with Box(tmp_path / "box", "--racks", 6, "--pools", "4+2", "--disks", 12, "--repair", "r_fco") as box:
        assert box.seconds < 10  # 3 s on an idle machine
        assert len(box.json("disk", "list")) == 12
        assert "method = r_fco" in (box.folder / "conf" / "janitor.ini").read_text()
        assert "repair = outside" in (box.folder / "conf" / "node-1.ini").read_text()
        assert box.json("status")["well"]


def loops_of(box, role):
    return sum(name.startswith("terrane_loop_busy_seconds_total{") for name in box.metrics(role))


def loads_of(box):
    """Returns what the status says of how busy the processes are."""
    status = json.loads(box("status", "--json", ok=False).stdout)
    loads = [status["metadata_load"], *(n["load"] for n in status["nodes"]), *status["janitors"]]
    return [load for load in loads if load is not None and "loops" in load]


@pytest.mark.parametrize("how", [[], ["--procs"]])
def test_all_roles_work_on_as_many_threads_as_were_asked_for(tmp_path, how):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 2, "--threads", 3, *how) as box:
        (tmp_path / "data").write_bytes(some_bytes(7, 20 * MIB))
        box("put", tmp_path / "data", "/data")
        box("get", "/data", tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "data").read_bytes()
        assert {loops_of(box, role) for role in ("node-1", "meta", "janitor")} == {3}
        # metadata, three nodes and the janitor
        await_true("loads of all processes", lambda: [load["loops"] for load in loads_of(box)] == 5 * [3])
        for load in loads_of(box):
            assert 0 <= load["busy_permille"] <= load["busiest_permille"] <= 1000
        box.down()
        # The number can be changed while the cluster is down.
        for file in [box.folder / "box.ini", *(box.folder / "conf").glob("*.ini")]:
            file.write_text(file.read_text().replace("threads = 3", "threads = auto"))
        box.up(*how)
        count = len(os.sched_getaffinity(0))
        assert {loops_of(box, role) for role in ("node-1", "meta", "janitor")} == {count}
        box("get", "/data", tmp_path / "third")
        assert (tmp_path / "third").read_bytes() == (tmp_path / "data").read_bytes()


def test_files_stay_on_the_media_that_they_were_put_on(tmp_path):
    (tmp_path / "f").write_bytes(some_bytes(1, 300000))
    with Box(tmp_path / "box", "--racks", 4, "--flash", 1, "--encoding", "r3") as box:
        disks = {d["id"]: d["media"] for d in box.json("disk", "list")}
        assert len(disks) == 12
        assert {i for i, media in disks.items() if media == "flash"} == {1003, 2003, 3003, 4003}
        assert all((n["disks"], n["flash_disks"]) == (2, 1) for n in box.json("node", "list"))
        box("put", "-q", tmp_path / "f", "/plain")
        box("put", "-q", "--media", "flash", tmp_path / "f", "/fast")
        assert [s["media"] for s in box.json("stat", "/plain", "/fast")] == ["disk", "flash"]
        assert box.json("fsck")["misplaced"] == 0
        done = box("put", "-q", "--media", "flash", "--encoding", "rs:4+2", tmp_path / "f", "/wide", ok=False)
        assert done.returncode == 1 and "rs:4+2 needs 6 flash disks; 4 accept new data" in done.stderr
        box("put", "-q", "--media", "flash-or-disk", "--encoding", "rs:3+2", tmp_path / "f", "/either")
        assert box.json("stat", "/either")["media"] == "disk"
        box("seal", "--media", "disk", "/fast")
        assert box.json("stat", "/fast")["media"] == "disk"
        box("get", "-q", "/fast", tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == (tmp_path / "f").read_bytes()
        assert box.json("fsck")["misplaced"] == 0
        box.down()
        assert box.up()["flash_disks"] == 4
        assert run("up", "--dir", box.folder, "--flash", 2).returncode == 1
    assert run("up", "--dir", tmp_path / "none", "--disks", 2, "--flash", 2).returncode == 2


def test_up_twice_says_that_it_runs_and_starts_only_what_is_missing(tmp_path):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1, "--procs") as box:
        pids = box.pids()
        assert box.up()["started"] == 0
        assert box.pids() == pids
        box.kill("node-2")
        assert box.up()["started"] == 1
        assert {k: v for k, v in box.pids().items() if k != "node-2"} == \
            {k: v for k, v in pids.items() if k != "node-2"}


@pytest.mark.parametrize("mode", [[], ["--procs"]])
def test_up_right_after_kill_9_does_not_count_dying_processes_as_running(tmp_path, mode):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1, *mode) as box:
        for _ in range(5):
            pids = box.pids()
            for pid in pids.values():
                os.kill(pid, signal.SIGKILL)
            assert box.up(*mode)["started"] == len(pids)
            assert not set(box.pids().values()) & set(pids.values())


def test_up_completes_a_box_after_an_interrupted_up(tmp_path):
    for delay in (0.05, 0.2, 0.5):
        up = subprocess.Popen([TERRANE, "up", "--dir", tmp_path / "box", "--racks", "3", "--disks", "2"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        threading.Timer(delay, up.kill).start()
        up.wait()
    with Box(tmp_path / "box", "--racks", 3, "--disks", 2) as box:
        assert box.json("status")["disk_states"]["online"] == 6


def stop_formatting(folder):
    """Starts `terrane up`, and stops the program that formats its metadata. Returns both, or None if it was too fast."""
    up = subprocess.Popen([TERRANE, "up", "--dir", folder, "--racks", "3", "--disks", "1"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{up.pid}/task/{up.pid}/children")
    while up.poll() is None:
        for pid in map(int, children.read_text().split()):
            os.kill(pid, signal.SIGSTOP)
            if b"format" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return up, pid
            os.kill(pid, signal.SIGCONT)
    run("down", "--dir", folder)
    return None


def test_up_waits_for_the_formatting_of_an_up_that_was_killed(tmp_path):
    folders = (tmp_path / str(i) for i in itertools.count())
    folder, (up, formatting) = next((f, s) for f in folders if (s := stop_formatting(f)))
    up.kill()
    up.wait()
    fd = os.open(folder, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
    next_up = subprocess.Popen([TERRANE, "up", "--dir", folder, "--racks", "3", "--disks", "1"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    os.kill(formatting, signal.SIGCONT)
    assert next_up.wait() == 0, next_up.stderr.read()
    assert run("down", "--dir", folder).returncode == 0


@pytest.mark.parametrize("words, why", [
    (["--racks", "4"], "made with 3"),
    (["--disks", "7"], "made with 1"),
    (["--emulate", "hdd"], "made with none"),
    (["--pools", "2+1"], "made with none"),
    (["--encoding", "rs:4+2"], "made with r3"),
    (["--threads", "2"], "made with 1; to change it, stop the cluster and set threads in its box.ini"),
])
def test_up_refuses_what_contradicts_the_box(made_box, words, why):
    done = run("up", "--dir", made_box, *words)
    assert done.returncode == 1 and why in done.stderr


@pytest.fixture(scope="module")
def made_box(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "box"
    with Box(folder, "--racks", 3, "--disks", 1):
        pass
    return folder


@pytest.mark.parametrize("words, why", [
    ([], "needs --dir"),
    (["--racks", "0"], "--racks 0: must be a number from 1 to 500"),
    (["--racks", "6", "--nodes", "3"], "too few"),
    (["--racks", "3", "--disks", "1", "--encoding", "rs:4+2"], "needs 6 disks, and there are 3"),
    (["--racks", "2", "--disks", "3", "--encoding", "rs:4+2"], "loss of 2 chunks; 6 in 2 racks put 3 into one"),
    (["--racks", "2", "--pools", "2+1", "--disks", "9", "--encoding", "mlec:2+1/2+1"],
     "loss of 1 columns; 3 in 2 racks put 2 into one"),
    (["--encoding", "rs:banana"], "rs:banana"),
    (["--scheme", "c/c"], "--pools"),
    (["--repair", "r_all"], "--pools"),
    (["--pools", "2+1", "--repair", "all"], "r_all r_fco r_hyb r_min"),
    (["--pools", "2+1", "--scheme", "x/y"], "c/c c/d c/s d/c d/d d/s"),
    (["--pools", "2+1", "--disks", "4"], "multiple of 3"),
    (["--pools", "12+3", "--scheme", "c/s"], "needs 225 disks in each node"),
    (["--pools", "4+2", "--encoding", "rs:4+2"], "mlec:K+P/4+2"),
    (["--emulate", "floppy"], "--emulate floppy: must be hdd, sata, nvme or none"),
    (["--threads", "0"], "--threads 0: must be a number from 1 to 256, or auto"),
    (["--threads", "257"], "--threads 257: must be a number from 1 to 256, or auto"),
    (["--threads", "some"], "--threads some: must be a number from 1 to 256, or auto"),
    (["--metadata", "paper"], "rocksdb or rados:CONF"),
    (["--metadata", "rados:/no/such.conf"], "path of a ceph.conf that exists"),
])
def test_impossible_shapes_are_refused_with_the_reason(tmp_path, words, why):
    folder = [] if not words else ["--dir", tmp_path / "box"]
    done = run("up", *folder, *words)
    assert done.returncode == 2 and why in done.stderr
    assert not (tmp_path / "box" / "disks").exists()


def test_up_refuses_a_folder_with_other_files(tmp_path):
    (tmp_path / "thesis.tex").write_text("the only copy")
    done = run("up", "--dir", tmp_path)
    assert done.returncode == 1 and "not empty" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_role_that_dies_while_it_starts_is_shown_with_its_log(made_box):
    config = made_box / "conf" / "node-2.ini"
    good = config.read_text()
    try:
        config.write_text(good.replace("[disks]", "[disks]\nfrobnicate = 1"))
        for mode in ([], ["--procs"]):
            done = run("up", "--dir", made_box, *mode)
            assert done.returncode == 1 and "frobnicate" in done.stderr
            run("down", "--dir", made_box)
    finally:
        config.write_text(good)
    with Box(made_box) as box:
        assert box.json("status")["well"]


def test_a_restart_never_formats(made_box):
    """A disk whose folder was emptied is reported as failed, not silently formatted."""
    disk = made_box / "disks" / "node-3" / "1"
    aside = made_box / "aside"
    disk.rename(aside)
    disk.mkdir()
    try:
        with Box(made_box) as box:
            await_true("that the map has it as failed",
                       lambda: box.json("status", ok=False)["disk_states"]["failed"] == 1)
            assert not box.json("status", ok=False)["well"]
            assert not list(disk.iterdir())
    finally:
        disk.rmdir()
        aside.rename(disk)


def test_status_reports_a_node_that_died_and_exits_with_1(tmp_path):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1, "--procs") as box:
        assert box("status").returncode == 0
        box.kill("node-1")
        await_true("that node-1 is suspect",
                   lambda: box.json("status", ok=False)["node_states"]["suspect"] == 1)
        done = box("status", ok=False)
        assert done.returncode == 1 and "suspect" in done.stdout
        assert [n["state"] for n in box.json("node", "list")] == ["suspect", "online", "online"]
        box.up()
        await_true("that it is back", lambda: box.json("status", ok=False)["well"])


def test_disks_are_drained_failed_and_brought_back(tmp_path):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 2) as box:
        def state(disk):
            return {d["id"]: d["state"] for d in box.json("disk", "list")}[disk]
        box("disk", "drain", 1001)
        assert state(1001) == "draining"
        box("disk", "online", 1001)
        assert state(1001) == "online"
        box("disk", "fail", 2002)
        await_true("that 2002 is failed", lambda: state(2002) == "failed")
        box("disk", "online", 2002)
        await_true("that 2002 is online", lambda: state(2002) == "online")
        node = box.json("node", "list")[0]["id"]
        assert box("node", "drain", node).stdout.split() == ["draining"]
        assert box("node", "online", node).stdout.split() == ["online"]
        assert "no node 77" in box("node", "drain", 77, ok=False).stderr
        done = box("disk", "drain", 77, ok=False)
        assert done.returncode == 1 and "no disk 77" in done.stderr


def test_a_drive_is_replaced_and_its_chunks_are_rebuilt(tmp_path):
    write_tree(tmp_path / "in", TREE)
    with Box(tmp_path / "box", "--racks", 6, "--disks", 1, "--procs") as box:
        box("put", "-q", "--block", "64KiB", tmp_path / "in", "/data")
        done = box("disk", "replace", 3001, ok=False)
        assert done.returncode == 1 and "is online" in done.stderr
        box("disk", "fail", 3001)
        await_true("that 3001 is failed",
                   lambda: {d["id"]: d["state"] for d in box.json("disk", "list")}[3001] == "failed")
        disk = box.folder / "disks" / "node-3" / "1"
        shutil.rmtree(disk)
        done = box("disk", "replace", 3001, ok=False)
        assert done.returncode == 1 and "must exist and be empty" in done.stderr
        disk.mkdir()
        box("disk", "replace", 3001)
        await_true("that 3001 is online",
                   lambda: {d["id"]: d["state"] for d in box.json("disk", "list")}[3001] == "online")
        # Without any read, the janitor notices that the drive is another one.
        await_true("that it holds something again", lambda: any(p.is_file() for p in disk.glob("chunks/*/*")))
        await_true("full health", lambda: box.json("fsck", "-q", ok=False)["degraded"] == 0)
        check = box.json("fsck", "--deep")
        assert check["lost"] == 0 and check["missing"] == 0 and check["degraded"] == 0 and check["blocks"] > 0, check
        box("get", "-q", "/data", tmp_path / "out")
        same_tree(tmp_path / "in", tmp_path / "out")
        box("put", "-q", tmp_path / "in" / "top", "/after")


@pytest.fixture
def mute():
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_cluster_file_that_points_nowhere_is_an_error_that_names_the_address(tmp_path, mute):
    commands = (["ls"], ["status"], ["disk", "list"], ["fsck"], ["put", __file__, "/x"])

    def ask(words, address):
        file = tmp_path / f"{words[0]}-{address}.ini"
        file.write_text(f"[cluster]\nmetadata = {address}\n")
        done = run(words[0], "-c", file, *words[1:])
        assert done.returncode == 1 and address in done.stderr

    # No server listens; the host is unreachable (or the network refuses); the server never answers.
    for address in ("127.0.0.1:9", "10.255.255.1:7000", f"127.0.0.1:{mute}"):
        with ThreadPoolExecutor(len(commands)) as pool:
            for done in [pool.submit(ask, words, address) for words in commands]:
                done.result()
    for words in commands:
        done = run(words[0], "-c", tmp_path / "nothing.ini", *words[1:])
        assert done.returncode == 1 and "does not exist" in done.stderr


def test_up_restarts_any_number_of_processes_that_die_while_it_waits(tmp_path):
    """As after a kill of all processes of which some take longer to end."""
    with Box(tmp_path / "box", "--racks", 3, "--nodes", 6, "--disks", 1, "--procs") as box:
        nodes = [f"node-{i}" for i in range(1, 7)]
        before = box.pids()
        for node in nodes:
            os.kill(before[node], signal.SIGSTOP)
        with subprocess.Popen([TERRANE, "up", "--dir", box.folder, "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as up:
            for node in nodes:
                os.kill(before[node], signal.SIGKILL)
                await_true(f"a new {node}", lambda node=node: box.pids()[node] != before[node] or up.poll() is not None)
            out, error = up.communicate(timeout=120)
        assert up.returncode == 0, error
        assert json.loads(out)["seconds"] > 0
        after = box.pids()
        assert all(after[node] != before[node] and lives(after[node]) for node in nodes)
        assert after["meta"] == before["meta"]


def test_up_does_not_wait_for_a_node_that_was_removed(tmp_path):
    with Box(tmp_path / "box", "--racks", 4, "--disks", 1) as box:
        box("node", "remove", 4)
        box.down()
        box.up()
        states = {n["id"]: n["state"] for n in box.json("node", "list")}
        assert states[4] == "gone" and states[1] == states[2] == states[3] == "online"


def test_metadata_in_one_process_serves_until_all_other_roles_have_ended(tmp_path):
    """Janitors give their leases back when they end. Without metadata they would wait for it in vain, and the next
    start for the leases to end."""
    with Box(tmp_path / "box", "--racks", 3) as box:
        await_true("a round of collection",
                   lambda: box.metrics("janitor").get("terrane_janitor_collect_rounds_total", 0) > 0)
    log = (tmp_path / "box" / "log" / "box.log").read_text()
    address = re.search(r"meta_ready addr=(\S+)", log)[1]
    assert "meta_stopping" in log and f"rpc_goodbye peer={address} " not in log


def test_down_kills_a_process_that_does_not_stop(tmp_path):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1, "--procs") as box:
        pid = box.pids()["node-3"]
        os.kill(pid, signal.SIGSTOP)
        done = run("down", "--dir", box.folder, "--patience", 1)
        assert done.returncode == 0 and not lives(pid)


def test_meta_check_of_a_box_that_is_down(tmp_path):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1) as box:
        assert box("mkdir", "/d").returncode == 0
        refused = run("meta", "check", "--dir", box.folder)
        assert refused.returncode == 1 and "another process serves it" in refused.stderr
        box.down()
        done = run("meta", "check", "--dir", box.folder, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["errors"] == 0 and found["entries"] == 1
        box.up()
        assert box("ls", "/").stdout.split() == ["d/"]


def test_down_without_a_box_is_refused_with_the_reason(tmp_path):
    done = run("down", "--dir", tmp_path)
    assert done.returncode == 1 and "no cluster" in done.stderr


SCHEMES = ["c/c", "c/d", "c/s", "d/c", "d/d", "d/s"]


def restart_without(box, gone):
    """Kills node-1 and starts it without some members of its pool."""
    box.kill("node-1")
    for folder in gone:
        folder.rename(folder.with_name(f"{folder.name}.gone"))
    box.up()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_all_mlec_schemes_store_and_read_back_with_a_pool_gone_and_a_member_gone(tmp_path, scheme):
    write_tree(tmp_path / "in", TREE)

    def all_reads(where):
        box("get", "-q", "/data", tmp_path / where)
        same_tree(tmp_path / "in", tmp_path / where)
        box("get", "-q", "/again", tmp_path / f"{where}-again")
        assert (tmp_path / f"{where}-again").read_bytes() == (tmp_path / "in" / "b" / "c" / "large").read_bytes()

    def rows_of(*folders):
        """Names of the rows on drives of the pool of node-1, without the pool's record."""
        return [p.name for p in box.chunks(1) if p.parents[2] in folders and p.name[:16] != 16 * "f"]

    def all_whole():
        """Returns whether each chunk in the pool has its three rows."""
        drives = [p for p in (box.folder / "disks" / "node-1").iterdir() if p.suffix != ".gone"]
        return set(Counter(row[:-2] for row in rows_of(*drives)).values()) == {3}

    with Box(tmp_path / "box", "--racks", 3, "--pools", "2+1", "--scheme", scheme, "--procs") as box:
        disks = box.json("disk", "list")
        assert all(d["pool"] and d["code"] == "2+1" for d in disks)
        box("put", "-q", tmp_path / "in", "/data")
        box("put", "-q", tmp_path / "in" / "b" / "c" / "large", "/again", "--block", "64KiB")
        # A node keeps its files open: only after a restart it cannot read the deleted ones.
        members = [box.folder / "disks" / "node-1" / str(i) for i in (1, 2)]
        await_true("that no put goes on that a quorum did not need", all_whole)
        assert rows_of(members[0])
        restart_without(box, members[:1])  # a row of local stripes
        box.kill("node-2")  # a column of every stripe
        all_reads("out1")

        # An empty drive replaces the member: the pool rebuilds its rows from its own bytes.
        pool = [d["id"] for d in disks if d["node"] == 1][0]
        members[0].mkdir()
        done = box("node", "format", "--config", "conf/node-1.ini", cwd=box.folder, ok=False)
        assert "disk_formatted disk=1001" in done.stderr  # the other members are in use
        box("disk", "replace", pool, 0)
        await_true("all its rows to be rebuilt", all_whole, seconds=150)  # includes a second attempt
        await_true("the end of the rebuild",
                   lambda: box.metrics("node-1")[f'terrane_pool_rebuilding{{disk="{pool}"}}'] == 0)
        assert box.metrics("node-1")[f'terrane_pool_rebuilt_rows_total{{disk="{pool}"}}'] > 0
        restart_without(box, members[1:])  # another row: reads need the rebuilt ones
        box.kill("node-2")
        all_reads("out2")


def test_help_and_completion_know_every_command():
    listed = run("help").stdout
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ")]
    assert {"up", "put", "fsck", "disk", "bench"} <= set(names)
    for name in names:
        done = run("help", name)
        assert done.returncode == 0 and name in done.stdout, name
        human = re.search("^ +-h, --human", done.stdout, re.MULTILINE) is not None
        for option in ["--help"] if human else ["--help", "-h"]:
            asked = run(name, option)
            assert asked.returncode == 0 and asked.stdout == done.stdout and not asked.stderr, (name, option)
    for words in (["up", "--dir", "x", "-h"], ["durability", "nines", "-h"], ["code", "explain", "-h"]):
        assert run(*words).returncode == 0, words


def test_version_is_text_or_json_and_takes_nothing_else():
    version = json.loads(run("version", "--json").stdout)["version"]
    assert run("version").stdout == run("--version").stdout == f"terrane {version}\n"
    for words in (["--frob"], ["--json", "more"], ["more"]):
        assert run("version", *words).returncode == 2


def complete(*words):
    """The completions that bash offers for the last word in an empty folder, in which no file is offered."""
    script = run("completion", "bash").stdout
    typed = " ".join(f"'{word}'" for word in ("terrane", *words))
    probe = f"PATH={TERRANE.parent}:$PATH; COMP_WORDS=({typed}) COMP_CWORD={len(words)}; _terrane; echo ${{COMPREPLY[@]}}"
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(["bash", "-c", script + "\n" + probe], capture_output=True, text=True, check=True, cwd=empty)
    assert not done.stderr
    return done.stdout.split()


def test_bash_completes_commands_options_and_values():
    assert complete("pu") == ["put"]
    assert complete("help", "fsc") == ["fsck"]
    assert complete("put", "--enc") == ["--encoding"]
    assert complete("up", "--emulate", "n") == ["nvme", "none"]
    assert complete("up", "--sch") == ["--scheme"]
    assert complete("up", "--scheme", "d/") == ["d/c", "d/d", "d/s"]
    assert complete("up", "--repair", "r_") == ["r_all", "r_fco", "r_hyb", "r_min"]
    assert complete("disk", "re") == ["remove", "replace", "rebuild"]
    assert complete("node", "d") == ["drain"]
    assert complete("bench", "f") == ["files", "fetch"]
    assert complete("fsck", "--d") == ["--deep", "--dir"]
    for name in complete(""):
        words = complete(name, "")
        assert words or name == "box", name  # whose argument is a file
        if name != "help":  # every offered command exists
            told = run("help", name).stdout
            assert [w for w in words if w != "--help" and not re.search(rf"(?<![\w-]){w}\b", told)] == [], name


def test_up_suggests_commands_with_the_name_it_was_called_by(tmp_path):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 1):
        told = run("up", "--dir", tmp_path / "box").stdout
        assert f"  {TERRANE} status " in told
        done = subprocess.run(["terrane", "up", "--dir", tmp_path / "box"], capture_output=True, text=True, check=True,
                              env={**os.environ, "PATH": f"{TERRANE.parent}:{os.environ['PATH']}"})
        assert "  terrane status " in done.stdout


@pytest.mark.parametrize("shape, part", [(["--nodes", 6, "--disks", 2], 1),
                                         (["--disks", 6, "--pools", "2+1"], 2 / 3)])
def test_the_space_of_the_filesystem_is_counted_once(tmp_path, shape, part):
    with Box(tmp_path / "box", "--racks", 3, *shape) as box:
        await_true("that nodes tell what is used", lambda: all(d["used_bytes"] > 0 for d in box.json("disk", "list")))
        there = os.statvfs(tmp_path)
        size, taken = there.f_blocks * there.f_frsize, (there.f_blocks - there.f_bavail) * there.f_frsize
        status = box.json("status")
        assert 0.99 * part * size < status["capacity_bytes"] <= part * size
        # Other programs write to it at the same time, and the node keeps some space free.
        assert abs(status["used_bytes"] - part * taken) < 0.05 * size + GIB


def test_json_of_status_is_complete(tmp_path):
    with Box(tmp_path / "box", "--racks", 3, "--nodes", 6, "--disks", 1, "--emulate", "nvme") as box:
        status = json.loads(box("status", "--json").stdout)
        assert status["racks"] == 3 and len(status["nodes"]) == 6 and len(status["disks"]) == 6
        assert sorted({n["rack"] for n in status["nodes"]}) == ["rack-1", "rack-2", "rack-3"]
        (tmp_path / "f").write_bytes(some_bytes(1, 100000))
        box("put", "-q", tmp_path / "f", "/f")
