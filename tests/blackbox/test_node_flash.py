# SPDX-License-Identifier: Apache-2.0
"""The hot-chunk cache of storage nodes: `terrane up --node-flash`, kill -9, rot, and wrong sizes."""
import re

from box import KIB, MIB, Box, await_true, run, some_bytes

SIZE, SEGMENT = 16 * MIB, 64 * KIB


def flash(box, name):
    """The sum of a metric over all caches of node 1."""
    return sum(v for k, v in box.metrics("node-1").items() if k.startswith(f"terrane_flash_{name}{{"))


def read_until(box, tmp_path, what, condition):
    """Reads the file again and again, and compares it, until the condition holds."""
    def attempt():
        box("get", "-q", "/f", tmp_path / "out")
        same = (tmp_path / "out").read_bytes() == (tmp_path / "f").read_bytes()
        (tmp_path / "out").unlink()
        assert same
        return condition()
    await_true(what, attempt)


def rot(path):
    """Flips a bit in every segment, and in no footer (src/cache/region.h)."""
    data = bytearray(path.read_bytes())
    for region in range(4096, len(data), 8 * SEGMENT + 4096):
        for segment in range(8):
            data[region + segment * SEGMENT + 777] ^= 8
    path.write_bytes(data)


def test_hot_chunks_come_from_flash_after_kill_9_and_never_rotten(tmp_path):
    (tmp_path / "f").write_bytes(some_bytes(3, SIZE))
    with Box(tmp_path / "box", "--nodes", 1, "--disks", 1, "--encoding", "r1", "--node-flash", "64MiB",
             "--procs") as box:
        box("put", "-q", tmp_path / "f", "/f")
        # 4 MiB of it stay in DRAM
        read_until(box, tmp_path, "a cache with the file",
                   lambda: flash(box, "used_bytes") >= SIZE and flash(box, "written_bytes_total") >= SIZE - 5 * MIB)
        hits = flash(box, "hit_bytes_total")
        read_until(box, tmp_path, "a read from flash", lambda: flash(box, "hit_bytes_total") >= hits + SIZE)
        assert flash(box, "written_bytes_total") <= 1.05 * flash(box, "filled_bytes_total")
        box.kill("node-1")
        box.up("--procs")
        restored = re.findall(r"cache_restored segments=(\d+)", (box.folder / "log" / "node-1.log").read_text())
        assert int(restored[-1]) * SEGMENT >= SIZE - 8 * MIB
        read_until(box, tmp_path, "a read from flash", lambda: flash(box, "hit_bytes_total") >= SIZE / 2)
        assert flash(box, "failures_total") == 0
        box.down()
        rot(box.folder / "flash" / "node-1" / "1" / "cache")
        box.up("--procs")
        read_until(box, tmp_path, "reads of rotten segments", lambda: flash(box, "failures_total") >= 100)
        read_until(box, tmp_path, "a read from flash", lambda: flash(box, "hit_bytes_total") >= SIZE / 2)
        box("rm", "/f")
        assert box("get", "-q", "/f", tmp_path / "out", ok=False).returncode == 1
        box.down()
        # The cache is no data: without it the node serves what the disks have.
        (box.folder / "flash" / "node-1" / "1" / "cache").unlink()
        box.up("--procs")
        box("put", "-q", tmp_path / "f", "/f")
        read_until(box, tmp_path, "a read from flash", lambda: flash(box, "hits_total") > 0)


def test_caches_that_are_too_small_or_differ_are_refused(tmp_path):
    done = run("up", "--dir", tmp_path / "small", "--node-flash", "20MiB", "--disks", 2)
    assert done.returncode == 2 and "each of the 2 caches of a node needs 16 MiB" in done.stderr
    assert run("up", "--dir", tmp_path / "odd", "--node-flash", "much").returncode == 2
    with Box(tmp_path / "box", "--nodes", 1, "--disks", 1, "--encoding", "r1", "--node-flash", "16MiB") as box:
        done = run("up", "--dir", box.folder, "--node-flash", "32MiB")
        assert done.returncode == 1 and "--node-flash" in done.stderr
