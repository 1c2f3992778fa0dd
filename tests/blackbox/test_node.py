# SPDX-License-Identifier: Apache-2.0
"""The storage node as a real process: killed, with removed and swapped disks, its metrics, malformed requests."""
import json
import os
import random
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from box import await_true

BUILD = Path(__file__).resolve().parents[2] / "build"
TERRANE = BUILD / "terrane"
SEED = 11
CLUSTER = "00000000000000010000000000000002"


def run(*args, timeout=120, **kwargs):
    return subprocess.run([TERRANE, *map(str, args)], capture_output=True, timeout=timeout,
                          check=False, **kwargs)


class Node:
    """A node with two disks, a declustered pool of five and a clustered one with a spare."""

    def __init__(self, folder, format_disks=True, extra=""):
        self.folder = folder
        self.config = folder / "node.ini"
        self.addr = f"unix:{folder}/socket"
        self.process = None
        self.metrics = None
        names = ["d1", "d2", *(f"m{i}" for i in range(5)), *(f"c{i}" for i in range(3)), "s0"]
        for name in names:
            (folder / name).mkdir(exist_ok=True)
        members = "\n".join(
            [f"member = 10 {100 + i} {folder}/m{i}" for i in range(5)] +
            [f"member = 11 {110 + i} {folder}/c{i}" for i in range(3)])
        self.config.write_text(f"""
[node]
cluster = {CLUSTER}
id = 3
listen = {self.addr}
metrics = 127.0.0.1:0
memory = 256MiB
[disks]
disk = 1 {folder}/d1
disk = 2 {folder}/d2
pool = 10 2+1 declustered
pool = 11 2+1 clustered
{members}
spare = 11 119 {folder}/s0
format = {"true" if format_disks else "false"}
keep_free = 0
kind = nvme
probe = 100ms
give_up = 300ms
{extra}
""")

    def start(self):
        self.process = subprocess.Popen([TERRANE, "node", "--config", self.config, "--json"],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        self.metrics = "http://" + json.loads(line)["metrics"]
        return self

    def end(self, sig):
        self.process.send_signal(sig)
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end(signal.SIGKILL)

    def chunk(self, command, disk, *args, **kwargs):
        return run("chunk", command, *args, "--node", self.addr, "--disk", disk, **kwargs)

    def disk(self, command, disk, *args, **kwargs):
        return run("disk", command, *args, "--node", self.addr, "--disk", disk, **kwargs)

    def info(self, disk):
        done = self.disk("list", disk, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["disks"][0]

    def wait(self, disk, wanted, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            info = self.info(disk)
            if wanted(info):
                return info
            time.sleep(0.05)
        raise AssertionError(f"disk {disk} never gets there: {info}")

    def scrape(self, path="/metrics"):
        with urllib.request.urlopen(self.metrics + path, timeout=60) as answer:
            return answer.read().decode()


@pytest.fixture(name="node")
def running_node(tmp_path):
    with Node(tmp_path) as node:
        yield node


def content(size, seed=SEED):
    return random.Random(seed).randbytes(size)


def test_chunks_round_trip(node, tmp_path):
    data = content(3_000_001)
    (tmp_path / "data").write_bytes(data)
    for disk in (1, 10, 11):
        assert node.chunk("put", disk, "7:1", tmp_path / "data").returncode == 0
        assert node.chunk("get", disk, "7:1").stdout == data
        assert node.chunk("get", disk, "7:1", "--offset", 5000, "--length", 100000).stdout \
            == data[5000:105000]
        stat = json.loads(node.chunk("stat", disk, "7:1", "--json").stdout)
        assert stat["length"] == len(data) and stat["sealed"]
        assert node.chunk("scan", disk, "7:1").stdout == b"undamaged\n"
        assert node.chunk("list", disk).stdout == b"7:1\n"
    again = node.chunk("put", 1, "7:1", tmp_path / "data")
    assert again.returncode == 1 and b"EEXIST" in again.stderr
    assert node.chunk("delete", 1, "7:1").returncode == 0
    assert b"ENOENT" in node.chunk("get", 1, "7:1").stderr


def test_ids_of_chunks_have_all_64_bits(node):
    top = (1 << 64) - 1
    assert node.chunk("put", 1, f"{top}:3", input=b"abc").returncode == 0
    assert f"{top}:3\n".encode() in node.chunk("list", 1).stdout
    assert node.chunk("get", 1, f"{top}:3").stdout == b"abc"
    for wrong in (f"{top + 1}:3", "-1:3", ":3", "1:", "0x7:3"):
        assert node.chunk("get", 1, wrong).returncode == 2, wrong
    assert node.chunk("delete", 1, f"{top}:3").returncode == 0


def test_an_open_chunk_grows_is_fenced_and_sealed(node):
    assert node.chunk("put", 1, "8:0", "--open", "--capacity", "1MiB", input=b"abc").returncode == 0
    assert node.chunk("append", 1, "8:0", "--offset", 3, input=b"def").returncode == 0
    assert b"ERANGE" in node.chunk("append", 1, "8:0", "--offset", 3, input=b"x").stderr
    assert node.chunk("fence", 1, "8:0", "--epoch", 5).returncode == 0
    assert b"ESTALE" in node.chunk("append", 1, "8:0", "--offset", 6, "--epoch", 4,
                                   input=b"x").stderr
    assert node.chunk("seal", 1, "8:0", "--epoch", 5, "--length", 5).returncode == 0
    assert node.chunk("get", 1, "8:0").stdout == b"abcde"
    assert b"EPERM" in node.chunk("append", 1, "8:0", "--offset", 5, "--epoch", 5,
                                  input=b"x").stderr


def test_acknowledged_chunks_survive_kill_9(tmp_path):
    rng = random.Random(SEED)
    node = Node(tmp_path)
    kept = {}
    for life in range(4):
        with node:
            for name, data in kept.items():
                disk, chunk = name
                assert node.chunk("get", disk, chunk).stdout == data, (life, name)
            writers = []
            for i in range(8):
                disk = rng.choice((1, 2, 10))
                chunk = f"{life * 100 + i}:{i}"
                data = content(rng.randrange(1, 2_000_000), life * 100 + i)
                path = tmp_path / f"data{i}"
                path.write_bytes(data)
                writers.append(((disk, chunk), data, subprocess.Popen(
                    [TERRANE, "chunk", "put", chunk, path, "--node", node.addr, "--disk",
                     str(disk)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)))
            if life == 0:  # so that at least one is acknowledged, however busy the machine is
                writers[0][2].wait(timeout=120)
            time.sleep(rng.uniform(0, 0.2))
            assert node.end(signal.SIGKILL)[0] == -signal.SIGKILL
            for name, data, process in writers:
                if process.wait(timeout=120) == 0:
                    kept[name] = data
        (tmp_path / "socket").unlink(missing_ok=True)
    assert kept
    with node:
        for (disk, chunk), data in kept.items():
            assert node.chunk("get", disk, chunk).stdout == data
        # A chunk that was not acknowledged is absent or complete.
        for disk in (1, 2, 10):
            for chunk in node.chunk("list", disk).stdout.decode().split():
                assert node.chunk("scan", disk, chunk).returncode == 0


def test_sigterm_ends_cleanly_with_requests_in_flight(node, tmp_path):
    (tmp_path / "data").write_bytes(content(20_000_000))
    writers = [subprocess.Popen([TERRANE, "chunk", "put", f"{i}:0", tmp_path / "data", "--node",
                                 node.addr, "--disk", "1"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL) for i in range(4)]
    code, _, err = node.end(signal.SIGTERM)
    assert code == 0, err
    assert b"node_stopping" in err and b"node_ready" in err
    for writer in writers:
        writer.wait(timeout=120)


def test_a_vanished_folder_fails_its_disk_only(node, tmp_path):
    assert node.chunk("put", 2, "1:1", input=b"hello").returncode == 0
    shutil.move(tmp_path / "d2", tmp_path / "elsewhere")
    node.wait(2, lambda i: i["state"] == "failed")
    # A disk that failed answers EIO until the keeper has seen that its folder is away.
    await_true("that the disk is away", lambda: b"ENODEV" in node.chunk("get", 2, "1:2").stderr)
    assert b"ENODEV" in node.chunk("put", 2, "1:3", input=b"x").stderr
    assert node.chunk("put", 1, "1:1", input=b"still").returncode == 0
    shutil.move(tmp_path / "elsewhere", tmp_path / "d2")
    assert node.disk("online", 2).returncode == 0
    assert node.chunk("get", 2, "1:1").stdout == b"hello"


def test_a_disk_in_the_wrong_slot_is_refused(tmp_path):
    node = Node(tmp_path)
    with node:
        assert node.chunk("put", 1, "1:1", input=b"one").returncode == 0
        assert node.end(signal.SIGTERM)[0] == 0
    (tmp_path / "d1").rename(tmp_path / "x")
    (tmp_path / "d2").rename(tmp_path / "d1")
    (tmp_path / "x").rename(tmp_path / "d2")
    with node:
        assert node.info(1)["trouble"] == "holds disk 2 of node 3, not disk 1"
        assert node.info(2)["trouble"] == "holds disk 1 of node 3, not disk 2"
        assert b"ENODEV" in node.chunk("get", 1, "1:1").stderr
        assert node.chunk("put", 10, "1:1", input=b"others serve").returncode == 0
        assert node.end(signal.SIGTERM)[0] == 0


def test_no_disk_is_formatted_without_a_request(tmp_path):
    (tmp_path / "d2").mkdir()
    (tmp_path / "d2" / "thesis.tex").write_text("all of it")
    node = Node(tmp_path, format_disks=False)
    with node:
        assert node.info(1)["state"] == "failed"
        assert list((tmp_path / "d1").iterdir()) == []
        assert node.end(signal.SIGTERM)[0] == 0
    done = run("node", "format", "--config", node.config)
    assert done.returncode == 1, "one folder is not empty"
    assert b"disk 1: ready" in done.stdout and b"holds other files" in done.stdout
    assert (tmp_path / "d2" / "thesis.tex").read_text() == "all of it"
    with node:
        assert node.info(1)["state"] == "online"
        assert node.info(10)["state"] == "online"
        assert node.info(2)["state"] == "failed"


def test_flipped_bits_are_found(node, tmp_path):
    data = content(500_000)
    (tmp_path / "data").write_bytes(data)
    assert node.chunk("put", 1, "5:5", tmp_path / "data").returncode == 0
    path = next((tmp_path / "d1" / "chunks").rglob("*.00000005"))
    with open(path, "r+b") as f:
        f.seek(16384 + 200_000)
        byte = f.read(1)[0]
        f.seek(16384 + 200_000)
        f.write(bytes([byte ^ 4]))
    assert b"EBADMSG" in node.chunk("get", 1, "5:5").stderr
    scan = node.chunk("scan", 1, "5:5")
    assert scan.returncode == 1 and b"damaged: offset" in scan.stdout
    assert node.chunk("get", 1, "5:5", "--length", 100_000).stdout == data[:100_000]
    assert 'terrane_disk_checksum_errors_total{disk="1"}' in node.scrape()


def test_pools_lose_members_and_repair_themselves(node, tmp_path):
    data = content(200_000)
    (tmp_path / "data").write_bytes(data)
    for i in range(10):
        for disk in (10, 11):
            assert node.chunk("put", disk, f"{i}:0", tmp_path / "data").returncode == 0
    shutil.rmtree(tmp_path / "m1")
    shutil.rmtree(tmp_path / "c1")
    for disk in (10, 11):
        info = node.wait(disk, lambda i: i["pool"]["rebuilds"] > 0 and not i["pool"]["rebuilding"]
                         and i["pool"]["rebuilt_rows"] > 0)
        assert info["pool"]["lost_chunks"] == 0
        for i in range(10):
            assert node.chunk("get", disk, f"{i}:0").stdout == data
    assert node.info(11)["pool"]["down"] == [], "the spare is in its place"
    assert 'terrane_pool_rebuilt_rows_total{disk="10"}' in node.scrape()


def test_a_pool_survives_more_absent_members_than_it_tolerates(node, tmp_path):
    data = content(200_000)
    (tmp_path / "data").write_bytes(data)
    for i in range(10):
        assert node.chunk("put", 10, f"{i}:0", tmp_path / "data").returncode == 0
    node.process.send_signal(signal.SIGSTOP)  # else the first could be given up before the third is away
    for member in ("m0", "m1", "m3"):
        (tmp_path / member).rename(tmp_path / f"{member}.away")
    node.process.send_signal(signal.SIGCONT)
    node.wait(10, lambda i: len(i["pool"]["down"]) == 3)
    time.sleep(1)  # several times [disks] give_up
    assert "given up" not in json.dumps(node.info(10)["pool"]["down"])
    for member in ("m0", "m1", "m3"):
        (tmp_path / f"{member}.away").rename(tmp_path / member)
    node.wait(10, lambda i: i["pool"]["down"] == [] and not i["pool"]["rebuilding"])
    for i in range(10):
        assert node.chunk("get", 10, f"{i}:0").stdout == data


def test_an_unmounted_folder_is_not_formatted_while_the_node_runs(node, tmp_path):
    assert node.chunk("put", 1, "1:1", input=b"kept").returncode == 0
    for name in ("d1", "m1"):
        (tmp_path / name).rename(tmp_path / f"{name}.away")
        (tmp_path / name).mkdir()
    node.wait(1, lambda i: i["state"] == "failed")
    node.wait(10, lambda i: i["pool"]["rebuilds"] > 0 and not i["pool"]["rebuilding"])
    assert node.disk("online", 1).returncode == 1
    for name in ("d1", "m1"):
        assert not list((tmp_path / name).iterdir()), "nothing was made in the mount point"
        (tmp_path / name).rmdir()
        (tmp_path / f"{name}.away").rename(tmp_path / name)
    node.wait(1, lambda i: i["state"] == "online")
    node.wait(10, lambda i: i["pool"]["down"] == [])
    assert node.chunk("get", 1, "1:1").stdout == b"kept"


def test_requests_to_a_stopped_node_time_out(node):
    assert node.chunk("put", 1, "1:1", input=b"x").returncode == 0
    node.process.send_signal(signal.SIGSTOP)
    try:
        done = node.chunk("get", 1, "1:1", "--timeout", "1s")
        assert done.returncode == 1 and b"terrane: cannot get at" in done.stderr and b"ETIME" in done.stderr
    finally:
        node.process.send_signal(signal.SIGCONT)
    assert node.chunk("get", 1, "1:1").stdout == b"x"


def test_metrics_and_health(node):
    assert node.chunk("put", 1, "1:1", input=b"x" * 10000).returncode == 0
    assert len(node.chunk("get", 1, "1:1").stdout) == 10000
    text = node.scrape()
    for name in ("terrane_disk_service_seconds_bucket", "terrane_disk_wait_seconds_count",
                 "terrane_disk_queued", "terrane_disk_time_seconds_total",
                 "terrane_disk_request_errors_total", "terrane_disk_bytes_total",
                 "terrane_rpc_requests_total"):
        assert name in text, name
    for line in text.splitlines():
        assert line.startswith("#") or len(line.rsplit(" ", 1)) == 2
    assert node.scrape("/healthz") == "4 of 4 disks serve\n"
    with pytest.raises(urllib.error.HTTPError) as caught:
        node.scrape("/nothing")
    assert caught.value.code == 404


@pytest.mark.parametrize("line, words", [
    ("disk = 1 /elsewhere", b"number 1 is used twice"),
    ("disk = x /elsewhere", b"number is missing"),
    ("disk = 99", b"folder is missing"),
    ("disk = 99 emulate=tape /elsewhere", b"hdd, sata or nvme"),
    ("disk = 99 media=tape /elsewhere", b"media must be disk or flash"),
    ("media = tape", b"disk, flash"),
    ("pool = 12 2+1 scattered", b"clustered, declustered or single-overlap"),
    ("pool = 12 2 clustered", b"K+P"),
    ("pool = 12 2+1 clustered", b"has 0 members"),
    ("member = 77 500 /elsewhere", b"a pool that is not configured"),
    ("flash = 77 300 1GiB 1MiB /elsewhere", b"no disk or pool of this number"),
    ("flash = 1 300 lots 1MiB /elsewhere", b"size of the cache"),
    ("colour = blue", b"unknown key"),
    ("[node]\nthreads = 0", b"[node] threads = 0: must be a number from 1 to 256, or auto"),
    ("[node]\nthreads = many", b"[node] threads = many: must be a number from 1 to 256, or auto"),
])
def test_a_bad_configuration_is_refused_with_the_reason(tmp_path, line, words):
    node = Node(tmp_path, extra=line)
    done = run("node", "--config", node.config)
    assert done.returncode == 1 and words in done.stderr, done.stderr


def test_config_show_prints_a_file_that_it_accepts(node, tmp_path):
    shown = run("config", "show", "node", "--config", node.config)
    assert shown.returncode == 0, shown.stderr
    (tmp_path / "again.ini").write_bytes(shown.stdout)
    again = run("config", "show", "node", "--config", tmp_path / "again.ini")
    assert again.stdout == shown.stdout
    assert shown.stdout.count(b"\nmember = ") == 8


def test_wrong_use_is_refused_with_the_reason(tmp_path):
    assert run("node").returncode == 2
    assert run("node", "--config", tmp_path / "none").returncode == 1
    assert run("node", "dance", "--config", "x").returncode == 2
    assert run("chunk", "put", "7", "--disk", "1").returncode == 2
    assert run("chunk", "get", "7:1").returncode == 2
    assert run("chunk", "polish", "7:1", "--disk", "1").returncode == 2
    assert run("disk").returncode == 2
    refused = run("chunk", "get", "7:1", "--disk", "1", "--node", f"unix:{tmp_path}/none")
    assert refused.returncode == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_read_only_disk_is_read_and_comes_back(tmp_path):
    mount = tmp_path / "d1"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", mount], check=False,
                      capture_output=True).returncode != 0:
        pytest.skip("cannot mount here")
    try:
        node = Node(tmp_path)
        with node:
            assert node.chunk("put", 1, "1:1", input=b"before").returncode == 0
            assert node.end(signal.SIGTERM)[0] == 0
        subprocess.run(["mount", "-o", "remount,ro", mount], check=True)
        with node:
            assert node.chunk("get", 1, "1:1").stdout == b"before"
            assert b"EROFS" in node.chunk("put", 1, "1:2", input=b"x").stderr
            node.wait(1, lambda i: i["state"] in ("suspect", "failed"))
            assert node.chunk("put", 2, "1:2", input=b"others serve").returncode == 0
            subprocess.run(["mount", "-o", "remount,rw", mount], check=True)
            node.disk("online", 1)
            node.wait(1, lambda i: i["state"] == "online")
            assert node.chunk("put", 1, "1:2", input=b"after").returncode == 0
            assert node.end(signal.SIGTERM)[0] == 0
    finally:
        subprocess.run(["umount", "-l", mount], check=False)
