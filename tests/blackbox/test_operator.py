# SPDX-License-Identifier: Apache-2.0
"""What a new user and an operator do in their first days: things that must be undone, waited for and seen."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from box import BUILD, KIB, Box, await_true, lives, run, same_tree, write_tree

TREE = {"top": 100 * KIB, "a/one": 3 * KIB, "a/b/two": 70 * KIB}


@pytest.fixture(scope="module", name="box")
def a_box(tmp_path_factory):
    """A box as `terrane up` makes it without options, but with two disks per node and few nodes."""
    with Box(tmp_path_factory.mktemp("operator") / "box", "--racks", 4, "--disks", 2, "--encoding", "r2",
             "--procs") as box:
        yield box


def names(box, path):
    return [line.split('"name":"')[1].split('"')[0] for line in box("ls", "-R", "--json", path).stdout.splitlines()]


# ---- sealing


def test_a_sealed_tree_is_removed_completely_or_not_at_all(box, tmp_path):
    write_tree(tmp_path / "in", TREE)
    box("put", "-q", tmp_path / "in", "/tree")
    box("seal", "/tree/a/b")
    assert box.json("stat", "/tree/a/b")["sealed"] and not box.json("stat", "/tree/a")["sealed"]
    before = names(box, "/tree")
    for words in (["-r", "/tree"], ["-r", "/tree/a"], ["-r", "/tree/a/b"], ["/tree/a/b/two"], ["-rf", "/tree/a/b/two"]):
        done = box("rm", *words, ok=False)
        assert done.returncode == 1 and "/tree/a/b" in done.stderr and "is sealed" in done.stderr, done.stderr
        assert "nothing was removed" in done.stderr and len(done.stderr.splitlines()) == 1
        assert names(box, "/tree") == before
    box("unseal", "/tree/a/b")
    box("rm", "/tree/a/b/two")
    box("put", "-q", tmp_path / "in" / "top", "/tree/a/b/new")
    box("seal", "-R", "/tree")
    for path in ("/tree", "/tree/a", "/tree/a/b"):
        assert box.json("stat", path)["sealed"], path
        assert box("mkdir", path + "/x", ok=False).returncode == 1
    assert box("unseal", "/tree/top", ok=False).returncode == 1  # a file stays sealed
    box("unseal", "-R", "/tree")
    box("mkdir", "/tree/a/b/x")
    box("seal", "-R", "/tree")
    box("rm", "-r", "--unseal", "/tree")
    assert box("ls", "/tree", ok=False).returncode == 1


def test_the_root_is_sealed_only_by_force_and_unsealed_again(box):
    done = box("seal", "/", ok=False)
    assert done.returncode == 2 and "--force" in done.stderr and "unseal /" in done.stderr
    box("mkdir", "/still")
    box("seal", "--force", "/")
    assert box("mkdir", "/no", ok=False).returncode == 1
    box("unseal", "/")
    box("rm", "/still")


# ---- tenants and deleted space


def test_a_tenant_is_removed_with_everything_in_it(box, tmp_path):
    write_tree(tmp_path / "in", TREE)
    box("tenant", "create", "gone")
    box("put", "-q", "-t", "gone", tmp_path / "in", "/tree")
    box("seal", "-t", "gone", "-R", "-f", "/")
    done = box("tenant", "remove", "gone", ok=False)
    assert done.returncode == 1 and "--recursive" in done.stderr
    box("tenant", "remove", "gone", "--recursive")
    assert "gone" not in [t["name"] for t in box.json("tenant", "list")]
    assert box("tenant", "quota", "gone", "1MiB", ok=False).returncode == 1
    assert box("tenant", "remove", "gone", ok=False).returncode == 1
    assert box("put", "-q", "-t", "gone", tmp_path / "in" / "top", "/x", ok=False).returncode == 1
    assert "was removed" in box("tenant", "create", "gone", ok=False).stderr
    box("tenant", "create", "other")
    box("put", "-q", "-t", "other", tmp_path / "in" / "top", "/x")


def tells_of_deleted_files(box, bytes_min):
    """The commands about space all tell of the deleted files of the tenant "small", which no other tenant has."""
    du = json.loads(box("du", "-t", "small", "--json").stdout)
    assert du["waiting_bytes"] >= bytes_min and du["bytes"] == 4 << 20
    assert "of deleted files" in box("du", "-t", "small", "/").stdout.splitlines()[1]
    assert "waiting_bytes" not in json.loads(box("du", "-t", "small", "/c", "--json").stdout)
    assert len(box("du", "-t", "small", "/c").stdout.splitlines()) == 1
    assert box.json("status", ok=False)["waiting_bytes"] >= bytes_min
    assert "  deleted  " in box("status", ok=False).stdout
    assert box.json("df")["waiting_bytes"] >= bytes_min and "of deleted files" in box("df").stdout.splitlines()[-1]


def test_deleted_files_do_not_count_for_the_quota(box, tmp_path):
    write_tree(tmp_path / "in", {f"f{i}": 1 << 20 for i in range(4)})
    box("tenant", "create", "small", "--quota", "5MiB")
    box("put", "-q", "-t", "small", tmp_path / "in", "/a")
    done = box("put", "-q", "-t", "small", tmp_path / "in", "/b", ok=False)
    assert done.returncode == 1 and "Nothing was stored" in done.stderr and "may still count" in done.stderr
    # --resume leaves the check to the metadata, because some of the files may be there.
    done = box("put", "-q", "-t", "small", "--resume", tmp_path / "in", "/b", ok=False)
    assert done.returncode == 1 and "over its quota" in done.stderr and "of 5242880 bytes" in done.stderr
    assert "without 0 bytes of deleted files" in done.stderr
    box("rm", "-r", "-t", "small", "/a", "/b")
    tenant = lambda: {t["name"]: t for t in box.json("tenant", "list")}["small"]
    await_true("that nothing counts", lambda: tenant()["used_bytes"] == 0)
    assert tenant()["waiting_bytes"] >= 4 << 20
    assert box.json("gc", "status")["waiting_bytes"] >= 4 << 20
    box("put", "-q", "-t", "small", tmp_path / "in", "/c")
    tells_of_deleted_files(box, 4 << 20)
    assert box.json("gc", "now")["epochs_left"] == 9 and "are left" in box("gc", "status").stdout


def test_df_adds_up_the_disks_of_each_media(tmp_path):
    with Box(tmp_path / "box", "--racks", 3, "--disks", 2, "--flash", 1, "--encoding", "r2") as box:
        await_true("that nodes tell what is used", lambda: all(d["used_bytes"] > 0 for d in box.json("disk", "list")))
        told = box.json("df")
        assert [(m["media"], m["disks"]) for m in told["media"]] == [("disk", 3), ("flash", 3)]
        for key in ("disks", "size_bytes", "used_bytes", "free_bytes"):
            assert told["all"][key] == sum(m[key] for m in told["media"]), key
        for sums in told["media"]:
            assert sums["used_bytes"] + sums["free_bytes"] == sums["size_bytes"] > 0
        assert told["waiting_bytes"] == 0
        assert told["all"]["size_bytes"] == box.json("status", ok=False)["capacity_bytes"]
        lines = box("df").stdout.splitlines()
        assert lines[1].split()[:3] == ["disk", "3", str(told["media"][0]["size_bytes"])]
        assert lines[3].split()[:2] == ["all", "6"] and lines[4].startswith("0 bytes of deleted files")
        human = box("df", "-h").stdout.splitlines()
        assert human[3].split()[3] in ("KiB", "MiB", "GiB", "TiB") and human[4].startswith("0 B of deleted files")
        # No new chunk goes to a disk that is drained, so its space is not free.
        disk = min(d["id"] for d in box.json("disk", "list") if d["media"] == "disk")
        box("disk", "drain", disk)
        now = box.json("df")["media"][0]
        assert now["size_bytes"] == told["media"][0]["size_bytes"]
        assert now["used_bytes"] + now["free_bytes"] < now["size_bytes"]
        assert run("df", "--help").stdout.startswith("usage: terrane df")
        assert box("df", "more", ok=False).returncode == 2


# ---- processes


def test_sighup_reopens_the_logs_and_reads_the_level_again(box):
    for name, conf in (("node-1", "node-1"), ("janitor", "janitor"), ("meta", "meta")):
        pid, log = box.pids()[name], box.folder / "log" / f"{name}.log"
        conf = box.folder / "conf" / f"{conf}.ini"
        settings = conf.read_text()
        conf.write_text(settings + "\n[log]\nlevel = debug\n")
        old = log.rename(log.with_suffix(".old"))
        os.kill(pid, signal.SIGHUP)
        await_true("a new log", lambda log=log: log.exists() and "settings_reloaded" in log.read_text())
        assert "log_reopened" in log.read_text()
        conf.write_text(settings + "\n[log]\nlevel = nonsense\n")
        os.kill(pid, signal.SIGHUP)
        await_true("the refusal", lambda log=log: "settings_not_reloaded" in log.read_text())
        conf.write_text(settings)
        os.kill(pid, signal.SIGHUP)
        assert lives(pid) and "log_reopened" not in old.read_text()
    box("ls", "/")


def test_a_drive_is_replaced_beside_a_disk_that_is_in_use(box, tmp_path):
    write_tree(tmp_path / "in", TREE)
    box("put", "-q", tmp_path / "in", "/drives")
    box("disk", "fail", 3001)
    states = lambda: {d["id"]: d["state"] for d in box.json("disk", "list")}
    await_true("that 3001 is failed", lambda: states()[3001] == "failed")
    folder = box.folder / "disks" / "node-3" / "1"
    shutil.rmtree(folder)
    folder.mkdir()
    box("disk", "replace", 3001)
    await_true("that 3001 is online", lambda: states()[3001] == "online")
    assert states()[3002] == "online"
    await_true("full health", lambda: box.json("fsck", "-q", ok=False)["degraded"] == 0)
    box("get", "-q", "/drives", tmp_path / "out")
    same_tree(tmp_path / "in", tmp_path / "out")
    done = subprocess.run([BUILD / "terrane", "node", "format", "77", "--config",
                           box.folder / "conf" / "node-3.ini"], capture_output=True, text=True, check=False,
                          cwd=box.folder, timeout=60)
    assert done.returncode == 1 and "no disk 77" in done.stderr


def test_status_names_a_cluster_without_a_janitor(box):
    await_true("health", lambda: box("status", ok=False).returncode == 0)
    pid = box.pids()["janitor"]
    os.kill(pid, signal.SIGTERM)
    await_true("the end of the janitor", lambda: not lives(pid))
    done = box("status", ok=False)
    assert done.returncode == 1 and "no janitor is at work" in done.stdout.splitlines()[0]
    assert box.json("status", ok=False)["well"] is False
    box.up()
    await_true("health", lambda: box("status", ok=False).returncode == 0)


def test_the_metric_of_files_follows_what_is_stored(box, tmp_path):
    write_tree(tmp_path / "in", {f"f{i}": 10 for i in range(40)})
    box("put", "-q", tmp_path / "in", "/forty")
    want = len([n for n in names(box, "/") if "." not in n])
    assert want >= 40
    metric = 'terrane_tenant_files{tenant="default"}'
    await_true("the count", lambda: box.metrics("janitor").get(metric, 0) >= 40)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_demo_that_is_stopped_leaves_nothing(tmp_path, number):
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    demo = subprocess.Popen([sys.executable, "-B", BUILD.parent / "scripts" / "demo.py"], env=env,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    await_true("a process of its cluster", lambda: list(tmp_path.glob("terrane-demo-*/cluster/run/*.pid")))
    await_true("all processes", lambda: len(list(tmp_path.glob("terrane-demo-*/cluster/run/*.pid"))) == 9)
    pids = [int(p.read_text()) for p in tmp_path.glob("terrane-demo-*/cluster/run/*.pid")]
    demo.send_signal(number)
    assert demo.wait(timeout=120) == 128 + number
    demo.stdout.close()
    await_true("the end of its processes", lambda: not [p for p in pids if lives(p)])
    assert not list(tmp_path.glob("terrane-demo-*"))
